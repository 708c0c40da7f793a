import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Base64;
import java.util.BitSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Messages between Java and Python, as JSON: one message instead of a call for each value. */
final class Json {
  /** py4j sends more in several writes, the second of which waits for an acknowledgement. */
  static final int LONGEST = 4000;
  static final ObjectMapper MAPPER = new ObjectMapper();

  static {
    MAPPER.getFactory().configure(JsonGenerator.Feature.ESCAPE_NON_ASCII, true);
  }

  private Json() {}

  static String question(String question, Object[] arguments) {
    List all = new ArrayList();
    all.add(question);
    for (int i = 0; i < arguments.length; i++) all.add(described(arguments[i], i));
    return write(all);
  }

  static String write(Object value) {
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

  /** A plain value as it is, filters as JSON in a text; other values as the number of their argument. */
  private static Object described(Object value, int argument) {
    if (value == null || value instanceof String || value instanceof Number || value instanceof Boolean) return value;
    Map described = new LinkedHashMap();
    if (value instanceof scala.collection.Seq) described.put("filters", FilterText.of((scala.collection.Seq) value));
    described.put("argument", Integer.valueOf(argument));
    return described;
  }
}
