import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.TimeZoneAwareExpression;
import org.apache.spark.sql.internal.SQLConf;
import scala.collection.JavaConverters;

/** The text of filters, their columns, and which of them do not mean what their text says. */
public final class FilterText implements Function {
  private static final Pattern CALLS =
    Pattern.compile("\\w\\(|AS (?:DATE|TIMESTAMP)|INTERVAL", Pattern.CASE_INSENSITIVE);
  private static final String SPARK = "org.apache.spark.sql.catalyst.expressions.";
  private static final Pattern USERS = Pattern.compile(".*\\.(?:ScalaUDF|ApplyFunction|PythonUDF)[^.]*");

  /** The same of a Scala Seq of expressions, as JSON. */
  public Object apply(Object filters) { return Json.write(of((scala.collection.Seq) filters)); }

  static Map of(scala.collection.Seq filters) {
    List all = JavaConverters.seqAsJavaList(filters);
    // Catalyst writes timestamps in the zone of the session that is active in this thread.
    String zone = SQLConf.get().sessionLocalTimeZone();
    List texts = new ArrayList();
    Map columns = new LinkedHashMap();
    List foreign = new ArrayList();
    for (int i = 0; i < all.size(); i++) {
      Expression filter = (Expression) all.get(i);
      String text = filter.sql();
      texts.add(text);
      if (CALLS.matcher(text).find() && isForeign(filter, zone)) foreign.add(Integer.valueOf(i));
      List references = JavaConverters.seqAsJavaList(filter.references().toSeq());
      for (int k = 0; k < references.size(); k++) {
        Attribute column = (Attribute) references.get(k);
        columns.put(column.sql(), column.name());
      }
    }
    Map described = new LinkedHashMap();
    described.put("zone", zone);
    described.put("sql", texts);
    described.put("columns", columns);
    described.put("foreign", foreign);
    return described;
  }

  /** Whether a function keeps another time zone than the session's, which it does not print, or is not Spark's. */
  private static boolean isForeign(Expression node, String zone) {
    String name = node.getClass().getName();
    if (!name.startsWith(SPARK) || USERS.matcher(name).matches()) return true;
    if (node instanceof TimeZoneAwareExpression) {
      scala.Option function = ((TimeZoneAwareExpression) node).timeZoneId();
      if (function.isDefined() && !zone.equals(function.get())) return true;
    }
    List children = JavaConverters.seqAsJavaList(node.children());
    for (int i = 0; i < children.size(); i++) {
      if (isForeign((Expression) children.get(i), zone)) return true;
    }
    return false;
  }
}
