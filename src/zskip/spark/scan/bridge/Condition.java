import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.FileSourceStrategy$;

/** What Spark makes of the condition of a query on one table, as scans of other queries are handed it. */
public final class Condition {
  private static final Set<String> MOMENTARY = new HashSet<>(Arrays.asList("Now", "LocalTimestamp", "SparkVersion"));

  /** Why the condition has no one value for each row: the name of what it calls; null if it has. */
  public String refusal(LogicalPlan analyzed) { return refusal(((Filter) analyzed).condition()); }

  private static String refusal(Expression node) {
    String name = node.getClass().getSimpleName();
    boolean isMomentary = name.startsWith("Current") || MOMENTARY.contains(name);
    if (node instanceof SubqueryExpression) return "a subquery";
    for (Expression child : Scala.list(node.children())) {
      String inner = refusal((Expression) child);
      if (inner != null) return inner;
    }
    return isMomentary || !node.deterministic() ? node.prettyName() : null;
  }

  /** The filters of an optimized plan, as `FilterText` describes them. */
  public String describe(LogicalPlan optimized) {
    List<Expression> conjuncts = new ArrayList<>();
    collect(optimized, conjuncts);
    return FilterText.of(Scala.seq(conjuncts));
  }

  private static void collect(LogicalPlan plan, List<Expression> conjuncts) {
    if (plan instanceof Filter) {
      Filter filter = (Filter) plan;
      Object parts = FileSourceStrategy$.MODULE$.splitConjunctivePredicates(filter.condition());
      List<Attribute> columns = Scala.list(filter.child().output());
      List<Expression> normal = Scala.list(DataSourceStrategy$.MODULE$.normalizeExprs(
        Scala.seq(Scala.list((scala.collection.Seq<Expression>) parts)), Scala.seq(columns)));
      conjuncts.addAll(normal);
    }
    List<LogicalPlan> children = Scala.list(plan.children());
    for (LogicalPlan child : children) collect(child, conjuncts);
  }
}
