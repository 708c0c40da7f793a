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
  private static final List NO_TABLES =
    Arrays.asList(new Object[] {"LocalRelation", "OneRowRelation", "CTERelationRef"});
  private final IndexedTables tables;
  private final boolean isExplained;
  /** The leaves that Spark does not take from its cache; null if nothing is cached. */
  private final List uncached;
  private final Map marked = new IdentityHashMap();
  private final List described = new ArrayList();

  private QueryMark(IndexedTables tables, boolean isExplained, List uncached) {
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
  static List apply(LogicalPlan plan, LogicalPlan cached, IndexedTables tables, boolean isExplained) {
    QueryMark mark = new QueryMark(tables, isExplained, cached == null ? null : leaves(cached));
    List leaves = leaves(plan);
    for (int i = 0; i < leaves.size(); i++) mark.visit((LogicalPlan) leaves.get(i));
    LogicalPlan result = plan;
    if (!mark.marked.isEmpty()) {
      result = (LogicalPlan) plan.transformUpWithSubqueries(new JoinSearch.Exchange(mark.marked));
      result.setAnalyzed();
    }
    return Arrays.asList(new Object[] {result, Json.write(mark.described)});
  }

  /** The leaves of a plan and of the subqueries in its expressions. */
  private static List leaves(LogicalPlan plan) {
    List leaves = new ArrayList(Columns.list(plan.collectLeaves()));
    List subqueries = Columns.list(plan.subqueriesAll());
    for (int i = 0; i < subqueries.size(); i++) {
      leaves.addAll(Columns.list(((LogicalPlan) subqueries.get(i)).collectLeaves()));
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
    Map table = describe(label(node));
    table.put("root", index.root.toString());
    if (isExplained || relation.location() instanceof PartitioningAwareFileIndex) {
      Listing listing = Listing.of(relation.location(), index, ScanQuery.NONE, ScanQuery.NONE);
      listing.count();
      table.put("others", Integer.valueOf(listing.others));
      table.put("files", Integer.valueOf(listing.files));
      table.put("bytes", Long.valueOf(listing.bytes));
      table.put("rows", listing.rows < 0 ? null : Long.valueOf(listing.rows));
    }
    marked.put(node, marked(node, relation, "true"));
  }

  /** isIndexed: so that the user is told why the index is not used. */
  private void refuse(String label, String reason, boolean isIndexed) {
    Map table = describe(label);
    table.put("reason", reason);
    table.put("is_indexed", Boolean.valueOf(isIndexed));
  }

  private Map describe(String label) {
    Map table = new LinkedHashMap();
    table.put("label", label);
    described.add(table);
    return table;
  }

  static String label(LogicalRelation node) {
    if (node.catalogTable().isDefined()) {
      return ((CatalogTable) node.catalogTable().get()).identifier().unquotedString();
    }
    List roots = Columns.list(((HadoopFsRelation) node.relation()).location().rootPaths());
    StringBuilder label = new StringBuilder();
    for (int i = 0; i < roots.size() && i < 3; i++) label.append(i == 0 ? "" : ", ").append(roots.get(i));
    return label.toString();
  }
}
