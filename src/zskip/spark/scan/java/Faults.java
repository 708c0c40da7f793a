import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** What went wrong in a plan or a scan, which goes on as Spark has it: told once for each place. */
final class Faults {
  private static final Set TOLD = ConcurrentHashMap.newKeySet();
  /** Who warns; null until there is a rule. */
  static volatile Python python;

  private Faults() {}

  static void tell(String place, Throwable fault) {
    if (python == null || !TOLD.add(place)) return;
    try {
      python.ask("failed", new Object[] {place, String.valueOf(fault)});
    } catch (Exception e) {
      TOLD.remove(place);
    }
  }
}
