import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NamedRelation;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Subquery;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;

/** A relation of ours whose rows joins may drop. */
final class JoinTarget {
  /** Iceberg's column of the names of files. */
  private static final String FILE = "_file";

  /** Equal for relations of the same files. */
  final Object files;
  /** That its query reads. */
  final long bytes;
  private final LogicalPlan node;
  private final ZskipFiles index;
  private final PrunedScan scan;

  private JoinTarget(LogicalPlan node, ZskipFiles index, PrunedScan scan) {
    this.node = node;
    this.index = index;
    this.scan = scan;
    this.files = scan == null ? index.files : scan.iceberg().scan;
    this.bytes = scan == null ? index.query.bytes : scan.query.bytes;
  }

  /** Null where the node is none. */
  static JoinTarget of(LogicalPlan node) {
    PrunedScan scan = ScanRelations.scan(node);
    ZskipFiles index = scan == null ? Relations.index(node) : null;
    return scan == null && (index == null || index.query == null) ? null : new JoinTarget(node, index, scan);
  }

  /** The share of the bytes that one value of a column leaves on average; null where that is not known. */
  Object share(String column) { return ask("share", column); }

  /** Whether the table's workload is recorded: the keys of a MERGE are part of it even where they skip no file. */
  boolean isRecorded() { return Boolean.TRUE.equals(ask("recorded")); }

  private Object ask(String question, Object... arguments) {
    if (scan == null) return index.ask(question, arguments);
    return scan.listing().index.python.ask(question, ZskipFiles.after(null, arguments));
  }

  /** Whether a MERGE of Delta's reads it. */
  boolean isMerge() { return index != null && Delta.isChange(index.files); }

  /** Whether the statement at the root of a plan may change its rows. */
  boolean isChangedBy(LogicalPlan root) {
    if (scan == null) return isMerge();
    DataSourceV2Relation table = ((DataSourceV2ScanRelation) node).relation();
    if (table.table() instanceof RowLevelOperationTable) return true;
    // A MERGE that only inserts.
    // Its `table`, of which Spark 4.3 has two methods; Janino finds none then.
    if (root instanceof AppendData) return ((NamedRelation) root.productElement(0)).name().equals(table.name());
    return isSearch(root);
  }

  /** Whether Spark might wait for itself: before 4.0, where the subquery for the names of files runs one for keys. */
  boolean isStuckIn(LogicalPlan root) {
    return scan != null && isSearch(root) && SparkSession.active().version().startsWith("3.");
  }

  /**
   * Whether a plan gives the names of its files: those with rows that Iceberg's UPDATE, DELETE or MERGE changes, which
   * it then writes anew. Files with others stay in the table unread.
   */
  private boolean isSearch(LogicalPlan root) {
    LogicalPlan plan = root instanceof Subquery ? ((Subquery) root).child() : root;
    if (!(plan instanceof Aggregate) || ((Aggregate) plan).groupingExpressions().size() != 1) return false;
    Object name = ((Aggregate) plan).groupingExpressions().apply(0);
    return name instanceof Attribute
      && ((Attribute) name).name().equals(FILE)
      && ((Attribute) name).references().subsetOf(node.outputSet());
  }

  /** Whether Spark hands it what joins broadcast; others look for that when they list their files. */
  boolean takesBroadcasts() { return scan != null && scan.names == null; }

  /** The relation with its joins. */
  LogicalPlan with(JoinCandidates joins) {
    if (scan != null) return RuntimeKeys.over((DataSourceV2ScanRelation) node, scan, joins);
    return Relations.over((LogicalRelation) node, index.query.with(joins));
  }
}
