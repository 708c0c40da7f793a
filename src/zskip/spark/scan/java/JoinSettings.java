import org.apache.spark.sql.internal.SQLConf;

/** What the session says of join pruning, and what is worth asking for. */
final class JoinSettings {
  /** Bytes of a scan below which looking for keys costs more than it saves. */
  private static final long SMALLEST_SCAN = 1L << 20;
  /** Bytes that are read while one key is looked at. */
  private static final long BYTES_PER_KEY = 64;
  /** Bytes that are read in the time that a job takes, whatever it does. */
  private static final long JOB = 64L << 20;

  final boolean off;
  final boolean always;
  final int seconds;
  private final int keys;

  JoinSettings() {
    String mode = SQLConf.get().getConfString("spark.zskip.joins", "off");
    off = mode.equals("off");
    always = mode.equals("always");
    if (!off && !always && !mode.equals("auto")) {
      throw new IllegalArgumentException("spark.zskip.joins=" + mode + " is none of auto, always, off");
    }
    seconds = Integer.parseInt(SQLConf.get().getConfString("spark.zskip.joins.seconds", "30"));
    keys = Integer.parseInt(SQLConf.get().getConfString("spark.zskip.joins.keys", "1000000"));
  }

  /** Whether a scan is too small to look for the keys that are there anyway. */
  boolean isSmall(long scan) { return !always && scan < SMALLEST_SCAN; }

  /** The most keys to look at. */
  int most(long scan) { return always ? keys : (int) Math.min(keys, scan / BYTES_PER_KEY); }

  /** Why a key query over some bytes is not worth what it may save of a scan; empty where it is. */
  String whyNot(long scan, long side) {
    if (always || scan >= 2 * (JOB + side)) return "";
    return "key query not worth it: " + size(scan) + " to scan";
  }

  private static String size(long bytes) {
    return bytes < 1000000 ? Math.max(1, bytes / 1000) + " kB" : bytes / 1000000 + " MB";
  }
}
