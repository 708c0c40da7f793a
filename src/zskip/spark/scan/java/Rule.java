import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;

/** The rule in Spark's optimizer: steps in order, each of which leaves the plan as it was where it fails. */
public final class Rule extends org.apache.spark.sql.catalyst.rules.Rule {
  static final int STEPS = 1;

  /** What each step does to a plan; the first one finds the relations that the others tell more. */
  static LogicalPlan step(int number, LogicalPlan plan) {
    switch (number) {
      case 0: return Relations.apply(plan);
      default: return plan;
    }
  }

  public TreeNode apply(TreeNode node) {
    LogicalPlan plan = (LogicalPlan) node;
    zskip.REPLACING.set(plan);
    try {
      for (int i = 0; i < STEPS; i++) plan = guarded(i, plan);
    } finally {
      zskip.REPLACING.remove();
    }
    return plan;
  }

  private static LogicalPlan guarded(int number, LogicalPlan plan) {
    try {
      return step(number, plan);
    } catch (Exception e) {
      return plan;
    } catch (LinkageError e) {
      return plan;
    }
  }
}
