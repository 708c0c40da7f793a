import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.Function1;

/**
 * Notes for the scan under a LIMIT without order how many rows are wanted.
 *
 * A local limit is all that is asked for: whatever stands above it can only count on as many rows as it has, or as
 * there are, and on no certain ones.
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
    Chain chain = Chain.of(((LocalLimit) node).child());
    if (rows == null || chain == null) return node;
    return Chain.Swap.in((LogicalPlan) node, chain.relation, chain.noted(KIND, rows));
  }
}
