import java.util.Arrays;
import java.util.Map;
import java.util.Timer;
import java.util.TimerTask;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.FutureTask;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.Distinct;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.CommandExecutionMode$;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.Platform;
import scala.Option;

/**
 * Queries the keys of a join, in the thread that lists the files of a scan.
 *
 * Equal key queries of a query run once, and all scans wait for the result. A key query waits only for key queries of
 * its own parts, so there is no deadlock.
 */
final class KeyQuery implements Callable<Object> {
  /** From the id of a running query to its key queries. */
  private static final Map<String, Map<Object, FutureTask<Object>>> ASKED = new ConcurrentHashMap<>();
  private static final Timer TIMER = new Timer("zskip-key-queries", true);
  private static final String ID = "spark.sql.execution.id";
  private static final String ROOT = "spark.sql.execution.root.id";
  /** So small a side is read in one stage, its repeated keys included. */
  private static final long SMALL_SIDE = 32L << 20;

  private final JoinCandidate join;
  private final QueryExecution query;
  private final int most;
  private final int seconds;

  private KeyQuery(JoinCandidate join, QueryExecution query, int most, int seconds) {
    this.join = join;
    this.query = query;
    this.most = most;
    this.seconds = seconds;
  }

  /** The keys of a join, or a reason. */
  static JoinKeys ask(JoinCandidate join, int most, int seconds) {
    Option context = org.apache.spark.SparkContext$.MODULE$.getActive();
    String id = context.isEmpty() ? null : ((SparkContext) context.get()).getLocalProperty(ID);
    QueryExecution query = id == null ? null : SQLExecution.getQueryExecution(Long.parseLong(id));
    if (query == null) return new JoinKeys(join.column, join.name, "the keys are known when the query runs");
    // These threads are few, and joins need more of them.
    String thread = Thread.currentThread().getName();
    boolean few = thread.startsWith("broadcast-") || thread.startsWith("subquery") || thread.startsWith("dynamic");
    if (few && join.hasJoin) return new JoinKeys(join.column, join.name, "the scan is part of a broadcast");
    if (thread.startsWith("dag-")) return new JoinKeys(join.column, join.name, "the scheduler waits for the scan");
    long started = System.nanoTime();
    JoinKeys keys = new JoinKeys(join.column, join.name, "");
    try {
      String root = ((SparkContext) context.get()).getLocalProperty(ROOT);
      Object answer = task(root, new KeyQuery(join, query, most, seconds)).get();
      if (answer instanceof String) keys.reason = (String) answer;
      else keys.values = (KeyValues) answer;
    } catch (InterruptedException e) {
      Platform.throwException(e);
    } catch (java.util.concurrent.ExecutionException e) {
      Faults.tell("query the keys of a join", e.getCause());
      keys.reason = "the key query failed";
    }
    keys.seconds = (System.nanoTime() - started) / 1e9;
    return keys;
  }

  /** The one task for equal key queries of a query; the first caller runs it. */
  private static FutureTask<Object> task(String root, KeyQuery question) {
    for (String other : ASKED.keySet()) {
      if (!other.equals(root) && SQLExecution.getQueryExecution(Long.parseLong(other)) == null) ASKED.remove(other);
    }
    FutureTask<Object> task = new FutureTask<>(question);
    if (root == null) {
      task.run();
      return task;
    }
    Map<Object, FutureTask<Object>> tasks = new ConcurrentHashMap<>();
    Object before = ASKED.putIfAbsent(root, tasks);
    if (before != null) tasks = (Map<Object, FutureTask<Object>>) before;
    // To Spark, all that a stream does with a batch is one query, in which files may change.
    Object files = KeySide.files(question.join.plan);
    // One scan may accept fewer keys than another.
    Object key = Arrays.asList(question.join.canonical(), files, question.most);
    Object first = tasks.putIfAbsent(key, task);
    if (first != null) return (FutureTask<Object>) first;
    task.run();
    return task;
  }

  /** The values, or the reason why there are none. */
  public Object call() throws Exception {
    LogicalPlan plan = join.plan;
    if (join.hasJoin || join.bytes > SMALL_SIDE) plan = new Distinct(plan);
    plan = new LocalLimit(Literal.create(most + 1, DataTypes.IntegerType), plan);
    plan.setAnalyzed();
    SparkContext context = query.sparkSession().sparkContext();
    QueryExecution execution =
      query.sparkSession().sessionState().executePlan(plan, CommandExecutionMode$.MODULE$.SKIP());
    String tag = "zskip-keys-" + System.identityHashCode(this) + "-" + System.nanoTime();
    Cancel cancel = new Cancel(context, tag);
    String outer = context.getLocalProperty(ScanLog.FOR_KEYS);
    try {
      context.setLocalProperty(ScanLog.FOR_KEYS, "true");
      context.addJobTag(tag);
      TIMER.schedule(cancel, 1000L * seconds);
      return values((InternalRow[]) SQLExecution.withNewExecutionId(execution, Option.empty(), new Collect(execution)));
    } catch (Exception e) {
      if (cancel.happened) return "the keys took more than " + seconds + " s";
      throw e;
    } finally {
      cancel.cancel();
      context.setLocalProperty(ScanLog.FOR_KEYS, outer);
      context.removeJobTag(tag);
    }
  }

  /** Nulls and repeated keys count, since the limit of the query does not know them. */
  private Object values(InternalRow[] rows) {
    if (rows.length > most) return "more than " + most + " keys";
    KeyValues values = new KeyValues(join.type, most);
    for (InternalRow one : rows) {
      if (!values.add(one.get(0, join.type))) return "more than " + most + " keys";
    }
    return values;
  }

  static final class Collect extends scala.runtime.AbstractFunction0 {
    private final QueryExecution execution;

    Collect(QueryExecution execution) { this.execution = execution; }

    public Object apply() { return execution.executedPlan().executeCollect(); }
  }

  static final class Cancel extends TimerTask {
    private final SparkContext context;
    private final String tag;
    volatile boolean happened;

    Cancel(SparkContext context, String tag) {
      this.context = context;
      this.tag = tag;
    }

    public void run() {
      happened = true;
      try {
        context.cancelJobsWithTag(tag);
      } catch (Exception e) {
        // A context that is stopped runs no jobs; an exception would end the timer for all queries to come.
      }
    }
  }
}
