import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import java.util.ArrayList;
import java.util.List;
import scala.Function1;
import scala.collection.JavaConverters;
import SEQ;

/** Projections and a filter over one relation of ours, whose scan decides the whole filter. */
final class FilteredRelation {
  final LogicalPlan top;
  final LogicalPlan leaf;
  private final List projects;

  private FilteredRelation(LogicalPlan top, LogicalPlan leaf, List projects) {
    this.top = top;
    this.leaf = leaf;
    this.projects = projects;
  }

  /** The filtered relation of a plan; null if the plan is none. */
  static FilteredRelation of(LogicalPlan top) {
    List projects = new ArrayList();
    LogicalPlan node = top;
    while (node instanceof Project && allDeterministic(((Project) node).projectList())) {
      projects.add(node);
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
    zskip index = scan == null ? Relations.index(node) : null;
    if (index != null) return index.isWhole() ? index.query : null;
    return scan == null ? null : scan.query;
  }

  private static boolean allDeterministic(Seq expressions) {
    List all = JavaConverters.seqAsJavaList(expressions);
    for (int i = 0; i < all.size(); i++) {
      if (!((Expression) all.get(i)).deterministic()) return false;
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

  private static Expression over(Expression node, Seq named) {
    if (node instanceof Attribute) return named((Attribute) node, named);
    List children = JavaConverters.seqAsJavaList(node.children());
    List sources = new ArrayList();
    for (int i = 0; i < children.size(); i++) {
      Expression source = over((Expression) children.get(i), named);
      if (source == null) return null;
      sources.add(source);
    }
    return sources.isEmpty() ? node : (Expression) node.withNewChildren(ScanQuery.seq(sources));
  }

  /** The expression of an attribute in a list of named expressions. */
  private static Expression named(Attribute attribute, Seq expressions) {
    List all = JavaConverters.seqAsJavaList(expressions);
    for (int i = 0; i < all.size(); i++) {
      NamedExpression one = (NamedExpression) all.get(i);
      if (!one.exprId().equals(attribute.exprId())) continue;
      return one instanceof Alias ? ((Alias) one).child() : (Expression) one;
    }
    return null;
  }

  /** The same over another relation. */
  LogicalPlan over(LogicalPlan other) { return Swap.in(top, leaf, other); }

  /** The relation with a note; the same relation if it has that note already. */
  LogicalPlan withNote(String kind, Object value) {
    if (value.equals(query().notes.get(kind))) return leaf;
    boolean isFiles = leaf instanceof LogicalRelation;
    return isFiles ? Relations.withNote((LogicalRelation) leaf, kind, value) : ScanRelations.withNote(leaf, kind, value);
  }

  /** Replaces one node of a plan. */
  static final class Swap extends scala.runtime.AbstractPartialFunction {
    private final LogicalPlan before;
    private final LogicalPlan after;

    private Swap(LogicalPlan before, LogicalPlan after) {
      this.before = before;
      this.after = after;
    }

    static LogicalPlan in(LogicalPlan plan, LogicalPlan before, LogicalPlan after) {
      return before == after ? plan : (LogicalPlan) plan.transformDown(new Swap(before, after));
    }

    public boolean isDefinedAt(Object node) { return true; }
    public Object applyOrElse(Object node, Function1 otherwise) { return node == before ? after : node; }
  }
}
