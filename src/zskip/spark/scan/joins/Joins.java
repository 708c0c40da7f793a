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
  static final String NOTE = "join";

  /** Notes for each relation of ours the joins that may prune it. */
  static LogicalPlan apply(LogicalPlan plan) {
    JoinSettings settings = new JoinSettings();
    return settings.off ? plan : JoinSearch.apply(plan, settings);
  }

  /** The notes of a scan that lists its files, with the keys of its joins. */
  static Map notes(zskip index) {
    Map notes = new LinkedHashMap(index.query.notes);
    JoinCandidates candidates = (JoinCandidates) notes.remove(NOTE);
    try {
      List described = described(index, candidates == null ? new JoinCandidates() : candidates);
      if (!described.isEmpty()) notes.put(NOTE, described);
    } catch (Exception e) {
      Faults.tell("skip files by joins", e);
    } catch (LinkageError e) {
      Faults.tell("skip files by joins", e);
    }
    return notes;
  }

  /** The reasons why no join skips a file; null if a note may skip files. */
  static List reasons(Map notes) {
    if (notes.size() != 1 || !notes.containsKey(NOTE)) return null;
    List all = (List) notes.get(NOTE);
    for (int i = 0; i < all.size(); i++) if (((Map) all.get(i)).get("type") != null) return null;
    return all;
  }

  private static List described(zskip index, JoinCandidates candidates) {
    List described = new ArrayList();
    JoinSettings settings = new JoinSettings();
    long scan = index.query.bytes;
    // Plans that are only shown give the reason for scans of any size.
    if (settings.off || settings.isSmall(scan) && ScanLog.query() >= 0) return described;
    List keys = Broadcasts.of(index, settings.most(scan));
    for (int i = 0; i < candidates.used.size(); i++) {
      JoinCandidate join = (JoinCandidate) candidates.used.get(i);
      if (!known(join, keys)) keys.add(KeyQuery.ask(join, settings.most(scan), settings.seconds));
    }
    for (int i = 0; i < index.query.unused.size(); i++) {
      JoinCandidate join = (JoinCandidate) index.query.unused.get(i);
      if (!known(join, keys)) keys.add(new JoinKeys(join.column, join.name, join.reason));
    }
    for (int i = 0; i < keys.size(); i++) described.add(((JoinKeys) keys.get(i)).described());
    return described;
  }

  /** Whether a broadcast has the keys already, or too many of them. */
  private static boolean known(JoinCandidate join, List keys) {
    for (int i = 0; i < keys.size(); i++) {
      JoinKeys one = (JoinKeys) keys.get(i);
      if (one.column.equals(join.column) && one.name.equals(join.name)) return true;
    }
    return false;
  }
}
