import java.util.HashMap;
import java.util.Map;

/** What a join says of a column of a scan: the values that it must have one of, or why they are not known. */
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
  Map described() {
    Map made = new HashMap();
    made.put("column", column);
    made.put("name", name);
    made.put("reason", reason);
    made.put("seconds", Double.valueOf(seconds));
    made.put("type", values == null ? null : values.type.json());
    made.put("values", values == null ? null : values.packed());
    return made;
  }
}
