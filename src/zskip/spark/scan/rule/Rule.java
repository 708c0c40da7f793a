import java.util.List;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;

/** The rule in Spark's optimizer: steps in order; a step that fails leaves the plan as it was. */
public final class Rule extends org.apache.spark.sql.catalyst.rules.Rule {
  /** What each step does. */
  private static final String[] TASKS = {
    "use the indexes of tables", "use the indexes of Iceberg's tables", "count by an index",
    "skip files of a LIMIT", "find joins that skip files",
    "skip files by conditions with Python functions"};

  final IndexedTables tables;

  public Rule(Python python) {
    tables = new IndexedTables(python);
    Faults.python = python;
  }

  /** Adds to a session what has to come before rules of others. */
  public void install(Object session) {
    try {
      DeltaScans.install(session, this, tables);
    } catch (Exception e) {
      Faults.tell("put its rule before that of Delta", e);
    }
  }

  /** Makes one query prune in a session that is not enabled (`QueryMark`). */
  public List<Object> mark(LogicalPlan plan, LogicalPlan cached, boolean isExplained) {
    return QueryMark.apply(plan, cached, tables, isExplained);
  }

  /** Binds an index to the relation of a plan; opened: as `bound_files.py` gives it. */
  public LogicalPlan bind(LogicalPlan plan, String root, List<Object> opened, boolean isWatched) {
    return tables.bind(plan, new Path(root), opened, isWatched);
  }

  /** Applies a step to a plan; the first two bind the relations that the others add notes to. */
  LogicalPlan step(int number, LogicalPlan plan) {
    switch (number) {
      case 0: return bindIndexes(plan);
      case 1: return ScanRelations.apply(plan, tables);
      case 2: return Counts.apply(plan);
      case 3: return FirstRows.apply(plan);
      case 4: return Joins.apply(plan);
      case 5: return FunctionNotes.apply(plan);
      default: return plan;
    }
  }

  private LogicalPlan bindIndexes(LogicalPlan plan) {
    LogicalPlan bound = Relations.apply(plan, tables);
    if (bound == plan) return plan;
    LogicalPlan pushed = Merge.pushDown(bound);
    return pushed == bound ? bound : Relations.apply(pushed, tables);
  }

  public TreeNode apply(TreeNode node) {
    LogicalPlan plan = (LogicalPlan) node;
    // A key query may be planned amid a plan.
    Object outer = ZskipFiles.REPLACING.get();
    ZskipFiles.REPLACING.set(plan);
    try {
      for (int i = 0; i < TASKS.length; i++) plan = guarded(i, plan);
    } finally {
      ZskipFiles.REPLACING.set(outer);
    }
    return plan;
  }

  private LogicalPlan guarded(int number, LogicalPlan plan) {
    try {
      return step(number, plan);
    } catch (Throwable e) {
      Faults.tell(TASKS[number], e);
      return plan;
    }
  }
}
