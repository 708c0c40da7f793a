import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/** What Spark makes of the condition of a query on rows of no source, which takes no part of it to itself. */
public final class Condition {
  /** What of an analyzed plan's condition has no one value for each row, wherever it is computed; null for nothing. */
  public String refusal(LogicalPlan plan) {
    // What a function in SQL does is not in the filter.
    return plan instanceof Filter ? refusal(((Filter) plan).condition()) : "a function in SQL";
  }

  private static String refusal(Expression node) {
    if (node instanceof SubqueryExpression) return "a subquery";
    List<Expression> children = Scala.list(node.children());
    for (Expression child : children) {
      String inner = refusal(child);
      if (inner != null) return inner;
    }
    boolean isPython = node instanceof PythonUDF && ExpressionKey.isByRows((PythonUDF) node);
    boolean isOwn = !node.getClass().getName().startsWith("org.apache.spark.sql.catalyst.expressions.");
    String name = node.getClass().getSimpleName();
    boolean isMomentary = name.matches("Current.*|Now|LocalTimestamp|SparkVersion");
    boolean isOther = isOwn || (name.contains("UDF") && !isPython) || isMomentary;
    return isOther || !node.deterministic() ? node.prettyName() : null;
  }

  /** The filters of an optimized plan, as `FilterText` describes those of scans; null if there are none. */
  public String describe(LogicalPlan plan) {
    UserFilter filter = new UserFilter(plan);
    return filter.isEmpty() ? null : filter.described();
  }
}
