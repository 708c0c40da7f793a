import java.lang.ref.SoftReference;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import org.apache.spark.sql.execution.datasources.FileIndex;

/** The entries of the latest versions of Delta tables, each loaded once, while there is memory for them. */
final class LogCache {
  private static final int LIMIT = 16;
  /** Commits that are read one by one rather than by a job of Spark's. */
  private static final long MOST_COMMITS = 100;
  /** By the key of a snapshot: a soft reference to the `Load` of its entries. */
  private static final Map<Object, SoftReference<Object>> TASKS = new LinkedHashMap<>(16, 0.75f, true);
  /** By the key without its version: the latest loaded entries, softly. */
  private static final Map<Object, SoftReference<Object>> LATEST = new LinkedHashMap<>(16, 0.75f, true);

  private LogCache() {}

  /** The entries of a snapshot, null if they cannot be loaded; threads that ask for the same wait for the first. */
  static LogEntries get(DeltaCode delta, FileIndex location, Object snapshot) throws InterruptedException {
    List<Object> key = delta.key(location, snapshot);
    Load load;
    synchronized (TASKS) {
      load = (Load) value(TASKS, key);
      if (load == null) {
        load = new Load(delta, location, snapshot);
        put(TASKS, key, load);
      }
    }
    load.task.run();
    try {
      return (LogEntries) load.task.get();
    } catch (ExecutionException e) {
      synchronized (TASKS) {
        if (value(TASKS, key) == load) TASKS.remove(key);
      }
      if (load.thread == Thread.currentThread()) Faults.passOn(e.getCause());
      return null; // Delta meets the same error, or another query that loaded them was stopped.
    }
  }

  private static Object value(Map<Object, SoftReference<Object>> map, Object key) {
    SoftReference<Object> known = (SoftReference<Object>) map.get(key);
    return known == null ? null : known.get();
  }

  private static void put(Map<Object, SoftReference<Object>> map, Object key, Object value) {
    map.put(key, new SoftReference<>(value));
    if (map.size() > LIMIT) map.remove(map.keySet().iterator().next());
  }

  /** Loads entries, from those of an older version where few commits lie between. */
  static final class Load implements Callable<Object> {
    private final DeltaCode delta;
    private final FileIndex location;
    private final Object snapshot;
    final FutureTask<Object> task = new FutureTask<>(this);
    /** The one that loads them. */
    volatile Thread thread;

    Load(DeltaCode delta, FileIndex location, Object snapshot) {
      this.delta = delta;
      this.location = location;
      this.snapshot = snapshot;
    }

    public Object call() throws Exception {
      thread = Thread.currentThread();
      Object log = delta.log(location);
      LogEntries older;
      synchronized (LATEST) {
        older = (LogEntries) value(LATEST, log);
      }
      long commits = older == null ? 0 : delta.version(snapshot) - older.version;
      boolean isNear = commits > 0 && commits <= MOST_COMMITS;
      LogEntries entries = delta.entries(location, snapshot, isNear ? older : null);
      synchronized (LATEST) {
        if (older == null || commits > 0) put(LATEST, log, entries);
      }
      return entries;
    }
  }
}
