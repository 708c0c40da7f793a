import java.util.Arrays;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Descending$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NullsFirst$;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Offset;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import scala.Function1;

/** Notes for the scan under `ORDER BY c LIMIT k` the column or the expression of the order, and the number of rows. */
final class TopK extends scala.runtime.AbstractPartialFunction {
  static final String KIND = "top-k";

  static LogicalPlan apply(LogicalPlan plan) { return (LogicalPlan) plan.transformDown(new TopK()); }

  public boolean isDefinedAt(Object node) { return true; }

  public Object applyOrElse(Object node, Function1 otherwise) {
    if (!(node instanceof GlobalLimit)) return node;
    LogicalPlan below = ((GlobalLimit) node).child();
    if (below instanceof Offset) below = ((Offset) below).child();
    if (!(below instanceof LocalLimit)) return node;
    Integer rows = Limits.rows((LocalLimit) below);
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
    return Scala.replace((LogicalPlan) node, relation.leaf, relation.withNote(KIND, note));
  }
}
