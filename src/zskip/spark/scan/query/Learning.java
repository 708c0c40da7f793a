import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.SparkContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.scheduler.AccumulableInfo;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.ColumnarToRowExec;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.FileScanRDD;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;

/**
 * What the tasks of finished queries have shown: files without a row for which the filter of a scan is true.
 *
 * A task shows it of its files if it read all of their rows and the filter right above the scan let none through. From
 * there to the end of the stage stand only operators that have a partition for each of the scan's, and that ask for
 * all rows as long as they get none: no row is left unread because nobody asked.
 */
public final class Learning extends SparkListener {
  private static final String SETTING = "spark.zskip.learn";
  /** The name of the metric of scans and filters. */
  private static final String ROWS = "number of output rows";
  private static final Set<String> ASKING = new HashSet<>(Arrays.asList(
    "FilterExec", "ProjectExec", "WholeStageCodegenExec", "InputAdapter", "ColumnarToRowExec", "SortExec",
    "HashAggregateExec", "ObjectHashAggregateExec", "SortAggregateExec", "LocalLimitExec", "CollectLimitExec",
    "TakeOrderedAndProjectExec"));
  /** Then all are forgotten, and the queries that run show less. */
  private static final int MOST_TASKS = 50000;
  private static Learning listener;

  private final SparkContext context;
  /** By stage and by the number of an operator's metric, the rows that it gave for each partition. */
  private final Map<Integer, Map<Long, Map<Integer, Long>>> stages = new HashMap<>();
  private int tasks = 0;

  private Learning(SparkContext context) { this.context = context; }

  /** Listens from now on, if the session is to learn: from before the first task of a query. */
  static void begin() {
    if (isOn(SQLConf.get())) listen(SparkContext.getOrCreate());
  }

  private static synchronized void listen(SparkContext context) {
    if (listener != null && listener.context == context) return;
    listener = new Learning(context);
    context.addSparkListener(listener);
  }

  private static boolean isOn(SQLConf settings) {
    return "true".equalsIgnoreCase(settings.getConfString(SETTING, "false").trim());
  }

  public synchronized void onTaskEnd(SparkListenerTaskEnd end) {
    if (!end.taskInfo().successful()) return;
    // All at once: a filter's rows must not be forgotten before those of its scan.
    if (tasks++ == MOST_TASKS) {
      stages.clear();
      tasks = 0;
    }
    Integer number = Integer.valueOf(end.stageId());
    if (!stages.containsKey(number)) stages.put(number, new HashMap<Long, Map<Integer, Long>>());
    Map<Long, Map<Integer, Long>> stage = (Map<Long, Map<Integer, Long>>) stages.get(number);
    scala.collection.Iterator all = end.taskInfo().accumulables().iterator();
    while (all.hasNext()) {
      AccumulableInfo one = (AccumulableInfo) all.next();
      boolean isRows = one.name().isDefined() && ROWS.equals(one.name().get()) && one.update().isDefined();
      if (!isRows || !(one.update().get() instanceof Long)) continue;
      Long metric = Long.valueOf(one.id());
      if (!stage.containsKey(metric)) stage.put(metric, new HashMap<Integer, Long>());
      Map<Integer, Long> rows = (Map<Integer, Long>) stage.get(metric);
      rows.put(Integer.valueOf(end.taskInfo().partitionId()), (Long) one.update().get());
    }
  }

  public void onOtherEvent(SparkListenerEvent event) {
    if (!(event instanceof SparkListenerSQLExecutionEnd)) return;
    QueryExecution query = ((SparkListenerSQLExecutionEnd) event).qe();
    try {
      if (query != null && isOn(query.sparkSession().sessionState().conf())) learn(query.executedPlan(), true);
    } catch (Throwable e) {
      Faults.tell("learn from a query", e);
    }
  }

  /** isAsked: whether all rows of a node are asked for as long as there is none, in a task for each partition. */
  private void learn(SparkPlan node, boolean isAsked) {
    if (node instanceof AdaptiveSparkPlanExec) {
      learn(((AdaptiveSparkPlanExec) node).executedPlan(), isAsked);
      return;
    }
    if (node instanceof QueryStageExec) {
      learn(((QueryStageExec) node).plan(), isAsked);
      return;
    }
    if (node instanceof FilterExec && isAsked) learn((FilterExec) node);
    boolean asks = node instanceof Exchange || (isAsked && ASKING.contains(node.getClass().getSimpleName()));
    List<SparkPlan> children = Scala.list(node.children());
    for (SparkPlan child : children) learn(child, asks);
  }

  private void learn(FilterExec filter) {
    SparkPlan below = filter.child();
    while (below instanceof ColumnarToRowExec || below instanceof InputAdapter || below instanceof WholeStageCodegenExec) {
      below = (SparkPlan) below.children().head();
    }
    if (!(below instanceof FileSourceScanExec)) return;
    FileSourceScanExec scan = (FileSourceScanExec) below;
    ZskipFiles files = ZskipFiles.of(scan.relation().location());
    if (files == null || files.bound.root == null || files.query == null) return;
    boolean hasOthers = Hudi.isIndex(files.files) || Delta.isChange(files.files);
    boolean isPlanned = files.query.isOver(scan.partitionFilters(), scan.dataFilters());
    if (hasOthers || !isPlanned || !isIn(filter.condition(), Scala.list(scan.dataFilters()))) return;
    BitSet without = new BitSet();
    Map<Integer, Long> read = readInVain(number(scan), number(filter));
    for (FilePartition partition : read.isEmpty() ? new ArrayList<FilePartition>() : filePartitions(scan)) {
      Long rows = (Long) read.get(Integer.valueOf(partition.index()));
      if (rows != null) add(partition, rows.longValue(), files.bound, without);
    }
    if (without.isEmpty()) return;
    files.bound.python.ask("learned", null, files.query.ticket, Json.bits(without));
    files.bound.python.forget();
  }

  /** Whether all parts of a condition are among some filters. */
  private static boolean isIn(Expression condition, List<Expression> filters) {
    for (Expression part : ScanQuery.conjuncts(condition)) {
      boolean isKnown = false;
      for (Expression one : filters) isKnown |= one.semanticEquals(part);
      if (!isKnown) return false;
    }
    return true;
  }

  /** The rows that were read of each partition of which the filter let none through; by the numbers of metrics. */
  private synchronized Map<Integer, Long> readInVain(long read, long passed) {
    Map<Integer, Long> rows = new HashMap<>();
    for (Map<Long, Map<Integer, Long>> stage : stages.values()) {
      Map<Integer, Long> gave = (Map<Integer, Long>) stage.get(Long.valueOf(read));
      if (gave == null) continue;
      rows.putAll(gave);
      // Tasks do not report a metric that is 0.
      Map<Integer, Long> let = (Map<Integer, Long>) stage.get(Long.valueOf(passed));
      if (let != null) rows.keySet().removeAll(let.keySet());
    }
    return rows;
  }

  private static List<FilePartition> filePartitions(FileSourceScanExec scan) {
    RDD<?> rows = (RDD<?>) scan.inputRDDs().head();
    if (!(rows instanceof FileScanRDD)) return new ArrayList<>();
    return Scala.list(((FileScanRDD) rows).filePartitions());
  }

  /** Adds the files of a partition, if the index knows them, each is read whole, and together they have so many rows. */
  private static void add(FilePartition partition, long read, BoundIndex index, BitSet files) {
    BitSet numbers = new BitSet();
    long rows = 0;
    for (PartitionedFile file : partition.files()) {
      boolean isWhole = file.start() == 0 && file.length() == file.fileSize() && !Delta.hasDeletedRows(file);
      int number = isWhole ? number(file, index) : -1;
      if (number < 0 || index.rows.get(number) < 0) return;
      numbers.set(number);
      rows += index.rows.get(number);
    }
    if (rows == read) files.or(numbers);
  }

  private static int number(PartitionedFile file, BoundIndex index) {
    FileStatus status =
      new FileStatus(file.fileSize(), false, 0, 0, file.modificationTime(), file.filePath().toPath());
    return index.number(status);
  }

  private static long number(SparkPlan node) {
    Option metric = node.metrics().get("numOutputRows");
    return metric.isDefined() ? ((SQLMetric) metric.get()).id() : -1;
  }
}
