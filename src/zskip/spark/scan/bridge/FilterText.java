import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.TimeZoneAwareExpression;
import org.apache.spark.sql.internal.SQLConf;
import scala.Function1;
import scala.runtime.AbstractPartialFunction;
import SEQ;

/** Filters as JSON: their trees, their columns, and which of them do not mean what they say. */
public final class FilterText implements Function<Object, Object> {
  private static final String SPARK = "org.apache.spark.sql.catalyst.expressions.";
  private static final Pattern USERS = Pattern.compile(".*\\.(?:ScalaUDF|ApplyFunction|PythonUDA?F)[^.]*");

  /** A recorded filter has to be one of the table, whatever a query calls it. */
  private static final AbstractPartialFunction WITHOUT_ALIASES = new AbstractPartialFunction() {
    public boolean isDefinedAt(Object node) {
      return node instanceof AttributeReference && ((AttributeReference) node).qualifier().nonEmpty();
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      return isDefinedAt(node) ? ((AttributeReference) node).withQualifier((Seq) Scala.NONE) : node;
    }
  };

  /** Describes a Scala Seq of expressions. */
  public Object apply(Object filters) { return of((scala.collection.Seq<Expression>) filters); }

  static String of(scala.collection.Seq<? extends Expression> filters) { return of(filters, false); }

  /** withFunctions: so that Python names the Python functions in them (`functions.py`). */
  static String of(scala.collection.Seq<? extends Expression> filters, boolean withFunctions) {
    List<Expression> all = Scala.list(filters);
    // Catalyst writes timestamps in the zone of the session that is active in this thread.
    String zone = SQLConf.get().sessionLocalTimeZone();
    List<Object> trees = new ArrayList<>();
    Map<String, String> columns = new LinkedHashMap<>();
    List<Integer> foreign = new ArrayList<>();
    Map<String, String> keys = new LinkedHashMap<>();
    Map<String, Object> functions = new LinkedHashMap<>();
    ExpressionKey expressions = new ExpressionKey();
    for (int i = 0; i < all.size(); i++) {
      Expression filter = (Expression) ((Expression) all.get(i)).transformUp(WITHOUT_ALIASES);
      FilterTree tree = new FilterTree(expressions);
      trees.add(tree.of(filter));
      if ((withFunctions || !tree.isPlain) && isForeign(filter, zone)) {
        foreign.add(i);
        String key = withFunctions ? expressions.withFunctions(filter) : expressions.of(filter);
        if (key != null) keys.put(String.valueOf(i), key);
        if (key != null && !expressions.functions.isEmpty()) {
          functions.put(String.valueOf(i), new ArrayList<>(expressions.functions));
        }
      }
      for (Attribute column : Scala.list(filter.references().toSeq())) {
        columns.put(column.sql(), column.name());
      }
    }
    Map<String, Object> described = new LinkedHashMap<>();
    described.put("zone", zone);
    described.put("trees", trees);
    described.put("columns", columns);
    described.put("foreign", foreign);
    if (!keys.isEmpty()) described.put("keys", keys);
    if (!functions.isEmpty()) described.put("functions", functions);
    return Json.write(described);
  }

  /** Whether a function keeps another time zone than the session's, or is not Spark's, or a text is not valid. */
  private static boolean isForeign(Expression node, String zone) {
    String name = node.getClass().getName();
    if (!name.startsWith(SPARK) || USERS.matcher(name).matches()) return true;
    if (node instanceof TimeZoneAwareExpression) {
      scala.Option function = ((TimeZoneAwareExpression) node).timeZoneId();
      if (function.isDefined() && !zone.equals(function.get())) return true;
    }
    if (node instanceof Literal && FilterTree.isMangled(((Literal) node).value())) return true;
    List listed = node instanceof InSet ? Scala.list(((InSet) node).hset().toSeq()) : new ArrayList();
    for (Object one : listed) if (FilterTree.isMangled(one)) return true;
    for (Expression child : Scala.list(node.children())) {
      if (isForeign(child, zone)) return true;
    }
    return false;
  }
}
