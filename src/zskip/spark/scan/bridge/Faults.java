import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** Faults in a plan or a scan, which then stays as Spark has it; the user gets one warning for each. */
final class Faults {
  private static final Set TOLD = ConcurrentHashMap.newKeySet();
  /** Who warns; null until there is a rule. */
  static volatile Python python;

  private Faults() {}

  /** A fault of ours. */
  static void tell(String step, Throwable fault) {
    tell(step, "failed", new Object[] {step, String.valueOf(fault)});
  }

  /** An error of the user, in whole sentences. */
  static void refuse(String text) { tell(text, "refused", new Object[] {text}); }

  private static void tell(String once, String question, Object[] arguments) {
    if (python == null || !TOLD.add(once)) return;
    try {
      python.ask(question, arguments);
    } catch (Exception e) {
      TOLD.remove(once);
    }
  }
}
