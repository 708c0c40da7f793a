import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Base64;
import java.util.BitSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.TimeZoneAwareExpression;
import org.apache.spark.sql.internal.SQLConf;
import scala.collection.JavaConverters;

/** What Java and Python tell each other, as JSON: one message instead of a call for each value. */
final class Text {
  /** py4j sends more in several writes, the second of which waits for an acknowledgement. */
  static final int LONGEST = 4000;
  static final ObjectMapper MAPPER = new ObjectMapper();
  private static final Pattern CALLS = Pattern.compile("\\w\\(|AS (?:DATE|TIMESTAMP)|INTERVAL", Pattern.CASE_INSENSITIVE);
  private static final String OWN = "org.apache.spark.sql.catalyst.expressions.";
  private static final Pattern USERS = Pattern.compile(".*\\.(?:ScalaUDF|ApplyFunction|PythonUDF)[^.]*");

  static {
    MAPPER.getFactory().configure(JsonGenerator.Feature.ESCAPE_NON_ASCII, true);
  }

  private Text() {}

  static String of(String question, Object[] arguments) {
    List all = new ArrayList();
    all.add(question);
    for (int i = 0; i < arguments.length; i++) all.add(described(arguments[i], i));
    return json(all);
  }

  static String json(Object value) {
    try {
      return MAPPER.writeValueAsString(value);
    } catch (JsonProcessingException e) {
      throw new IllegalArgumentException(e);
    }
  }

  static Map read(String text) {
    try {
      return (Map) MAPPER.readValue(text, Map.class);
    } catch (JsonProcessingException e) {
      throw new IllegalArgumentException(e);
    }
  }

  static String bits(BitSet bits) { return Base64.getEncoder().encodeToString(bits.toByteArray()); }

  static BitSet bits(String text) { return BitSet.valueOf(Base64.getDecoder().decode(text)); }

  /** A plain value as it is; all else as an object that says its place, and what Python will surely ask of it. */
  private static Object described(Object value, int place) {
    if (value == null || value instanceof String || value instanceof Number || value instanceof Boolean) return value;
    Map found = new LinkedHashMap();
    found.put("at", Integer.valueOf(place));
    if (value instanceof BitSet) found.put("bits", bits((BitSet) value));
    if (value instanceof Map) found.put("empty", Boolean.valueOf(((Map) value).isEmpty()));
    if (value instanceof scala.collection.Seq) filters((scala.collection.Seq) value, found);
    return found;
  }

  /** The text of filters, of the columns in them, and which of them mean something else than their text. */
  private static void filters(scala.collection.Seq filters, Map found) {
    List all = JavaConverters.seqAsJavaList(filters);
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
    found.put("zone", zone);
    found.put("sql", texts);
    found.put("columns", columns);
    found.put("foreign", foreign);
  }

  /** Whether a function keeps another time zone than the session's, which it does not print, or is not Spark's. */
  private static boolean isForeign(Expression node, String zone) {
    String name = node.getClass().getName();
    if (!name.startsWith(OWN) || USERS.matcher(name).matches()) return true;
    if (node instanceof TimeZoneAwareExpression) {
      scala.Option own = ((TimeZoneAwareExpression) node).timeZoneId();
      if (own.isDefined() && !zone.equals(own.get())) return true;
    }
    List children = JavaConverters.seqAsJavaList(node.children());
    for (int i = 0; i < children.size(); i++) {
      if (isForeign((Expression) children.get(i), zone)) return true;
    }
    return false;
  }
}
