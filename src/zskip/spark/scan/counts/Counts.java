import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
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
import scala.collection.JavaConverters;
import SEQ;

/**
 * Takes counts and extremes of files whose rows all match from the index, so that Spark reads only the other files:
 *
 *   Aggregate(c)  becomes  Aggregate(sum, min or max of c, over Aggregate(c) of the others and the rows known already).
 */
final class Counts extends scala.runtime.AbstractPartialFunction {
  static final String KIND = "count";

  static LogicalPlan apply(LogicalPlan plan) { return (LogicalPlan) plan.transformDown(new Counts()); }

  /** The error of a scan that cannot drop the counted files. */
  static RuntimeException unsure(Throwable why) {
    return new IllegalStateException("zskip counted files by its index and cannot leave them out now; ask again", why);
  }

  public boolean isDefinedAt(Object node) { return true; }

  public Object applyOrElse(Object node, Function1 otherwise) {
    if (!(node instanceof Aggregate) || !((Aggregate) node).groupingExpressions().isEmpty()) return node;
    Aggregate whole = (Aggregate) node;
    FilteredRelation relation = FilteredRelation.of(whole.child());
    // Iceberg has counted what it can before.
    boolean isFiles = relation != null && relation.leaf instanceof LogicalRelation;
    if (!isFiles || !relation.query().notes.isEmpty()) return node;
    Parts parts = new Parts(relation);
    List results = parts.rewritten(JavaConverters.seqAsJavaList(whole.aggregateExpressions()));
    if (results == null || parts.aggregates.isEmpty()) return node;
    ScanQuery query = relation.query();
    Object[] arguments = {query.ofPartitions, query.ofData, Json.write(parts.aggregates)};
    String text = (String) Relations.index(relation.leaf).ask(KIND, arguments);
    if (text == null) return node;
    Map answer = Json.read(text);
    LogicalPlan others = relation.withNote(KIND, answer.get("note"));
    if (others == relation.leaf) return node;
    List named = new ArrayList(parts.aliases.values());
    LogicalPlan partial = aggregate(whole, ScanQuery.seq(named), relation.over(others));
    LogicalPlan known = known((List) answer.get("values"), JavaConverters.seqAsJavaList(partial.output()));
    Seq both = ScanQuery.seq(Arrays.asList(new Object[] {partial, known}));
    return aggregate(whole, ScanQuery.seq(results), new Union(both, false, false));
  }

  /** An aggregate with other results over another relation. */
  private static LogicalPlan aggregate(Aggregate like, Seq results, LogicalPlan child) {
    Object[] parts = new Object[like.productArity()];
    for (int i = 0; i < parts.length; i++) parts[i] = like.productElement(i);
    parts[1] = results;
    parts[2] = child;
    return (LogicalPlan) like.makeCopy(parts);
  }

  /** A row of texts as a relation with columns like the given ones. */
  private static LogicalPlan known(List texts, List like) {
    List output = new ArrayList();
    Object[] values = new Object[like.size()];
    for (int i = 0; i < values.length; i++) {
      Attribute column = (Attribute) like.get(i);
      output.add(column.newInstance());
      values[i] = IndexValue.value((String) texts.get(i), column.dataType());
    }
    List rows = Collections.singletonList(new GenericInternalRow(values));
    // The number of its parameters grew with the versions of Spark.
    java.lang.reflect.Constructor make = LocalRelation.class.getConstructors()[0];
    Object[] parts = new Object[] {ScanQuery.seq(output), ScanQuery.seq(rows), Boolean.FALSE, Option.empty()};
    try {
      return (LogicalPlan) make.newInstance(Arrays.copyOf(parts, make.getParameterTypes().length));
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Takes aggregates apart: what each part of the rows must tell, and how the parts are put together. */
  static final class Parts extends scala.runtime.AbstractPartialFunction {
    /** Function, column and type of each aggregate; no column where rows are counted. */
    final List aggregates = new ArrayList();
    /** From an aggregate in its canonical form to the name under which its parts come. */
    final Map aliases = new LinkedHashMap();
    private final FilteredRelation relation;
    private boolean failed;

    Parts(FilteredRelation relation) { this.relation = relation; }

    /** The results over the parts; null if an aggregate cannot be combined from parts. */
    List rewritten(List results) {
      List rewritten = new ArrayList();
      for (int i = 0; i < results.size(); i++) rewritten.add(((Expression) results.get(i)).transformUp(this));
      return failed ? null : rewritten;
    }

    public boolean isDefinedAt(Object node) { return true; }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (failed || !(node instanceof AggregateExpression)) return node;
      AggregateExpression whole = (AggregateExpression) node;
      List one = whole.isDistinct() || whole.filter().isDefined() ? null : aggregate(whole.aggregateFunction());
      if (one == null) {
        failed = true;
        return node;
      }
      Object key = whole.canonicalized();
      if (!aliases.containsKey(key)) {
        aggregates.add(one);
        Seq none = ScanQuery.NONE;
        aliases.put(key, new Alias(whole, "part", NamedExpression.newExprId(), none, Option.empty(), none));
      }
      Attribute part = ((Alias) aliases.get(key)).toAttribute();
      if (!one.get(0).equals("count")) {
        AggregateFunction again = one.get(0).equals("min") ? (AggregateFunction) new Min(part) : new Max(part);
        return again.toAggregateExpression();
      }
      Literal zero = new Literal(Long.valueOf(0), DataTypes.LongType);
      Expression sum = new Sum(part).toAggregateExpression();
      return new Coalesce(ScanQuery.seq(Arrays.asList(new Object[] {sum, zero})));
    }

    private List aggregate(AggregateFunction function) {
      if (function.children().size() != 1) return null;
      Expression of = (Expression) function.children().apply(0);
      if (function instanceof Count && of instanceof Literal && ((Literal) of).value() != null) {
        return Arrays.asList(new Object[] {"count", null, null});
      }
      String name = function instanceof Count ? "count" : function instanceof Min ? "min" : "max";
      Attribute column = name.equals("max") && !(function instanceof Max) ? null : relation.column(of);
      return column == null ? null : Arrays.asList(new Object[] {name, column.name(), column.dataType().json()});
    }
  }
}
