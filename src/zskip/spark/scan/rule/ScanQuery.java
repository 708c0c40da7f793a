import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.AttributeSet$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.DataSourceUtils;
import org.apache.spark.sql.execution.datasources.FileSourceStrategy$;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.Option;
import scala.collection.JavaConverters;
import SEQ;

/** The query around a relation: its filter, the files that it leaves, and notes for the scan. */
final class ScanQuery {
  static final Map NO_NOTES = Collections.emptyMap();
  static final Seq NONE = seq(new ArrayList());

  final Expression condition;
  final Seq ofPartitions;
  final Seq ofData;
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
  Map notes = NO_NOTES;
  /** Joins that do not prune the scan, for their reasons: of `JoinCandidate`. */
  List unused = Collections.emptyList();

  /** Splits a condition (null: none) as `FileSourceStrategy` does. */
  ScanQuery(Expression condition, LogicalRelation node, HadoopFsRelation relation) {
    this.condition = condition;
    List all = all(condition);
    List conjuncts = handed(all);
    Seq filters = DataSourceStrategy$.MODULE$.normalizeExprs(seq(conjuncts), node.output());
    this.ofPartitions =
      (Seq) DataSourceUtils.getPartitionFiltersAndDataFilters(relation.partitionSchema(), filters)._1();
    List names = java.util.Arrays.asList(relation.partitionSchema().fieldNames());
    AttributeSet partitions = columns(node, names, true);
    AttributeSet others = columns(node, names, false);
    List handed = JavaConverters.seqAsJavaList(filters);
    this.ofData = ofData(handed, partitions, others);
    this.whole = conjuncts.size() == all.size() && !mixed(handed, partitions, others);
  }

  /** A condition over a relation without partition columns. */
  ScanQuery(Expression condition, Seq output) {
    this.condition = condition;
    List all = all(condition);
    List conjuncts = handed(all);
    this.ofPartitions = NONE;
    this.ofData = DataSourceStrategy$.MODULE$.normalizeExprs(seq(conjuncts), output);
    this.whole = conjuncts.size() == all.size();
  }

  private static List all(Expression condition) {
    if (condition == null) return Collections.emptyList();
    return JavaConverters.seqAsJavaList(FileSourceStrategy$.MODULE$.splitConjunctivePredicates(condition));
  }

  /** The conjuncts that scans are handed. */
  private static List handed(List all) {
    List conjuncts = new ArrayList();
    for (int i = 0; i < all.size(); i++) {
      Expression one = (Expression) all.get(i);
      if (one.deterministic() && !SubqueryExpression.hasSubquery(one)) conjuncts.add(one);
    }
    return conjuncts;
  }

  /** The columns of a relation that are among some names, or that are not. */
  private static AttributeSet columns(LogicalRelation node, List names, boolean among) {
    List output = JavaConverters.seqAsJavaList(node.output());
    List columns = new ArrayList();
    for (int i = 0; i < output.size(); i++) {
      if (names.contains(((AttributeReference) output.get(i)).name()) == among) columns.add(output.get(i));
    }
    return AttributeSet$.MODULE$.apply((scala.collection.Iterable) seq(columns));
  }

  /** Whether a filter is over columns of both kinds: then scans are handed only a part of it. */
  private static boolean mixed(List filters, AttributeSet ofPartitions, AttributeSet ofOthers) {
    for (int i = 0; i < filters.size(); i++) {
      AttributeSet columns = ((Expression) filters.get(i)).references();
      if (columns.intersect(ofPartitions).nonEmpty() && columns.intersect(ofOthers).nonEmpty()) return true;
    }
    return false;
  }

  private static Seq ofData(List filters, AttributeSet ofPartitions, AttributeSet ofOthers) {
    List parts = new ArrayList();
    for (int i = 0; i < filters.size(); i++) {
      Expression filter = (Expression) filters.get(i);
      if (!filter.references().intersect(ofPartitions).nonEmpty()) {
        parts.add(filter);
      } else {
        Option part = FileSourceStrategy$.MODULE$.extractPredicatesWithinOutputSet(filter, ofOthers);
        if (part.isDefined()) parts.add(part.get());
      }
    }
    return seq(parts);
  }

  static Seq seq(List items) { return PythonUtils.toSeq(items); }

  /** The same query with one note more; values need `equals`, since scans of unequal notes are never shared. */
  ScanQuery with(String kind, Object value) {
    ScanQuery query = new ScanQuery(this);
    query.notes = new LinkedHashMap(notes);
    query.notes.put(kind, value);
    return query;
  }

  /** The same query without notes. */
  ScanQuery bare() {
    ScanQuery query = new ScanQuery(this);
    query.notes = NO_NOTES;
    query.unused = Collections.emptyList();
    return query;
  }

  /** The same query with other joins. */
  ScanQuery with(JoinCandidates candidates) {
    ScanQuery query = new ScanQuery(this);
    query.notes = new LinkedHashMap(notes);
    query.notes.remove(Joins.NOTE);
    if (!candidates.used.isEmpty()) query.notes.put(Joins.NOTE, candidates);
    query.unused = candidates.unused;
    return query;
  }

  private ScanQuery(ScanQuery other) {
    condition = other.condition;
    ofPartitions = other.ofPartitions;
    ofData = other.ofData;
    whole = other.whole;
    ticket = other.ticket;
    bytes = other.bytes;
    paths = other.paths;
    text = other.text;
    listing = other.listing;
    kept = other.kept;
    notes = other.notes;
    unused = other.unused;
  }

  /** Whether Spark hands a scan the filters that are known here. */
  boolean isOver(Seq partitionFilters, Seq dataFilters) {
    return ofPartitions.equals(partitionFilters) && ofData.equals(dataFilters);
  }

  /** Asks Python what the query would read; false where it does not know. */
  boolean prepare(zskip index) {
    listing = index.listed(ofPartitions, ofData);
    Map known = new LinkedHashMap(notes);
    // Joins are asked for their keys when the query runs.
    known.remove(Joins.NOTE);
    Object[] arguments = {ofPartitions, ofData, Json.write(known)};
    Map plan = index.in(this).choose("prepare", arguments);
    if (plan == null) return false;
    ticket = plan.get("ticket");
    bytes = Math.max(1, (long) (index.files.sizeInBytes() * ((Number) plan.get("share")).doubleValue()));
    kept = Json.bits((String) plan.get("kept"));
    List named = new ArrayList();
    List roots = JavaConverters.seqAsJavaList(index.files.rootPaths());
    for (int i = 0; i < roots.size(); i++) named.add(new ShownPath((Path) roots.get(i), (String) plan.get("text")));
    paths = seq(named);
    return true;
  }
}
