import java.io.InterruptedIOException;
import java.net.SocketTimeoutException;
import java.nio.channels.ClosedByInterruptException;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.unsafe.Platform;

/** Faults in a plan or a scan, which then stays as Spark has it; the user gets one warning for each. */
public final class Faults {
  private static final Set<String> TOLD = ConcurrentHashMap.newKeySet();
  private static final int MOST = 1000;
  /** Who warns; null until there is a rule. */
  static volatile Python python;

  private Faults() {}

  /** A fault of ours; task: what zskip could not do. Throws what stops the query. */
  static void tell(String task, Throwable fault) {
    passOn(fault);
    tell(task, "failed", task, String.valueOf(fault));
  }

  /** An error of the user, in whole sentences. */
  static void refuse(String text) { tell(text, "refused", text); }

  /**
   * Throws what must end the query: an error that is not a missing or different class, and the interrupt or the
   * cancellation by the user that a fault comes from.
   */
  public static void passOn(Throwable fault) {
    if (!(fault instanceof Exception) && !(fault instanceof LinkageError)) Platform.throwException(fault);
    for (Throwable one = fault; one != null; one = one.getCause()) {
      boolean isInterrupt = one instanceof InterruptedException
        || one instanceof InterruptedIOException && !(one instanceof SocketTimeoutException)
        || one instanceof ClosedByInterruptException;
      boolean ofSpark = one instanceof org.apache.spark.SparkException;
      boolean isCanceled = ofSpark && String.valueOf(one.getMessage()).indexOf(" cancelled") >= 0;
      if (isInterrupt || isCanceled) Platform.throwException(one);
    }
  }

  private static void tell(String once, String question, Object... arguments) {
    if (TOLD.size() >= MOST) TOLD.clear();
    if (python == null || !TOLD.add(once)) return;
    try {
      python.ask(question, arguments);
    } catch (Exception e) {
      TOLD.remove(once);
      passOn(e);
    }
  }
}
