import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.Function1;

/** Notes for the scan under a filter with Python functions, of which Spark hands the scan nothing. */
final class FunctionNotes extends scala.runtime.AbstractPartialFunction {
  private static final String CONDITION = "condition";

  static LogicalPlan apply(LogicalPlan plan) { return (LogicalPlan) plan.transformDown(new FunctionNotes()); }

  public boolean isDefinedAt(Object node) { return true; }

  public Object applyOrElse(Object node, Function1 otherwise) {
    if (!(node instanceof Filter)) return node;
    UserFilter filter = new UserFilter((LogicalPlan) node);
    if (!filter.hasFunctions) return node;
    ZskipFiles files = Relations.index(filter.leaf);
    PrunedScan scan = files == null ? ScanRelations.scan(filter.leaf) : null;
    ScanQuery query = files != null ? files.query : scan == null ? null : scan.query;
    if (query == null || query.notes.containsKey(CONDITION)) return node;
    String note = filter.described();
    LogicalPlan noted = files == null
      ? ScanRelations.withNote(filter.leaf, CONDITION, note)
      : Relations.withNote((LogicalRelation) filter.leaf, CONDITION, note);
    return Scala.replace((LogicalPlan) node, filter.leaf, noted);
  }
}
