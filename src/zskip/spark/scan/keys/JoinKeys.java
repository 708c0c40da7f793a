import java.util.HashMap;
import java.util.Map;

/** The values of a scan's column that have a partner in a join, or why they are unknown. */
final class JoinKeys {
  final String column;
  final String name;
  String reason;
  double seconds;
  /** Null where they are not known. */
  KeyValues values;

  /** name: of the other side, such as `date_dim on d_date_sk`. */
  JoinKeys(String column, String name, String reason) {
    this.column = column;
    this.name = name;
    this.reason = reason;
  }

  /** For Python, which reads it as JSON. */
  Map<String, Object> described() {
    Map<String, Object> described = new HashMap<>();
    described.put("column", column);
    described.put("name", name);
    described.put("reason", reason);
    described.put("seconds", seconds);
    described.put("type", values == null ? null : values.type.json());
    described.put("values", values == null ? null : values.packed());
    return described;
  }
}
