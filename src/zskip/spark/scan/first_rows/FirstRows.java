import java.util.Arrays;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Descending$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NullsFirst$;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Offset;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import scala.Function1;

/**
 * Notes for the scan under a LIMIT the number of rows, and under `ORDER BY c LIMIT k` the column or the expression of
 * the order, too.
 *
 * Without order a local limit is enough: what stands above it can rely on the number of rows, not on certain rows.
 */
final class FirstRows extends scala.runtime.AbstractPartialFunction {
  private static final String LIMIT = "limit";
  private static final String TOP = "top-k";

  static LogicalPlan apply(LogicalPlan plan) { return (LogicalPlan) plan.transformDown(new FirstRows()); }

  public boolean isDefinedAt(Object node) { return true; }

  public Object applyOrElse(Object node, Function1 otherwise) {
    if (node instanceof GlobalLimit) return top((GlobalLimit) node);
    return node instanceof LocalLimit ? any((LocalLimit) node) : node;
  }

  private static LogicalPlan any(LocalLimit node) {
    Integer rows = rows(node);
    FilteredRelation relation = FilteredRelation.of(node.child());
    if (rows == null || relation == null) return node;
    return Scala.replace(node, relation.leaf, relation.withNote(LIMIT, rows));
  }

  /** How many rows a limit lets through; null where that is not known. */
  private static Integer rows(LocalLimit limit) {
    if (!(limit.limitExpr() instanceof Literal)) return null;
    Object value = ((Literal) limit.limitExpr()).value();
    return value instanceof Integer ? (Integer) value : null;
  }

  private static LogicalPlan top(GlobalLimit node) {
    LogicalPlan below = node.child();
    if (below instanceof Offset) below = ((Offset) below).child();
    if (!(below instanceof LocalLimit)) return node;
    Integer rows = rows((LocalLimit) below);
    below = ((LocalLimit) below).child();
    while (below instanceof Project) below = ((Project) below).child();
    if (rows == null || !(below instanceof Sort) || !((Sort) below).global()) return node;
    FilteredRelation relation = FilteredRelation.of(((Sort) below).child());
    if (relation == null) return node;
    SortOrder order = (SortOrder) ((Sort) below).order().apply(0);
    Expression source = relation.source(order.child());
    if (source == null || !source.deterministic()) return node;
    String note = Json.write(Arrays.asList(
      source instanceof Attribute ? ((Attribute) source).name() : source.sql(),
      Columns.described(source),
      source.dataType().json(),
      order.direction() == Descending$.MODULE$,
      order.nullOrdering() == NullsFirst$.MODULE$,
      ((Sort) below).order().size() > 1,
      rows
    ));
    return Scala.replace(node, relation.leaf, relation.withNote(TOP, note));
  }
}
