import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.Function1;

/**
 * Notes the number of rows for the scan under a LIMIT without order.
 *
 * A local limit is enough: what stands above it can rely on the number of rows, not on certain rows.
 */
final class Limits extends scala.runtime.AbstractPartialFunction {
  static final String KIND = "limit";

  static LogicalPlan apply(LogicalPlan plan) { return (LogicalPlan) plan.transformDown(new Limits()); }

  /** How many rows a limit lets through; null where that is not known. */
  static Integer rows(LocalLimit limit) {
    if (!(limit.limitExpr() instanceof Literal)) return null;
    Object value = ((Literal) limit.limitExpr()).value();
    return value instanceof Integer ? (Integer) value : null;
  }

  public boolean isDefinedAt(Object node) { return true; }

  public Object applyOrElse(Object node, Function1 otherwise) {
    if (!(node instanceof LocalLimit)) return node;
    Integer rows = rows((LocalLimit) node);
    FilteredRelation relation = FilteredRelation.of(((LocalLimit) node).child());
    if (rows == null || relation == null) return node;
    return Scala.replace((LogicalPlan) node, relation.leaf, relation.withNote(KIND, rows));
  }
}
