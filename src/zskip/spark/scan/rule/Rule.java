import java.util.List;
import java.util.concurrent.Executor;
import java.util.function.BiFunction;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;

/** The rule in Spark's optimizer: steps in order; a step that fails leaves the plan as it was. */
public final class Rule extends org.apache.spark.sql.catalyst.rules.Rule {
  static final int STEPS = 6;

  final IndexedTables tables;

  public Rule(BiFunction answer, Executor threads) {
    tables = new IndexedTables(answer, threads);
    Faults.python = new Python(answer, threads);
  }

  /** Adds to a session what has to come before rules of others. */
  public void install(Object session) {
    try {
      DeltaScans.install(session, this, tables);
    } catch (Exception e) {
      Faults.tell("the look for Delta's rules", e);
    }
  }

  /** Makes one query prune in a session that is not enabled (`QueryMark`). */
  public List mark(LogicalPlan plan, LogicalPlan cached, boolean isExplained) {
    return QueryMark.apply(plan, cached, tables, isExplained);
  }

  /** Binds an index to the relation of a plan; opened: as `bound_files.py` gives it. */
  public LogicalPlan bind(LogicalPlan plan, String root, List opened, boolean isWatched) {
    return tables.bind(plan, new Path(root), opened, isWatched);
  }

  /** Applies a step to a plan; the first two bind the relations that the others add notes to. */
  LogicalPlan step(int number, LogicalPlan plan) {
    switch (number) {
      case 0: return Relations.apply(plan, tables);
      case 1: return ScanRelations.apply(plan, tables);
      case 2: return Counts.apply(plan);
      case 3: return TopK.apply(plan);
      case 4: return Limits.apply(plan);
      case 5: return Joins.apply(plan);
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

  private LogicalPlan guarded(int number, LogicalPlan plan) {
    try {
      return step(number, plan);
    } catch (Exception e) {
      Faults.tell("step " + number + " of the rule", e);
      return plan;
    } catch (LinkageError e) {
      Faults.tell("step " + number + " of the rule", e);
      return plan;
    }
  }
}
