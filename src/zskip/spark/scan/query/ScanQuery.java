import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet$;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.DataSourceUtils;
import org.apache.spark.sql.execution.datasources.FileSourceStrategy$;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.Option;
import SEQ;

/** The query around a relation: its filter, the files that it leaves, and notes for the scan. */
final class ScanQuery implements Cloneable {
  /** The notes of joins and of counted files. */
  static final String JOIN = "join";
  static final String COUNT = "count";
  static final Map<String, Object> NO_NOTES = Collections.emptyMap();

  final Expression condition;
  final Seq<Expression> ofPartitions;
  final Seq<Expression> ofData;
  /** Whether Spark hands the whole condition to the scan. */
  final boolean whole;
  Object ticket;
  long bytes;
  Seq paths;
  /** What is left of the files, as plans show it. */
  String text;
  /** The listing, as JSON; null if the files would have to be listed first. */
  String listing;
  /** The files that the filters leave; null where that is not known. */
  BitSet kept;
  /** What else prunes the scan, by the kind of pruning; `notes.py` applies it when files are listed. */
  Map<String, Object> notes = NO_NOTES;
  /** Joins that do not prune the scan, for their reasons. */
  List<JoinCandidate> unused = Collections.emptyList();

  /** Splits a condition (null: none) as `FileSourceStrategy` does. */
  ScanQuery(Expression condition, LogicalRelation node, HadoopFsRelation relation) {
    this.condition = condition;
    List<Expression> all = conjuncts(condition);
    List<Expression> conjuncts = handed(all);
    Seq filters = DataSourceStrategy$.MODULE$.normalizeExprs(Scala.seq(conjuncts), (Seq) node.output());
    this.ofPartitions =
      (Seq) DataSourceUtils.getPartitionFiltersAndDataFilters(relation.partitionSchema(), filters)._1();
    List<String> names = Arrays.asList(relation.partitionSchema().fieldNames());
    AttributeSet partitions = columns(node, names, true);
    AttributeSet others = columns(node, names, false);
    List<Expression> handed = Scala.list(filters);
    this.ofData = ofData(handed, partitions, others);
    this.whole = conjuncts.size() == all.size() && !mixed(handed, partitions, others);
  }

  /** A condition over a relation without partition columns. */
  ScanQuery(Expression condition, Seq output) {
    this.condition = condition;
    List<Expression> all = conjuncts(condition);
    List<Expression> conjuncts = handed(all);
    this.ofPartitions = Scala.NONE;
    this.ofData = DataSourceStrategy$.MODULE$.normalizeExprs(Scala.seq(conjuncts), output);
    this.whole = conjuncts.size() == all.size();
  }

  /** The parts of a condition that are joined by AND; null is none. */
  static List<Expression> conjuncts(Expression condition) {
    if (condition == null) return Collections.emptyList();
    return Scala.list(FileSourceStrategy$.MODULE$.splitConjunctivePredicates(condition));
  }

  /** The conjuncts that scans are handed. */
  private static List<Expression> handed(List<Expression> all) {
    List<Expression> conjuncts = new ArrayList<>();
    for (Expression one : all) {
      if (one.deterministic() && !SubqueryExpression.hasSubquery(one)) conjuncts.add(one);
    }
    return conjuncts;
  }

  /** The columns of a relation that are among some names, or that are not. */
  private static AttributeSet columns(LogicalRelation node, List<String> names, boolean among) {
    List<AttributeReference> output = Scala.list(node.output());
    List<Attribute> columns = new ArrayList<>();
    for (AttributeReference column : output) {
      if (names.contains(column.name()) == among) columns.add(column);
    }
    return AttributeSet$.MODULE$.apply((scala.collection.Iterable) Scala.seq(columns));
  }

  /** Whether a filter is over columns of both kinds: then scans are handed only a part of it. */
  private static boolean mixed(List<Expression> filters, AttributeSet ofPartitions, AttributeSet ofOthers) {
    for (Expression filter : filters) {
      AttributeSet columns = filter.references();
      if (columns.intersect(ofPartitions).nonEmpty() && columns.intersect(ofOthers).nonEmpty()) return true;
    }
    return false;
  }

  private static Seq<Expression> ofData(List<Expression> filters, AttributeSet ofPartitions, AttributeSet ofOthers) {
    List<Expression> parts = new ArrayList<>();
    for (Expression filter : filters) {
      if (!filter.references().intersect(ofPartitions).nonEmpty()) {
        parts.add(filter);
      } else {
        Option part = FileSourceStrategy$.MODULE$.extractPredicatesWithinOutputSet(filter, ofOthers);
        if (part.isDefined()) parts.add((Expression) part.get());
      }
    }
    return Scala.seq(parts);
  }

  /** The same query with one note more; values need `equals`, since scans of unequal notes are never shared. */
  ScanQuery with(String kind, Object value) {
    ScanQuery query = copy();
    query.notes = new LinkedHashMap<>(notes);
    query.notes.put(kind, value);
    return query;
  }

  /** The same query without notes. */
  ScanQuery bare() {
    ScanQuery query = copy();
    query.notes = NO_NOTES;
    query.unused = Collections.emptyList();
    return query;
  }

  /** The same query with other joins. */
  ScanQuery with(JoinCandidates candidates) {
    ScanQuery query = copy();
    query.notes = new LinkedHashMap<>(notes);
    query.notes.remove(JOIN);
    if (!candidates.used.isEmpty()) query.notes.put(JOIN, candidates);
    query.unused = candidates.unused;
    return query;
  }

  private ScanQuery copy() {
    try {
      return (ScanQuery) clone();
    } catch (CloneNotSupportedException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Whether Spark hands a scan the filters that are known here. */
  boolean isOver(Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
    return ofPartitions.equals(partitionFilters) && ofData.equals(dataFilters);
  }

  /** Asks Python what the query would read; false where it does not know. */
  boolean prepare(ZskipFiles index) {
    listing = index.listed(ofPartitions, ofData);
    Map<String, Object> known = new LinkedHashMap<>(notes);
    // Joins are asked for their keys when the query runs.
    known.remove(JOIN);
    Map<String, Object> plan = index.in(this).choose("prepare", ofPartitions, ofData, Json.write(known));
    if (plan == null) return false;
    ticket = plan.get("ticket");
    bytes = Math.max(1, (long) (index.files.sizeInBytes() * ((Number) plan.get("share")).doubleValue()));
    kept = Json.bits((String) plan.get("kept"));
    List<Path> named = new ArrayList<>();
    for (Path root : Scala.list(index.files.rootPaths())) named.add(new ShownPath(root, (String) plan.get("text")));
    paths = Scala.seq(named);
    return true;
  }
}
