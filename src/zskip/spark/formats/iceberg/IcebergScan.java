import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportPartitioning;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;

/**
 * A scan of Iceberg's own reader, which knows the files to read as tasks and takes fewer of them.
 *
 * Its classes may be missing and are not public, so they are known by their names. Other queries may hold the same
 * scan, so it always gets its own tasks back.
 */
final class IcebergScan {
  /** The scan of queries over one snapshot; streams, ranges of snapshots and rewrites of whole files have others. */
  private static final String SCAN = "org.apache.iceberg.spark.source.SparkBatchQueryScan";
  /** The table of a relation. */
  private static final String SOURCE = "org.apache.iceberg.spark.source.SparkTable";
  /** Tables of metadata have others. */
  private static final String TABLE = "org.apache.iceberg.BaseTable";
  private static final String MAPPING = "schema.name-mapping.default";
  private static final String SPARK = "org.apache.spark.sql.connector.read.";
  private static final Set<String> ROLES = new HashSet<>(Arrays.asList(
    "Scan", "SupportsReportStatistics", "SupportsReportPartitioning", "SupportsRuntimeV2Filtering"));

  private static final Map<Object, Method> METHODS = new ConcurrentHashMap<>();

  final Scan scan;
  private final Object table;
  private final Method tasks;
  private final Method reset;
  private final Method file;
  private final Method deletes;
  private final Method location;
  private final Method size;

  private IcebergScan(Scan scan, Object table) throws ReflectiveOperationException {
    this.scan = scan;
    this.table = table;
    tasks = declared(scan.getClass(), "tasks");
    reset = declared(scan.getClass(), "resetTasks", List.class);
    file = method("org.apache.iceberg.ContentScanTask", "file");
    deletes = method("org.apache.iceberg.FileScanTask", "deletes");
    location = method("org.apache.iceberg.ContentFile", "path");
    size = method("org.apache.iceberg.ContentFile", "fileSizeInBytes");
    // Iceberg notes what the partitions of a scan are when it is first asked, and then must have all tasks.
    ((SupportsReportPartitioning) scan).outputPartitioning();
    ((SupportsRuntimeV2Filtering) scan).filterAttributes();
  }

  /** Null where a scan is not of Iceberg's, or has to be left alone. */
  static IcebergScan of(Scan scan) throws ReflectiveOperationException {
    if (!isOf(scan) || isIncremental(scan)) return null;
    Object table = call(declared(scan.getClass(), "table"), scan);
    if (!isDataTable(table.getClass())) return null;
    Set<String> roles = roles(scan.getClass(), new HashSet<>());
    if (!roles.equals(ROLES)) throw new NoSuchMethodException("another version of Iceberg, whose scans are " + roles);
    return new IcebergScan(scan, table);
  }

  /** Whether a scan is Iceberg's, over one snapshot. */
  static boolean isOf(Scan scan) { return scan.getClass().getName().equals(SCAN); }

  private static boolean isDataTable(Class<?> type) {
    for (Class<?> one = type; one != null; one = one.getSuperclass()) if (one.getName().equals(TABLE)) return true;
    return false;
  }

  /** Whether it reads what was appended since a snapshot, as scans of this class do in older versions. */
  private static boolean isIncremental(Scan scan) throws ReflectiveOperationException {
    for (Field one : scan.getClass().getDeclaredFields()) {
      if (!one.getName().equals("startSnapshotId")) continue;
      one.setAccessible(true);
      if (one.get(scan) != null) return true;
    }
    return false;
  }

  /** The simple names of what Spark may ask a scan for. */
  private static Set<String> roles(Class<?> type, Set<String> roles) {
    if (type.isInterface() && type.getName().startsWith(SPARK)) roles.add(type.getSimpleName());
    for (Class<?> one : type.getInterfaces()) roles(one, roles);
    return type.getSuperclass() == null ? roles : roles(type.getSuperclass(), roles);
  }

  /** Where the table lies. */
  Path root() throws ReflectiveOperationException { return rootOf(table); }

  /** Where the table of a relation lies; null where it is no table of data of Iceberg's. */
  static Path root(Object source) throws ReflectiveOperationException {
    if (!source.getClass().getName().equals(SOURCE)) return null;
    Object table = call(source, "table");
    return isDataTable(table.getClass()) ? rootOf(table) : null;
  }

  private static Path rootOf(Object table) throws ReflectiveOperationException {
    String root = (String) call(table, "location");
    return new Path(root.endsWith("/") ? root.substring(0, root.length() - 1) : root);
  }

  /** What decides how columns are found in files; equal for equal columns. */
  List<Object> columns() throws ReflectiveOperationException {
    Set<Object> specs = ((Map<Object, Object>) call(table, "specs")).keySet();
    return Arrays.asList(call(schema(), "asStruct"), new HashSet<>(specs), mapping());
  }

  /** The columns as JSON: the columns with their ids, the partition specs, and the names of columns without ids. */
  String columnsJson() throws ReflectiveOperationException {
    List<String> specs = new ArrayList<>();
    for (Object spec : ((Map<Object, Object>) call(table, "specs")).values()) {
      specs.add(json("PartitionSpecParser", "PartitionSpec", spec));
    }
    Map<String, Object> described = new LinkedHashMap<>();
    described.put("schema", json("SchemaParser", "Schema", schema()));
    described.put("specs", specs);
    described.put("mapping", mapping());
    return Json.write(described);
  }

  private Object mapping() throws ReflectiveOperationException {
    return ((Map<?, ?>) call(table, "properties")).get(MAPPING);
  }

  private String json(String parser, String type, Object value) throws ReflectiveOperationException {
    Method toJson = type("org.apache.iceberg." + parser).getMethod("toJson", type("org.apache.iceberg." + type));
    return (String) toJson.invoke(null, value);
  }

  /** The columns of the table in the snapshot that is read; older versions know only those that the query needs. */
  private Object schema() throws ReflectiveOperationException {
    try {
      return call(declared(scan.getClass(), "schema"), scan);
    } catch (NoSuchMethodException e) {
      return call(declared(scan.getClass(), "expectedSchema"), scan);
    }
  }

  /** One for each data file; all of them, whatever another thread does with the scan. */
  List<Object> tasks() throws ReflectiveOperationException {
    synchronized (scan) {
      return (List<Object>) call(tasks, scan);
    }
  }

  String path(Object task) throws ReflectiveOperationException {
    return call(location, call(file, task)).toString();
  }

  long size(Object task) throws ReflectiveOperationException {
    return ((Long) call(size, call(file, task))).longValue();
  }

  /** Whether rows of the file may be deleted. */
  boolean hasDeletes(Object task) throws ReflectiveOperationException {
    return !((Collection<?>) call(deletes, task)).isEmpty();
  }

  /** What reads some of the tasks, a `Batch`, and their `Statistics`. */
  Object[] over(List<Object> some) throws ReflectiveOperationException {
    synchronized (scan) {
      List<Object> all = tasks();
      boolean isAll = some.size() == all.size();
      // Iceberg groups the tasks anew after each reset.
      if (!isAll) reset(some);
      try {
        Batch batch = scan.toBatch();
        Statistics statistics = ((SupportsReportStatistics) scan).estimateStatistics();
        return new Object[] {batch, statistics};
      } finally {
        if (!isAll) reset(all);
      }
    }
  }

  /** Those of some tasks that Iceberg's own runtime filter leaves. */
  List<Object> filtered(List<Object> some, Predicate[] predicates) throws ReflectiveOperationException {
    synchronized (scan) {
      List<Object> all = tasks();
      reset(some);
      try {
        ((SupportsRuntimeV2Filtering) scan).filter(predicates);
        return tasks();
      } finally {
        reset(all);
      }
    }
  }

  private void reset(List<Object> some) throws ReflectiveOperationException { reset.invoke(scan, some); }

  private Method method(String owner, String name) throws ReflectiveOperationException {
    return type(owner).getMethod(name);
  }

  private Class<?> type(String name) throws ReflectiveOperationException {
    return Class.forName(name, true, scan.getClass().getClassLoader());
  }

  /** A method of a class or of those that it extends; classes list theirs anew for each that asks. */
  private static Method declared(Class<?> type, String name, Class<?>... parameters)
      throws ReflectiveOperationException {
    Object key = Arrays.asList(type, name, Arrays.asList(parameters));
    Method method = (Method) METHODS.get(key);
    if (method == null) {
      method = find(type, name, parameters);
      METHODS.put(key, method);
    }
    return method;
  }

  private static Method find(Class<?> type, String name, Class<?>[] parameters) throws ReflectiveOperationException {
    for (Class<?> owner = type; owner != null; owner = owner.getSuperclass()) {
      for (Method one : owner.getDeclaredMethods()) {
        boolean isIt = one.getName().equals(name)
          && Arrays.equals(one.getParameterTypes(), parameters);
        if (!isIt) continue;
        one.setAccessible(true);
        return one;
      }
    }
    throw new NoSuchMethodException(type.getName() + "." + name);
  }

  private static Object call(Object object, String name) throws ReflectiveOperationException {
    return call(declared(object.getClass(), name), object);
  }

  /** Iceberg's errors are the query's. */
  private static Object call(Method method, Object object) throws ReflectiveOperationException {
    try {
      return method.invoke(object);
    } catch (InvocationTargetException e) {
      if (e.getCause() instanceof RuntimeException) throw (RuntimeException) e.getCause();
      throw e;
    }
  }
}
