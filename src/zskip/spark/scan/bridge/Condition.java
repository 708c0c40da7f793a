import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.FileSourceStrategy$;

/** What Spark makes of the condition of a query on rows of no source, which takes no part of it to itself. */
public final class Condition {
  /** Why an analyzed condition has no one value for each row: the name of what it calls; null if it has. */
  public String refusal(Expression node) {
    if (node instanceof SubqueryExpression) return "a subquery";
    List<Expression> children = Scala.list(node.children());
    for (Expression child : children) {
      String inner = refusal(child);
      if (inner != null) return inner;
    }
    boolean isOwn = !node.getClass().getName().startsWith("org.apache.spark.sql.catalyst.expressions.");
    String name = node.getClass().getSimpleName();
    boolean isMomentary = name.matches("Current.*|Now|LocalTimestamp|SparkVersion");
    return isOwn || name.contains("UDF") || isMomentary || !node.deterministic() ? node.prettyName() : null;
  }

  /** The filter of an optimized plan, as `FilterText` describes those of scans; null if there is none. */
  public String describe(LogicalPlan plan) {
    while (!(plan instanceof Filter)) {
      if (plan.children().size() != 1) return null;
      plan = (LogicalPlan) plan.children().apply(0);
    }
    List<Expression> conjuncts =
      Scala.list(FileSourceStrategy$.MODULE$.splitConjunctivePredicates(((Filter) plan).condition()));
    List<Attribute> columns = Scala.list(((Filter) plan).child().output());
    return FilterText.of(DataSourceStrategy$.MODULE$.normalizeExprs(Scala.seq(conjuncts), Scala.seq(columns)));
  }
}
