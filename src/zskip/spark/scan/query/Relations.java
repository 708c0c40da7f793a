import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.sources.BaseRelation;
import scala.Function1;

/** Binds an index to each relation that has one, with the filter above it. */
final class Relations extends scala.runtime.AbstractPartialFunction {
  private final IndexedTables tables;
  private final boolean isEnabled = IndexedTables.isEnabled();
  /** The relations to bind, each with the one that takes its place; null for all, as they are. */
  private final Map<LogicalPlan, LogicalRelation> others;

  private Relations(IndexedTables tables, Map<LogicalPlan, LogicalRelation> others) {
    this.tables = tables;
    this.others = others;
  }

  static LogicalPlan apply(LogicalPlan plan, IndexedTables tables) {
    return (LogicalPlan) plan.transformDown(new Relations(tables, null));
  }

  /** Binds indexes to some relations, those of subqueries too, after others have taken their places. */
  static LogicalPlan apply(LogicalPlan plan, IndexedTables tables, Map<LogicalPlan, LogicalRelation> others) {
    ZskipFiles.REPLACING.set(plan);
    try {
      return (LogicalPlan) plan.transformDownWithSubqueries(new Relations(tables, others));
    } finally {
      ZskipFiles.REPLACING.remove();
    }
  }

  public boolean isDefinedAt(Object node) { return true; }

  public Object applyOrElse(Object node, Function1 otherwise) {
    if (node instanceof Filter && ((Filter) node).child() instanceof LogicalRelation) {
      Filter filter = (Filter) node;
      LogicalRelation relation = (LogicalRelation) filter.child();
      LogicalRelation known = bound(relation, filter.condition());
      return known == relation ? filter : new Filter(filter.condition(), known);
    }
    return node instanceof LogicalRelation ? bound((LogicalRelation) node, null) : node;
  }

  /** The index that lies in a relation's directory; null where there is none, or where this fails. */
  private ZskipFiles bind(LogicalRelation node) {
    if (!(node.relation() instanceof HadoopFsRelation)) return null;
    try {
      return tables.bind(node);
    } catch (Throwable e) {
      Faults.tell("use the index of " + QueryMark.label(node), e);
      return null;
    }
  }

  private LogicalRelation bound(LogicalRelation node, Expression condition) {
    if (others == null) return known(node, condition);
    LogicalRelation other = (LogicalRelation) others.get(node);
    if (other == null) return node;
    LogicalRelation known = known(other, condition);
    if (known == other) throw new IllegalStateException("no index");
    return known;
  }

  private LogicalRelation known(LogicalRelation node, Expression condition) {
    ZskipFiles index = index(node);
    if (index == null && (isEnabled || QueryMark.isOn(node))) index = bind(node);
    if (index == null) return node;
    if (index.query != null && (condition == null || condition.equals(index.query.condition))) return node;
    ScanQuery query = new ScanQuery(condition, node, (HadoopFsRelation) node.relation());
    Object counted = index.notes().get(ScanQuery.COUNT);
    if (counted != null) query = query.with(ScanQuery.COUNT, counted);
    return query.prepare(index) ? over(node, index.in(query)) : node;
  }

  /** The index of a relation of ours; null where it is none. */
  static ZskipFiles index(LogicalPlan node) {
    if (!(node instanceof LogicalRelation)) return null;
    BaseRelation relation = ((LogicalRelation) node).relation();
    if (!(relation instanceof HadoopFsRelation)) return null;
    return ZskipFiles.of(((HadoopFsRelation) relation).location());
  }

  /** A relation of ours whose query has one note more, which plans show. */
  static LogicalRelation withNote(LogicalRelation node, String kind, Object value) {
    ScanQuery query = index(node).query.with(kind, value);
    return query.prepare(index(node)) ? over(node, query) : node;
  }

  /** A relation of ours in another query. */
  static LogicalRelation over(LogicalRelation node, ScanQuery query) { return over(node, index(node).in(query)); }

  static LogicalRelation over(LogicalRelation node, ZskipFiles index) {
    return over(node, index, ((HadoopFsRelation) node.relation()).options());
  }

  /** The same relation over another file index, with other options. */
  static LogicalRelation over(LogicalRelation node, FileIndex files, scala.collection.immutable.Map options) {
    HadoopFsRelation relation = (HadoopFsRelation) node.relation();
    HadoopFsRelation other = new HadoopFsRelation(
      Delta.wrap(files),
      relation.partitionSchema(),
      relation.dataSchema(),
      relation.bucketSpec(),
      relation.fileFormat(),
      options,
      relation.sparkSession());
    return (LogicalRelation) Scala.copy(node, 0, other);
  }
}
