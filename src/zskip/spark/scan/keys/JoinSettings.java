import java.util.Locale;
import org.apache.spark.sql.internal.SQLConf;

/** The session's settings of join pruning, and when it pays. */
final class JoinSettings {
  private static final String MODE = "spark.zskip.joins";
  /** Bytes of a scan below which looking for keys costs more than it saves. */
  private static final long SMALLEST_SCAN = 1L << 20;
  /** Bytes of a scan for each key that is read, so that keys cost a fraction of the scan. */
  private static final long BYTES_PER_KEY = 1024;
  /** Bytes that Spark reads in the time that the smallest job takes. */
  private static final long JOB = 64L << 20;

  /** Also if a setting has no valid value, which costs a warning. */
  final boolean off;
  final boolean always;
  final int seconds;
  private final int keys;

  JoinSettings() {
    String setting = SQLConf.get().getConfString(MODE, "auto");
    String mode = setting.trim().toLowerCase(Locale.ROOT);
    always = mode.equals("always");
    seconds = number(MODE + ".seconds", 30);
    // A key query asks for one key more, to see whether there are too many.
    keys = Math.min(number(MODE + ".keys", 1000000), Integer.MAX_VALUE - 1);
    boolean known = always || mode.equals("auto") || mode.equals("off");
    if (!known) refuse(MODE, setting, "auto, always or off");
    off = !known || mode.equals("off") || seconds == 0 || keys == 0;
  }

  /** A positive number; 0 if the setting is none. */
  private static int number(String name, int usual) {
    String setting = SQLConf.get().getConfString(name, String.valueOf(usual));
    try {
      int value = Integer.parseInt(setting.trim());
      if (value > 0) return value;
    } catch (NumberFormatException e) {
      // Refused below.
    }
    refuse(name, setting, "a whole number from 1 to " + Integer.MAX_VALUE);
    return 0;
  }

  private static void refuse(String name, String setting, String ways) {
    String advice = ": set it to " + ways + ", or unset it; until then no scan is pruned by its joins";
    Faults.refuse(name + " is \"" + setting + "\"" + advice);
  }

  /** Whether a scan is too small to read keys of broadcasts. */
  boolean isSmall(long scan) { return !always && scan < SMALLEST_SCAN; }

  /** The most keys to read. */
  int most(long scan) { return always ? keys : (int) Math.min(keys, scan / BYTES_PER_KEY); }

  /** Why a key query over some bytes is not worth it for a scan; empty if it is. */
  String whyNot(long scan, long side) {
    if (always || scan >= 2 * (JOB + side)) return "";
    return "key query not worth it: " + size(scan) + " to scan";
  }

  private static String size(long bytes) {
    return bytes < 1000000 ? Math.max(1, bytes / 1000) + " kB" : bytes / 1000000 + " MB";
  }
}
