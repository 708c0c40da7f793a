import java.util.ArrayList;
import java.util.List;

/** The joins of one scan: those that are used are its note and make scans unequal, the others only say why not. */
final class JoinCandidates {
  final List used = new ArrayList();
  final List unused = new ArrayList();

  void add(JoinCandidate join) {
    List all = join.reason.isEmpty() ? used : unused;
    if (!all.contains(join)) all.add(join);
  }

  public int hashCode() { return used.size(); }

  public boolean equals(Object other) {
    return this == other || other instanceof JoinCandidates && used.equals(((JoinCandidates) other).used);
  }
}
