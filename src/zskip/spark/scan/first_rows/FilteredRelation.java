import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.datasources.LogicalRelation;

/** Projections and a filter over one relation of ours, whose scan decides the whole filter. */
final class FilteredRelation {
  final LogicalPlan top;
  final LogicalPlan leaf;
  private final Columns columns;

  private FilteredRelation(LogicalPlan top, LogicalPlan leaf, Columns columns) {
    this.top = top;
    this.leaf = leaf;
    this.columns = columns;
  }

  /** The filtered relation of a plan; null if the plan is none. */
  static FilteredRelation of(LogicalPlan top) {
    List<Project> projects = new ArrayList<>();
    LogicalPlan node = top;
    for (; node instanceof Project; node = ((Project) node).child()) projects.add(0, (Project) node);
    Expression condition = node instanceof Filter ? ((Filter) node).condition() : null;
    if (condition != null) node = ((Filter) node).child();
    ScanQuery query = query(node);
    if (query == null || !query.whole) return null;
    if (condition == null ? query.condition != null : !condition.equals(query.condition)) return null;
    Columns columns = Columns.of(node.output());
    for (Project project : projects) {
      if (columns != null) columns = columns.projected(project.projectList());
    }
    return columns == null ? null : new FilteredRelation(top, node, columns);
  }

  /** The query of a relation of ours whose rows are those of its files; null for other nodes. */
  private static ScanQuery query(LogicalPlan node) {
    PrunedScan scan = ScanRelations.scan(node);
    ZskipFiles index = scan == null ? Relations.index(node) : null;
    if (index != null) return index.isWhole() ? index.query : null;
    return scan == null ? null : scan.query;
  }

  ScanQuery query() { return query(leaf); }

  /** The relation's column of an expression over the projections; null if it is no column. */
  Attribute column(Expression expression) {
    Expression source = source(expression);
    return source instanceof Attribute ? (Attribute) source : null;
  }

  /** An expression over the projections as one over the relation's columns; null if it is of others. */
  Expression source(Expression expression) { return columns.over(expression); }

  /** The same over another relation. */
  LogicalPlan over(LogicalPlan other) { return Scala.replace(top, leaf, other); }

  /** The relation with a note; the same relation if it has that note already. */
  LogicalPlan withNote(String kind, Object value) {
    if (value.equals(query().notes.get(kind))) return leaf;
    boolean isFiles = leaf instanceof LogicalRelation;
    if (!isFiles) return ScanRelations.withNote(leaf, kind, value);
    return Relations.withNote((LogicalRelation) leaf, kind, value);
  }
}
