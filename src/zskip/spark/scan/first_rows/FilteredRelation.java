import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import SEQ;

/** Projections and a filter over one relation of ours, whose scan decides the whole filter. */
final class FilteredRelation {
  final LogicalPlan top;
  final LogicalPlan leaf;
  private final List<Project> projects;

  private FilteredRelation(LogicalPlan top, LogicalPlan leaf, List<Project> projects) {
    this.top = top;
    this.leaf = leaf;
    this.projects = projects;
  }

  /** The filtered relation of a plan; null if the plan is none. */
  static FilteredRelation of(LogicalPlan top) {
    List<Project> projects = new ArrayList<>();
    LogicalPlan node = top;
    while (node instanceof Project && allDeterministic(((Project) node).projectList())) {
      projects.add((Project) node);
      node = ((Project) node).child();
    }
    Expression condition = node instanceof Filter ? ((Filter) node).condition() : null;
    if (condition != null) node = ((Filter) node).child();
    ScanQuery query = query(node);
    if (query == null || !query.whole) return null;
    if (condition == null ? query.condition != null : !condition.equals(query.condition)) return null;
    return new FilteredRelation(top, node, projects);
  }

  /** The query of a relation of ours whose rows are those of its files; null for other nodes. */
  private static ScanQuery query(LogicalPlan node) {
    PrunedScan scan = ScanRelations.scan(node);
    ZskipFiles index = scan == null ? Relations.index(node) : null;
    if (index != null) return index.isWhole() ? index.query : null;
    return scan == null ? null : scan.query;
  }

  private static boolean allDeterministic(Seq<NamedExpression> expressions) {
    for (NamedExpression one : Scala.list(expressions)) {
      if (!((Expression) one).deterministic()) return false;
    }
    return true;
  }

  ScanQuery query() { return query(leaf); }

  /** The relation's column of an expression over the projections; null if it is no column. */
  Attribute column(Expression expression) {
    Expression source = source(expression);
    return source instanceof Attribute ? (Attribute) source : null;
  }

  /** An expression over the projections as one over the relation's columns; null if it is of others. */
  Expression source(Expression expression) {
    Expression source = expression;
    for (int i = 0; i < projects.size() && source != null; i++) {
      source = over(source, ((Project) projects.get(i)).projectList());
    }
    return source == null ? null : over(source, leaf.output());
  }

  private static Expression over(Expression node, Seq<? extends NamedExpression> named) {
    if (node instanceof Attribute) return named((Attribute) node, named);
    List<Expression> children = Scala.list(node.children());
    List<Expression> sources = new ArrayList<>();
    for (Expression child : children) {
      Expression source = over(child, named);
      if (source == null) return null;
      sources.add(source);
    }
    return sources.isEmpty() ? node : (Expression) node.withNewChildren(Scala.seq(sources));
  }

  /** The expression of an attribute in a list of named expressions. */
  private static Expression named(Attribute attribute, Seq<? extends NamedExpression> expressions) {
    for (NamedExpression one : Scala.list(expressions)) {
      if (!one.exprId().equals(attribute.exprId())) continue;
      return one instanceof Alias ? ((Alias) one).child() : (Expression) one;
    }
    return null;
  }

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
