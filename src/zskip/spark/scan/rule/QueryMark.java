import java.util.ArrayList;
import java.util.Arrays;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.Option;

/**
 * Makes one query prune in a session that is not enabled: the rule looks for an option of its relations.
 *
 * Spark's own rules keep the option, and no other query sees it.
 */
final class QueryMark {
  private static final List<String> NO_TABLES = Arrays.asList("LocalRelation", "OneRowRelation", "CTERelationRef");
  private final IndexedTables tables;
  private final boolean isExplained;
  /** The leaves that Spark does not take from its cache; null if nothing is cached. */
  private final List<LogicalPlan> uncached;
  private final Map<LogicalPlan, LogicalPlan> marked = new IdentityHashMap<>();
  private final List<Map<String, Object>> described = new ArrayList<>();

  private QueryMark(IndexedTables tables, boolean isExplained, List<LogicalPlan> uncached) {
    this.tables = tables;
    this.isExplained = isExplained;
    this.uncached = uncached;
  }

  static boolean isOn(LogicalRelation node) {
    return node.relation() instanceof HadoopFsRelation && mark((HadoopFsRelation) node.relation()) != null;
  }

  /** The value of the option; null where there is none. */
  static Object mark(HadoopFsRelation relation) {
    Option mark = relation.options().get(IndexedTables.ENABLED);
    return mark.isDefined() ? mark.get() : null;
  }

  /** A relation with the option. */
  static LogicalRelation marked(LogicalRelation node, HadoopFsRelation relation, String mark) {
    scala.collection.immutable.Map options =
      (scala.collection.immutable.Map) (Object) relation.options().updated(IndexedTables.ENABLED, mark);
    return Relations.over(node, relation.location(), options);
  }

  /**
   * The marked plan, and its tables as JSON: the label and root of each, and why it is read in full.
   *
   * cached: the plan with Spark's cached data, null if nothing is cached.
   */
  static List<Object> apply(LogicalPlan plan, LogicalPlan cached, IndexedTables tables, boolean isExplained) {
    QueryMark mark = new QueryMark(tables, isExplained, cached == null ? null : leaves(cached));
    for (LogicalPlan leaf : leaves(plan)) mark.visit(leaf);
    LogicalPlan result = plan;
    if (!mark.marked.isEmpty()) {
      result = (LogicalPlan) plan.transformUpWithSubqueries(Scala.replacing(mark.marked));
      result.setAnalyzed();
    }
    return Arrays.asList(result, Json.write(mark.described));
  }

  /** The leaves of a plan and of the subqueries in its expressions. */
  private static List<LogicalPlan> leaves(LogicalPlan plan) {
    List<LogicalPlan> leaves = new ArrayList<>(Scala.list(plan.collectLeaves()));
    for (LogicalPlan subquery : Scala.list(plan.subqueriesAll())) {
      leaves.addAll(Scala.list(subquery.collectLeaves()));
    }
    return leaves;
  }

  private void visit(LogicalPlan leaf) {
    if (marked.containsKey(leaf) || Relations.index(leaf) != null || markIceberg(leaf)) return;
    if (!(leaf instanceof LogicalRelation)) {
      String kind = leaf.getClass().getSimpleName();
      boolean isTable = kind.indexOf("Relation") >= 0 && !NO_TABLES.contains(kind);
      if (isTable) refuse(leaf.nodeName(), kind + " is no table of Parquet files", false);
      return;
    }
    LogicalRelation node = (LogicalRelation) leaf;
    if (!(node.relation() instanceof HadoopFsRelation)) {
      refuse(leaf.nodeName(), node.relation().getClass().getSimpleName() + " is no table of files", false);
      return;
    }
    HadoopFsRelation relation = (HadoopFsRelation) node.relation();
    if (uncached != null && !uncached.contains(leaf)) {
      refuse(label(node), "Spark has it cached", false);
      return;
    }
    try {
      // Delta chooses its files when the query is optimized.
      String obstacle = Delta.isFormat(relation.fileFormat()) ? null : IndexedTables.obstacle(node, relation);
      if (obstacle != null) refuse(label(node), obstacle, tables.isIndexed(relation));
      else mark(node, relation, tables.find(relation));
    } catch (ReflectiveOperationException e) {
      refuse(label(node), String.valueOf(e), true);
    }
  }

  /** Whether a leaf is a table that Iceberg reads, which plans its files when the query is optimized. */
  private boolean markIceberg(LogicalPlan leaf) {
    if (!(leaf instanceof DataSourceV2Relation)) return false;
    DataSourceV2Relation node = (DataSourceV2Relation) leaf;
    try {
      Path root = IcebergScan.root(node.table());
      if (root == null) return false;
      boolean isIndexed = tables.isIndexed(root);
      if (!isIndexed) refuse(node.table().name(), "zskip has not indexed it", false);
      else if (uncached != null && !uncached.contains(leaf)) refuse(node.table().name(), "Spark has it cached", false);
      else {
        describe(node.table().name()).put("root", root.toString());
        marked.put(leaf, ScanRelations.marked(node, "true"));
      }
    } catch (ReflectiveOperationException e) {
      refuse(node.table().name(), String.valueOf(e), true);
    }
    return true;
  }

  private void mark(LogicalRelation node, HadoopFsRelation relation, BoundIndex index) {
    if (index == null) {
      refuse(label(node), "zskip has not indexed it", false);
      return;
    }
    Map<String, Object> table = describe(label(node));
    table.put("root", index.root.toString());
    if (isExplained || relation.location() instanceof PartitioningAwareFileIndex) {
      Listing listing = Listing.of(relation.location(), index, Scala.NONE, Scala.NONE);
      listing.count();
      table.put("others", listing.others);
      table.put("files", listing.files);
      table.put("bytes", listing.bytes);
      table.put("rows", listing.rows < 0 ? null : Long.valueOf(listing.rows));
    }
    marked.put(node, marked(node, relation, "true"));
  }

  /** isIndexed: so that the user is told why the index is not used. */
  private void refuse(String label, String reason, boolean isIndexed) {
    Map<String, Object> table = describe(label);
    table.put("reason", reason);
    table.put("is_indexed", isIndexed);
  }

  private Map<String, Object> describe(String label) {
    Map<String, Object> table = new LinkedHashMap<>();
    table.put("label", label);
    described.add(table);
    return table;
  }

  static String label(LogicalRelation node) {
    if (node.catalogTable().isDefined()) {
      return ((CatalogTable) node.catalogTable().get()).identifier().unquotedString();
    }
    List<Path> roots = Scala.list(((HadoopFsRelation) node.relation()).location().rootPaths());
    StringBuilder label = new StringBuilder();
    for (int i = 0; i < roots.size() && i < 3; i++) label.append(i == 0 ? "" : ", ").append(roots.get(i));
    return label.toString();
  }
}
