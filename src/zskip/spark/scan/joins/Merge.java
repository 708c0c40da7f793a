import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import scala.Function1;
import SEQ;

/**
 * The scan by which Delta's MERGE finds the files that it changes: it gives each row of the target a number and the
 * name of its file, and joins the rows with the source. What the transaction has noted as read stays as it is. Iceberg's
 * MERGE gives each row a number, too.
 */
final class Merge {
  /** The columns that Delta and Spark add; the numbers only have to differ, so files may be left out. */
  private static final Set<String> ADDED = new HashSet<>(Arrays.asList("_row_id_", "_file_name_", "__row_id"));

  private Merge() {}

  /** A projection without those columns; as many if it has none. */
  static Seq<NamedExpression> withoutAdded(Seq<NamedExpression> named) {
    List<NamedExpression> others = new ArrayList<>();
    for (NamedExpression one : Scala.list(named)) {
      if (((Expression) one).deterministic() || !ADDED.contains(one.name())) others.add(one);
    }
    return Scala.seq(others);
  }

  /** Moves conditions on the target below the columns that Delta adds, which keep Spark from doing so. */
  static LogicalPlan pushDown(LogicalPlan plan) { return (LogicalPlan) plan.transformDown(new PushDown()); }

  /** A filter on a column that passes all of some values, and few others; null where there is none. */
  static Expression within(Expression column, KeyValues values) {
    Expression all = null;
    for (Object[] range : values.ranges()) {
      Expression least = new GreaterThanOrEqual(column, new Literal(range[0], values.type));
      Expression one = new And(least, new LessThanOrEqual(column, new Literal(range[1], values.type)));
      all = all == null ? one : new Or(all, one);
    }
    return all;
  }

  /** Whether a node filters by a condition. */
  static boolean isFilter(Object node, Expression condition) {
    if (!(node instanceof Filter)) return false;
    return ScanQuery.conjuncts(((Filter) node).condition()).containsAll(ScanQuery.conjuncts(condition));
  }

  /** A plan below filters. */
  static LogicalPlan filtered(LogicalPlan plan, List<Expression> filters) {
    Expression all = null;
    for (Expression one : filters) all = and(all, one);
    return all == null ? plan : new Filter(all, plan);
  }

  private static Expression and(Expression all, Expression one) { return all == null ? one : new And(all, one); }

  static final class PushDown extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) { return true; }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!(node instanceof Filter) || !(((Filter) node).child() instanceof Project)) return node;
      Project project = (Project) ((Filter) node).child();
      if (!isTarget(project)) return node;
      Expression above = null;
      Expression below = null;
      for (Expression one : ScanQuery.conjuncts(((Filter) node).condition())) {
        if (Columns.allowed(one) && one.references().subsetOf(project.child().outputSet())) below = and(below, one);
        else above = and(above, one);
      }
      if (below == null) return node;
      LogicalPlan pushed = new Project(project.projectList(), new Filter(below, project.child()));
      return above == null ? pushed : new Filter(above, pushed);
    }

    private static boolean isTarget(Project project) {
      LogicalPlan node = project;
      while (node instanceof Project) node = ((Project) node).child();
      ZskipFiles index = Relations.index(node);
      return index != null && Delta.isChange(index.files);
    }
  }
}
