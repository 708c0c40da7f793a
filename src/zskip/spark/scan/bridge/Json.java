import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Base64;
import java.util.BitSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Expression;

/** Messages between Java and Python, as JSON: one message instead of a call for each value. */
final class Json {
  /** Characters; py4j sends more in several writes, the second of which waits for an acknowledgement. */
  private static final int LONGEST = 7500;
  static final ObjectMapper MAPPER = new ObjectMapper();

  static {
    MAPPER.getFactory().configure(JsonGenerator.Feature.ESCAPE_NON_ASCII, true);
  }

  private Json() {}

  /** A question and its arguments in a line, and each argument that is filters in a line of its own. */
  static String question(String question, Object[] arguments) {
    List<Object> all = new ArrayList<>();
    all.add(question);
    StringBuilder filters = new StringBuilder();
    for (int i = 0; i < arguments.length; i++) {
      all.add(described(arguments[i], i));
      if (!isFilters(arguments[i])) continue;
      filters.append('\n').append(FilterText.of((scala.collection.Seq<Expression>) arguments[i]));
    }
    return write(all) + filters;
  }

  /** Whether py4j would send a text in several writes; it escapes these two. */
  static boolean isLong(String text) {
    int length = text.length();
    for (int i = 0; i < text.length() && length <= LONGEST; i++) {
      if (text.charAt(i) == '\\' || text.charAt(i) == '\n') length++;
    }
    return length > LONGEST;
  }

  static String write(Object value) {
    try {
      return MAPPER.writeValueAsString(value);
    } catch (JsonProcessingException e) {
      throw new IllegalArgumentException(e);
    }
  }

  static Map<String, Object> read(String text) {
    try {
      return (Map<String, Object>) MAPPER.readValue(text, Map.class);
    } catch (JsonProcessingException e) {
      throw new IllegalArgumentException(e);
    }
  }

  static String bits(BitSet bits) { return Base64.getEncoder().encodeToString(bits.toByteArray()); }

  static BitSet bits(String text) { return BitSet.valueOf(Base64.getDecoder().decode(text)); }

  private static boolean isFilters(Object value) { return value instanceof scala.collection.Seq; }

  /** A plain value as it is; other values as the number of their argument. */
  private static Object described(Object value, int argument) {
    if (value == null || value instanceof String || value instanceof Number || value instanceof Boolean) return value;
    Map<String, Object> described = new LinkedHashMap<>();
    described.put("argument", argument);
    if (isFilters(value)) described.put("is_filters", Boolean.TRUE);
    return described;
  }
}
