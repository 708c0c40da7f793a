import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.sources.BaseRelation;
import scala.Function1;

/** Gives each relation of ours an index that knows the filter above it. */
final class Relations extends scala.runtime.AbstractPartialFunction {
  /** Null where other indexes than ours are left alone. */
  private final Tables tables;

  Relations(Tables tables) { this.tables = tables; }

  static LogicalPlan apply(LogicalPlan plan, Tables tables) {
    return (LogicalPlan) plan.transformDown(new Relations(tables));
  }

  public boolean isDefinedAt(Object node) { return true; }

  public Object applyOrElse(Object node, Function1 otherwise) {
    if (node instanceof Filter && ((Filter) node).child() instanceof LogicalRelation) {
      Filter filter = (Filter) node;
      LogicalRelation relation = (LogicalRelation) filter.child();
      LogicalRelation known = known(relation, filter.condition());
      return known == relation ? filter : new Filter(filter.condition(), known);
    }
    return node instanceof LogicalRelation ? known((LogicalRelation) node, null) : node;
  }

  /** A relation of others over an index of ours; null where there is none, or where this fails. */
  private zskip wrapped(LogicalRelation node) {
    try {
      return tables.over(node);
    } catch (Exception e) {
      Faults.tell("the look for an index", e);
      return null;
    } catch (LinkageError e) {
      Faults.tell("the look for an index", e);
      return null;
    }
  }

  LogicalRelation known(LogicalRelation node, Expression condition) {
    zskip index = index(node);
    if (index == null && tables != null && node.relation() instanceof HadoopFsRelation) index = wrapped(node);
    if (index == null) return node;
    if (index.query != null && (condition == null || condition.equals(index.query.condition))) return node;
    Query query = new Query(condition, node, (HadoopFsRelation) node.relation());
    if (index.notes().containsKey(Counts.KIND)) query = query.with(Counts.KIND, index.notes().get(Counts.KIND));
    return query.prepare(index) ? over(node, index.in(query)) : node;
  }

  /** The index of a relation of ours; null where it is none. */
  static zskip index(LogicalPlan node) {
    if (!(node instanceof LogicalRelation)) return null;
    BaseRelation relation = ((LogicalRelation) node).relation();
    if (!(relation instanceof HadoopFsRelation)) return null;
    FileIndex location = ((HadoopFsRelation) relation).location();
    return location instanceof zskip ? (zskip) location : null;
  }

  /** A relation of ours whose query has one note more, of which plans tell. */
  static LogicalRelation noted(LogicalRelation node, String kind, Object value) {
    Query query = index(node).query.with(kind, value);
    return query.prepare(index(node)) ? over(node, query) : node;
  }

  /** A relation of ours in another query. */
  static LogicalRelation over(LogicalRelation node, Query query) { return over(node, index(node).in(query)); }

  static LogicalRelation over(LogicalRelation node, zskip index) {
    HadoopFsRelation relation = (HadoopFsRelation) node.relation();
    HadoopFsRelation known = new HadoopFsRelation(
      index,
      relation.partitionSchema(),
      relation.dataSchema(),
      relation.bucketSpec(),
      relation.fileFormat(),
      relation.options(),
      relation.sparkSession());
    Object[] parts = new Object[node.productArity()];
    for (int i = 0; i < parts.length; i++) parts[i] = node.productElement(i);
    parts[0] = known;
    return (LogicalRelation) node.makeCopy(parts);
  }
}
