import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.TryEval;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.types.DataType;
import scala.Option;

/** A join that may prune a scan, once its keys are queried. */
final class JoinCandidate {
  final String column;
  /** The name of the other side, such as `date_dim on d_date_sk`. */
  final String name;
  /** Gives the keys as its only column. */
  final LogicalPlan plan;
  final DataType type;
  final long bytes;
  final boolean hasJoin;
  /** Why the keys are not queried; empty if they are. */
  final String reason;
  private LogicalPlan canonical;

  JoinCandidate(String column, String name, KeySide side, String reason) {
    // A row whose key cannot be computed may be one that the query drops before.
    Expression value = side.key instanceof Attribute ? side.key : new TryEval(side.key);
    Alias key = new Alias(value, "key", NamedExpression.newExprId(), Scala.NONE, Option.empty(), Scala.NONE);
    this.column = column;
    this.name = name;
    this.plan = new Project(Scala.seqOf(key), side.plan);
    this.type = side.key.dataType();
    this.bytes = KeySide.bytes(side.plan);
    this.hasJoin = KeySide.hasJoin(side.plan);
    this.reason = reason;
  }

  synchronized LogicalPlan canonical() {
    if (canonical == null) canonical = (LogicalPlan) plan.canonicalized();
    return canonical;
  }

  public int hashCode() { return canonical().hashCode(); }

  /** Equal candidates leave the same files, so Spark may share equal scans. */
  public boolean equals(Object other) {
    if (this == other) return true;
    if (!(other instanceof JoinCandidate) || !column.equals(((JoinCandidate) other).column)) return false;
    return canonical().equals(((JoinCandidate) other).canonical());
  }
}
