import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/**
 * Join pruning: files none of whose rows has a partner on the other side of a join are not read.
 *
 * The keys of the other side are those of a table that the query broadcasts anyway, or are asked for when the scan
 * lists its files, which is when the query runs.
 */
final class Joins {
  static final String NOTE = "join";

  /** Notes of each relation of ours by which joins it may be pruned. */
  static LogicalPlan apply(LogicalPlan plan) {
    JoinSettings settings = new JoinSettings();
    return settings.off ? plan : JoinSearch.apply(plan, settings);
  }

  /** The notes of a scan that lists its files, its joins being what they turned out to be. */
  static Map notes(zskip index) {
    Map notes = new LinkedHashMap(index.query.notes);
    JoinCandidates candidates = (JoinCandidates) notes.remove(NOTE);
    try {
      List described = described(index, candidates == null ? new JoinCandidates() : candidates);
      if (!described.isEmpty()) notes.put(NOTE, described);
    } catch (Exception e) {
      Faults.tell("pruning by joins", e);
    } catch (LinkageError e) {
      Faults.tell("pruning by joins", e);
    }
    return notes;
  }

  /** What notes say, where that is only why no join leaves out a file; null where something may. */
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
    // Plans that are only shown say why not, of however small a scan.
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
