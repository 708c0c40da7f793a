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

/** The query that a relation stands in: its filter, what that leaves of the table, and notes for the scan. */
final class Query {
  static final Map NO_NOTES = Collections.emptyMap();

  final Expression condition;
  final Seq ofPartitions;
  final Seq ofData;
  /** Whether the scan is handed the whole condition: nothing of it is left to what stands above. */
  final boolean whole;
  Object ticket;
  long bytes;
  Seq paths;
  /** What Python is told of the files that another index lists, and which of them are kept; null where unknown. */
  String listing;
  BitSet kept;
  /** What else the scan may use, by the kind of pruning; goes to `notes.py` when files are listed. */
  Map notes = NO_NOTES;
  /** Joins that scans are not pruned by, which makes no difference to their rows: of `Offer`. */
  List unused = Collections.emptyList();

  /** Splits a condition (null: none) as `FileSourceStrategy` does. */
  Query(Expression condition, LogicalRelation node, HadoopFsRelation relation) {
    this.condition = condition;
    List conjuncts = new ArrayList();
    List all = Collections.emptyList();
    if (condition != null) {
      all = JavaConverters.seqAsJavaList(FileSourceStrategy$.MODULE$.splitConjunctivePredicates(condition));
      for (int i = 0; i < all.size(); i++) {
        Expression one = (Expression) all.get(i);
        if (one.deterministic() && !SubqueryExpression.hasSubquery(one)) conjuncts.add(one);
      }
    }
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

  /** The columns of a relation that are among some names, or that are not. */
  private static AttributeSet columns(LogicalRelation node, List names, boolean among) {
    List output = JavaConverters.seqAsJavaList(node.output());
    List found = new ArrayList();
    for (int i = 0; i < output.size(); i++) {
      if (names.contains(((AttributeReference) output.get(i)).name()) == among) found.add(output.get(i));
    }
    return AttributeSet$.MODULE$.apply((scala.collection.Iterable) seq(found));
  }

  /** Whether a filter is over columns of both kinds: then scans are handed only a part of it. */
  private static boolean mixed(List filters, AttributeSet ofPartitions, AttributeSet ofOthers) {
    for (int i = 0; i < filters.size(); i++) {
      AttributeSet found = ((Expression) filters.get(i)).references();
      if (found.intersect(ofPartitions).nonEmpty() && found.intersect(ofOthers).nonEmpty()) return true;
    }
    return false;
  }

  private static Seq ofData(List filters, AttributeSet ofPartitions, AttributeSet ofOthers) {
    List found = new ArrayList();
    for (int i = 0; i < filters.size(); i++) {
      Expression filter = (Expression) filters.get(i);
      if (!filter.references().intersect(ofPartitions).nonEmpty()) {
        found.add(filter);
      } else {
        Option part = FileSourceStrategy$.MODULE$.extractPredicatesWithinOutputSet(filter, ofOthers);
        if (part.isDefined()) found.add(part.get());
      }
    }
    return seq(found);
  }

  static Seq seq(List items) { return PythonUtils.toSeq(items); }

  /** The same query with one note more; values need `equals`, since scans of unequal notes are never shared. */
  Query with(String kind, Object value) {
    Query made = new Query(this);
    made.notes = new LinkedHashMap(notes);
    made.notes.put(kind, value);
    return made;
  }

  /** The same query without notes. */
  Query bare() {
    Query made = new Query(this);
    made.notes = NO_NOTES;
    made.unused = Collections.emptyList();
    return made;
  }

  /** The same query with other joins. */
  Query with(Offers offers) {
    Query made = new Query(this);
    made.notes = new LinkedHashMap(notes);
    made.notes.remove(Joins.NOTE);
    if (!offers.used.isEmpty()) made.notes.put(Joins.NOTE, offers);
    made.unused = offers.unused;
    return made;
  }

  private Query(Query other) {
    condition = other.condition;
    ofPartitions = other.ofPartitions;
    ofData = other.ofData;
    whole = other.whole;
    ticket = other.ticket;
    bytes = other.bytes;
    paths = other.paths;
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
    String answer = (String) index.in(this).ask("prepare", new Object[] {ofPartitions, ofData, notes});
    if (answer == null) return false;
    Map found = Text.read(answer);
    ticket = found.get("ticket");
    bytes = Math.max(1, (long) (index.files.sizeInBytes() * ((Number) found.get("share")).doubleValue()));
    if (found.get("kept") != null) kept = Text.bits((String) found.get("kept"));
    List named = new ArrayList();
    List roots = JavaConverters.seqAsJavaList(index.files.rootPaths());
    for (int i = 0; i < roots.size(); i++) named.add(new Place((Path) roots.get(i), (String) found.get("text")));
    paths = seq(named);
    return true;
  }
}
