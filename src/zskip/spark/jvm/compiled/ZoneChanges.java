import java.time.Instant;
import java.time.zone.ZoneOffsetTransition;
import java.time.zone.ZoneRules;
import java.util.ArrayList;
import java.util.List;

/** When a time zone changes its offset. */
public final class ZoneChanges {
  /** The first offset, then the instant of each change and the offset after it, in seconds; before a local year. */
  public List<Long> of(ZoneRules rules, long first, int year) {
    Instant begin = Instant.ofEpochSecond(first - 1);
    List<Long> seconds = new ArrayList<>();
    seconds.add((long) rules.getOffset(begin).getTotalSeconds());
    ZoneOffsetTransition change = rules.nextTransition(begin);
    while (change != null && change.getDateTimeBefore().getYear() < year) {
      seconds.add(change.toEpochSecond());
      seconds.add((long) change.getOffsetAfter().getTotalSeconds());
      change = rules.nextTransition(change.getInstant());
    }
    return seconds;
  }
}
