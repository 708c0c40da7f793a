import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/**
 * Join pruning: files none of whose rows has a partner on the other side of a join are not read.
 *
 * The keys of the other side come from a table that the query broadcasts, or from a key query that runs when the scan
 * lists its files, which is when the query runs.
 */
final class Joins {
  /** Notes for each relation of ours the joins that may prune it. */
  static LogicalPlan apply(LogicalPlan plan) {
    JoinSettings settings = new JoinSettings();
    return settings.off ? plan : JoinSearch.apply(plan, settings);
  }

  /** The notes of a scan that lists its files, with the keys of its joins. */
  static Map<String, Object> notes(ZskipFiles index) {
    Map<String, Object> notes = new LinkedHashMap<>(index.query.notes);
    JoinCandidates candidates = (JoinCandidates) notes.remove(ScanQuery.JOIN);
    try {
      List<Map<String, Object>> described = described(index, candidates == null ? new JoinCandidates() : candidates);
      if (!described.isEmpty()) notes.put(ScanQuery.JOIN, described);
    } catch (Throwable e) {
      Faults.tell("skip files by joins", e);
    }
    return notes;
  }

  /** The reasons why no join skips a file; null if a note may skip files. */
  static List<Map<String, Object>> reasons(Map<String, Object> notes) {
    if (notes.size() != 1 || !notes.containsKey(ScanQuery.JOIN)) return null;
    List<Map<String, Object>> all = (List<Map<String, Object>>) notes.get(ScanQuery.JOIN);
    for (Map<String, Object> one : all) if (one.get("type") != null) return null;
    return all;
  }

  private static List<Map<String, Object>> described(ZskipFiles index, JoinCandidates candidates) {
    List<Map<String, Object>> described = new ArrayList<>();
    JoinSettings settings = new JoinSettings();
    long scan = index.query.bytes;
    // Plans that are only shown give the reason for scans of any size.
    if (settings.off || settings.isSmall(scan) && ScanLog.query() >= 0) return described;
    List<JoinKeys> keys = Broadcasts.of(index, settings.most(scan));
    for (JoinCandidate join : candidates.used) {
      if (!known(join, keys)) keys.add(KeyQuery.ask(join, settings.most(scan), settings.seconds));
    }
    for (JoinCandidate join : index.query.unused) {
      if (!known(join, keys)) keys.add(new JoinKeys(join.column, join.name, join.reason));
    }
    for (JoinKeys one : keys) described.add(one.described());
    return described;
  }

  /** Whether a broadcast has the keys already, or too many of them. */
  private static boolean known(JoinCandidate join, List<JoinKeys> keys) {
    for (JoinKeys one : keys) {
      if (one.column.equals(join.column) && one.name.equals(join.name)) return true;
    }
    return false;
  }
}
