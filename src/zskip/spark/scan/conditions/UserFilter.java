import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.BaseEvalPython;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.FileSourceStrategy$;
import scala.Function1;
import scala.runtime.AbstractPartialFunction;
import SEQ;

/** A chain of filters over one leaf; what the optimizer computes between them, such as Python functions, put back. */
final class UserFilter {
  /** What stands below the last filter, projection and call. */
  final LogicalPlan leaf;
  boolean hasFunctions = false;
  private List<Expression> conjuncts = new ArrayList<>();

  UserFilter(LogicalPlan top) {
    LogicalPlan node = top;
    for (boolean isKnown = true; isKnown; ) {
      if (node instanceof Filter) {
        Expression condition = ((Filter) node).condition();
        List<Expression> parts = Scala.list(FileSourceStrategy$.MODULE$.splitConjunctivePredicates(condition));
        conjuncts.addAll(parts);
      } else if (node instanceof BaseEvalPython) {
        hasFunctions = true;
        putBack(((BaseEvalPython) node).resultAttrs(), ((BaseEvalPython) node).udfs());
      } else if (node instanceof Project) {
        putBack(((Project) node).projectList(), ((Project) node).projectList());
      } else {
        isKnown = false;
      }
      if (isKnown) node = (LogicalPlan) node.children().apply(0);
    }
    leaf = node;
  }

  boolean isEmpty() { return conjuncts.isEmpty(); }

  /** Describes the conjuncts over the columns of the leaf, with the functions in them. */
  String described() {
    List<Expression> plain = new ArrayList<>();
    for (Expression one : conjuncts) {
      if (one.deterministic() && !SubqueryExpression.hasSubquery(one)) plain.add(one);
    }
    return FilterText.of(DataSourceStrategy$.MODULE$.normalizeExprs(Scala.seq(plain), (Seq) leaf.output()), true);
  }

  private void putBack(scala.collection.Seq<?> names, scala.collection.Seq<?> values) {
    final Map<Object, Expression> sources = new HashMap<>();
    List<Object> computed = new ArrayList<>(Scala.list(values));
    for (Object name : Scala.list(names)) {
      Object value = computed.remove(0);
      sources.put(((NamedExpression) name).exprId(), (Expression) (value instanceof Alias ? ((Alias) value).child() : value));
    }
    AbstractPartialFunction replace = new AbstractPartialFunction() {
      public boolean isDefinedAt(Object node) { return true; }

      public Object applyOrElse(Object node, Function1 otherwise) {
        Object source = node instanceof Attribute ? sources.get(((Attribute) node).exprId()) : null;
        return source == null ? node : source;
      }
    };
    List<Expression> replaced = new ArrayList<>();
    for (Expression one : conjuncts) replaced.add((Expression) one.transformUp(replace));
    conjuncts = replaced;
  }
}
