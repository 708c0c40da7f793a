import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedDeque;
import org.apache.spark.SparkContext;

/** What the latest scans read, until Python asks for it. */
final class Scans {
  /** The local property of threads in which a key query runs. */
  static final String FOR_KEYS = "spark.zskip.joins.asking";
  private static final int HELD = 1000;
  private static final ConcurrentLinkedDeque DONE = new ConcurrentLinkedDeque();

  private Scans() {}

  /** joins: why none of them left out a file, if nobody else was told. */
  static void add(Object ticket, Listing left, long[] total, long nanos, List joins) {
    Map scan = new LinkedHashMap();
    scan.put("time", Long.valueOf(System.currentTimeMillis()));
    scan.put("query", query());
    scan.put("ticket", ticket);
    scan.put("for_keys", forKeys());
    scan.put("files", Integer.valueOf(left.files));
    scan.put("bytes", Long.valueOf(left.bytes));
    scan.put("total", Long.valueOf(total[0]));
    scan.put("total_bytes", Long.valueOf(total[1]));
    if (left.rows >= 0) scan.put("rows", Long.valueOf(left.rows));
    if (total[2] >= 0) scan.put("total_rows", Long.valueOf(total[2]));
    scan.put("nanos", Long.valueOf(nanos));
    if (joins != null) scan.put("joins", joins);
    DONE.add(scan);
    while (DONE.size() > HELD) DONE.pollFirst();
  }

  /** The number of the query that the calling thread runs, -1 where it has none: `explain` and the like. */
  static Long query() {
    SparkContext context = SparkContext.getOrCreate();
    String number = context.getLocalProperty("spark.sql.execution.root.id");
    if (number == null) number = context.getLocalProperty("spark.sql.execution.id");
    return Long.valueOf(number == null ? "-1" : number);
  }

  /** Whether the calling thread asks for the keys of a join. */
  static Boolean forKeys() {
    return Boolean.valueOf("true".equals(SparkContext.getOrCreate().getLocalProperty(FOR_KEYS)));
  }

  static String take() {
    List taken = new ArrayList();
    for (Object scan = DONE.pollFirst(); scan != null; scan = DONE.pollFirst()) taken.add(scan);
    return Text.json(taken);
  }
}
