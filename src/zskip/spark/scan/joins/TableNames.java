import java.util.List;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec;
import scala.Option;
import SEQ;

/** The names by which people know the tables of a plan. */
final class TableNames {
  /** Such as `date_dim on d_date_sk`, of a side that is broadcast. */
  static String of(SparkPlan side, Expression key) {
    List<Attribute> attributes = Scala.list(key.references().toSeq());
    String column = attributes.size() == 1 ? ((Attribute) attributes.get(0)).name() : key.sql();
    FileSourceScanExec scan = scan(side, column);
    if (scan == null) scan = scan(side, null);
    return (scan == null ? "a table" : table(scan)) + " on " + column;
  }

  /** The first scan of a column, or of anything. */
  private static FileSourceScanExec scan(SparkPlan node, String column) {
    if (node instanceof FileSourceScanExec) {
      for (Attribute attribute : Scala.list(node.output())) {
        if (attribute.name().equals(column)) return (FileSourceScanExec) node;
      }
      return column == null ? (FileSourceScanExec) node : null;
    }
    if (node instanceof QueryStageExec) return scan(((QueryStageExec) node).plan(), column);
    if (node instanceof ReusedExchangeExec) return scan(((ReusedExchangeExec) node).child(), column);
    for (SparkPlan child : Broadcasts.children(node)) {
      FileSourceScanExec scan = scan(child, column);
      if (scan != null) return scan;
    }
    return null;
  }

  /** Such a name, of a side whose plan is still a logical one. */
  static String of(LogicalPlan side, Expression key) {
    List<Attribute> attributes = Scala.list(key.references().toSeq());
    String column = attributes.size() == 1 ? ((Attribute) attributes.get(0)).name() : key.sql();
    List<LogicalPlan> leaves = Scala.list(side.collectLeaves());
    LogicalPlan table = (LogicalPlan) leaves.get(0);
    for (LogicalPlan leaf : leaves) {
      if (key.references().subsetOf(leaf.outputSet())) table = leaf;
    }
    return table(table) + " on " + column;
  }

  /** The first table of a part of a plan. */
  static String first(LogicalPlan side) { return table((LogicalPlan) Scala.list(side.collectLeaves()).get(0)); }

  private static String table(LogicalPlan leaf) {
    if (leaf instanceof DataSourceV2ScanRelation) {
      String name = ((DataSourceV2ScanRelation) leaf).relation().name();
      return name.substring(name.lastIndexOf('.') + 1);
    }
    if (!(leaf instanceof LogicalRelation)) return "a table";
    LogicalRelation relation = (LogicalRelation) leaf;
    if (relation.catalogTable().isDefined()) {
      return ((CatalogTable) relation.catalogTable().get()).identifier().table();
    }
    boolean files = relation.relation() instanceof HadoopFsRelation;
    return files ? path(((HadoopFsRelation) relation.relation()).location().rootPaths()) : "a table";
  }

  private static String table(FileSourceScanExec scan) {
    Option identifier = scan.tableIdentifier();
    if (identifier.isDefined()) return ((TableIdentifier) identifier.get()).table();
    return path(scan.relation().location().rootPaths());
  }

  /** The last name of the first path. */
  static String path(Seq<Path> paths) {
    List<Path> all = Scala.list(paths);
    return all.isEmpty() ? "a table" : new Path(((Path) all.get(0)).toUri()).getName();
  }
}
