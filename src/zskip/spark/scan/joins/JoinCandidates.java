import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Expression;

/** The joins of one scan: used ones are its note and distinguish scans, the others only give a reason. */
final class JoinCandidates {
  final List<JoinCandidate> used = new ArrayList<>();
  final List<JoinCandidate> unused = new ArrayList<>();
  /** From a column or an expression to the table that may be broadcast, and filters by its keys; of Iceberg's alone. */
  final Map<String, Object[]> broadcasts = new LinkedHashMap<>();
  /** Where a MERGE reads files with matches again: filters that all matches pass. */
  final List<Expression> ranges = new ArrayList<>();

  void add(JoinCandidate join) {
    List<JoinCandidate> all = join.reason.isEmpty() ? used : unused;
    if (!all.contains(join)) all.add(join);
  }

  public int hashCode() { return used.size(); }

  public boolean equals(Object other) {
    return this == other || other instanceof JoinCandidates && used.equals(((JoinCandidates) other).used);
  }
}
