import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.function.Supplier;
import org.apache.spark.SparkContext;

/** The latest scans, until Python collects them, or is told of many at once. */
public final class ScanLog implements Supplier<Object> {
  /** The local property of threads in which a key query runs. */
  static final String FOR_KEYS = "spark.zskip.joins.asking";
  /** The local property of threads that list the files of a query without running it: by whom it is explained. */
  static final String EXPLAINED = "spark.zskip.explaining";
  /** So many scans that their text is still a short one for py4j (`Json.LONGEST`). */
  private static final int MANY = 25;
  private static final int LIMIT = 1000;
  private static final ConcurrentLinkedDeque<Object> SCANS = new ConcurrentLinkedDeque<>();

  /**
   * joins: why none of them left out a file, if Python was not told yet; copies: whether a statement reads files that it
   * writes anew, which a scan before has found.
   */
  static void add(Object ticket, Listing left, long nanos, List<?> joins, boolean copies) {
    Map<String, Object> scan = new LinkedHashMap<>();
    String explained = SparkContext.getOrCreate().getLocalProperty(EXPLAINED);
    scan.put("time", System.currentTimeMillis());
    scan.put("query", query());
    scan.put("ticket", ticket);
    scan.put("for_keys", isForKeys());
    scan.put("copies", copies);
    scan.put("explained", explained);
    scan.put("files", left.files);
    scan.put("bytes", left.bytes);
    scan.put("rows", left.rows < 0 ? null : Long.valueOf(left.rows));
    scan.put("total", left.total[0]);
    scan.put("total_bytes", left.total[1]);
    scan.put("total_rows", left.total[2] < 0 ? null : Long.valueOf(left.total[2]));
    scan.put("nanos", nanos);
    scan.put("joins", joins == null ? new ArrayList<>() : joins);
    SCANS.add(scan);
    if (left.index.isWatched || SCANS.size() >= MANY) tell(left.index.python);
    while (SCANS.size() > LIMIT) SCANS.pollFirst();
  }

  /** Has Python collect the scans. */
  private static void tell(Python python) {
    try {
      python.ask("scanned", (Object) null);
    } catch (RuntimeException e) {
      Faults.tell("report scans", e);
    }
  }

  /** The number of the query that the calling thread runs, -1 where it has none: `explain` and the like. */
  static long query() {
    SparkContext context = SparkContext.getOrCreate();
    String number = context.getLocalProperty("spark.sql.execution.root.id");
    if (number == null) number = context.getLocalProperty("spark.sql.execution.id");
    return number == null ? -1 : Long.parseLong(number);
  }

  /** Whether the calling thread asks for the keys of a join. */
  private static boolean isForKeys() {
    return "true".equals(SparkContext.getOrCreate().getLocalProperty(FOR_KEYS));
  }

  /** The scans since the last call, as JSON. */
  public Object get() {
    List<Object> scans = new ArrayList<>();
    for (Object scan = SCANS.pollFirst(); scan != null; scan = SCANS.pollFirst()) scans.add(scan);
    return Json.write(scans);
  }
}
