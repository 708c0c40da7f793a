import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.DataTypes;
import scala.Function1;
import scala.Option;
import SEQ;

/**
 * Takes counts and extremes of files whose rows all match from the index, so that Spark reads only the other files:
 *
 *   Aggregate(c)  becomes  Aggregate(sum, min or max of c, over Aggregate(c) of the others and the rows known already).
 */
final class Counts extends scala.runtime.AbstractPartialFunction {
  static LogicalPlan apply(LogicalPlan plan) { return (LogicalPlan) plan.transformDown(new Counts()); }

  public boolean isDefinedAt(Object node) { return true; }

  public Object applyOrElse(Object node, Function1 otherwise) {
    if (!(node instanceof Aggregate) || !((Aggregate) node).groupingExpressions().isEmpty()) return node;
    Aggregate whole = (Aggregate) node;
    FilteredRelation relation = FilteredRelation.of(whole.child());
    // Iceberg has counted what it can before.
    boolean isFiles = relation != null && relation.leaf instanceof LogicalRelation;
    if (!isFiles || !relation.query().notes.isEmpty()) return node;
    Parts parts = new Parts(relation);
    List<Expression> results = parts.rewritten(whole.aggregateExpressions());
    if (results == null || parts.aggregates.isEmpty()) return node;
    ScanQuery query = relation.query();
    ZskipFiles index = Relations.index(relation.leaf);
    String text = (String) index.ask(ScanQuery.COUNT, query.ofPartitions, query.ofData, Json.write(parts.aggregates));
    if (text == null) return node;
    Map<String, Object> answer = Json.read(text);
    LogicalPlan others = relation.withNote(ScanQuery.COUNT, answer.get("note"));
    if (others == relation.leaf) return node;
    List<NamedExpression> named = new ArrayList<>(parts.aliases.values());
    LogicalPlan partial = aggregate(whole, Scala.seq(named), relation.over(others));
    LogicalPlan known = known((List<?>) answer.get("values"), Scala.list(partial.output()));
    Seq both = Scala.seqOf(partial, known);
    return aggregate(whole, Scala.seq(results), new Union(both, false, false));
  }

  private static LogicalPlan aggregate(Aggregate like, Seq results, LogicalPlan child) {
    return Scala.copy(Scala.copy(like, 1, results), 2, child);
  }

  /** A row of texts as a relation with columns like the given ones. */
  private static LogicalPlan known(List<?> texts, List<Attribute> like) {
    List<Attribute> output = new ArrayList<>();
    Object[] values = new Object[like.size()];
    for (int i = 0; i < values.length; i++) {
      Attribute column = (Attribute) like.get(i);
      output.add(column.newInstance());
      values[i] = IndexValue.value((String) texts.get(i), column.dataType());
    }
    Object relation = Scala.construct(
      LocalRelation.class, Scala.seq(output), Scala.seqOf(new GenericInternalRow(values)), false, Option.empty());
    return (LogicalPlan) relation;
  }

  /** Takes aggregates apart: what each part of the rows must tell, and how the parts are put together. */
  static final class Parts extends scala.runtime.AbstractPartialFunction {
    /** Function, column and type of each aggregate; no column where rows are counted. */
    final List<List<String>> aggregates = new ArrayList<>();
    /** From an aggregate in its canonical form to the name under which its parts come. */
    final Map<Object, NamedExpression> aliases = new LinkedHashMap<>();
    private final FilteredRelation relation;
    private boolean failed;

    Parts(FilteredRelation relation) { this.relation = relation; }

    /** The results over the parts; null if an aggregate cannot be combined from parts. */
    List<Expression> rewritten(Seq<NamedExpression> results) {
      List<Expression> rewritten = new ArrayList<>();
      for (NamedExpression result : Scala.list(results)) {
        rewritten.add((Expression) ((Expression) result).transformUp(this));
      }
      return failed ? null : rewritten;
    }

    public boolean isDefinedAt(Object node) { return true; }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (failed || !(node instanceof AggregateExpression)) return node;
      AggregateExpression whole = (AggregateExpression) node;
      List<String> one = whole.isDistinct() || whole.filter().isDefined() ? null : aggregate(whole.aggregateFunction());
      if (one == null) {
        failed = true;
        return node;
      }
      Object key = whole.canonicalized();
      if (!aliases.containsKey(key)) {
        aggregates.add(one);
        Seq none = Scala.NONE;
        aliases.put(key, new Alias(whole, "part", NamedExpression.newExprId(), none, Option.empty(), none));
      }
      Attribute part = ((Alias) aliases.get(key)).toAttribute();
      if (!one.get(0).equals("count")) {
        AggregateFunction again = one.get(0).equals("min") ? (AggregateFunction) new Min(part) : new Max(part);
        return again.toAggregateExpression();
      }
      Literal zero = new Literal(0L, DataTypes.LongType);
      Expression sum = new Sum(part).toAggregateExpression();
      return new Coalesce(Scala.seqOf(sum, zero));
    }

    private List<String> aggregate(AggregateFunction function) {
      if (function.children().size() != 1) return null;
      Expression of = (Expression) function.children().apply(0);
      if (function instanceof Count && of instanceof Literal && ((Literal) of).value() != null) {
        return Arrays.asList("count", null, null);
      }
      String name = function instanceof Count ? "count" : function instanceof Min ? "min" : "max";
      Attribute column = name.equals("max") && !(function instanceof Max) ? null : relation.column(of);
      return column == null ? null : Arrays.asList(name, column.name(), column.dataType().json());
    }
  }
}
