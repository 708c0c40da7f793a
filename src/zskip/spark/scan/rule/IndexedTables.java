import java.io.File;
import java.lang.ref.WeakReference;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.CatalogFileIndex;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import SEQ;

/** The indexes that lie in the directories of relations: looked up at each scan, opened once. */
final class IndexedTables {
  static final String ENABLED = "spark.zskip.enabled";
  private static final String BY_ID = "spark.sql.parquet.fieldId.read.enabled";
  private static final String PARQUET = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat";
  private static final String HOME = "_zskip";
  /** About how many bytes of both JVM and Python the opened indexes may take, without the columns that were read. */
  private static final long MOST_BYTES = 256L << 20;
  private static final long BYTES_OF_FILE = 500;
  private static final long BYTES_OF_COLUMN = 200;
  private static final long SECONDS = 10;
  /** Options that change neither the values in files nor the columns. */
  private static final Set<String> HARMLESS = new HashSet<>(Arrays.asList(
    ENABLED, "path", "paths", "basepath", "serialization.format", "mergeschema", "compression", "header", "inferschema",
    "pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter", "ignorecorruptfiles",
    "ignoremissingfiles", "comment", "owner"));

  private final Python python;
  /** The opened indexes that were used last, by what they depend on. */
  private final Map<Object, Opened> indexes = new LinkedHashMap<>(16, 0.75f, true);
  /** Indexes of relations that carry their names in the option `ENABLED`, while a plan holds the name. */
  private final Map<Object, BoundIndex> named = Collections.synchronizedMap(new WeakHashMap<>());
  /** The latest stamps of directories on slow file systems, and their times. */
  private final Map<Path, Object[]> stamps = new ConcurrentHashMap<>();

  IndexedTables(Python python) { this.python = python; }

  static boolean isEnabled() { return "true".equalsIgnoreCase(SQLConf.get().getConfString(ENABLED, "false")); }

  /** The index of a relation, bound to its files; null if there is none, or Spark must read the relation alone. */
  ZskipFiles bind(LogicalRelation node) throws ReflectiveOperationException {
    HadoopFsRelation relation = (HadoopFsRelation) node.relation();
    if (obstacle(node, relation) != null) return null;
    BoundIndex bound = index(relation);
    if (bound == null) return null;
    // Spark's partition pruning left it as it was, so the scan will list all partitions.
    FileIndex files = relation.location();
    if (files instanceof CatalogFileIndex) files = ((CatalogFileIndex) files).filterPartitions(Scala.NONE);
    return new ZskipFiles(files, bound, null);
  }

  /** The index of a relation's mark, or in its directory; null where there is none. */
  BoundIndex index(HadoopFsRelation relation) throws ReflectiveOperationException {
    BoundIndex bound = (BoundIndex) named.get(QueryMark.mark(relation));
    return bound == null ? find(relation) : bound;
  }

  /** Why Spark must read a relation without an index; null if there is no reason. */
  static String obstacle(LogicalRelation node, HadoopFsRelation relation) throws ReflectiveOperationException {
    if (node.isStreaming()) return "it is a stream";
    if (Delta.isFormat(relation.fileFormat())) return Delta.obstacle(node, relation);
    boolean isHudi = Hudi.isFormat(relation.fileFormat());
    String obstacle = isHudi ? Hudi.obstacle(relation) : listingObstacle(relation);
    if (obstacle != null) return obstacle;
    for (String name : Scala.list(relation.options().keys().toSeq())) {
      String option = name.toLowerCase(Locale.ROOT);
      boolean isHarmless = HARMLESS.contains(option) || option.startsWith("parquet.");
      if (!isHarmless && !(isHudi && Hudi.isHarmless(option))) return "it is read with the option " + option;
    }
    if (SQLConf.get().getConfString(BY_ID, "false").equals("true")) {
      boolean hasIds = relation.dataSchema().json().indexOf("parquet.field.id") >= 0;
      if (hasIds) return "its columns may be matched by field id";
    }
    return null;
  }

  /** Why files must not be dropped from Spark's own listing; null if there is no reason. */
  private static String listingObstacle(HadoopFsRelation relation) {
    if (!relation.fileFormat().getClass().getName().equals(PARQUET)) {
      return "its format is " + relation.fileFormat() + ", not parquet";
    }
    FileIndex location = relation.location();
    boolean isListing = location instanceof PartitioningAwareFileIndex || location instanceof CatalogFileIndex;
    return isListing ? null : "another program chooses its files";
  }

  /** The index in the directory of a relation, or above it; null where there is none, or none that can be used. */
  BoundIndex find(HadoopFsRelation relation) throws ReflectiveOperationException {
    Path root = root(relation);
    return root == null ? null : bound(root, stamp(new Path(root, home(relation))), relation);
  }

  boolean isIndexed(HadoopFsRelation relation) throws ReflectiveOperationException { return root(relation) != null; }

  /** Whether an index lies in the directory of a table. */
  boolean isIndexed(Path root) { return stamp(new Path(root, HOME)) != null; }

  /** Where all that belongs to zskip lies in the directory of a table. */
  private static String home(HadoopFsRelation relation) { return Hudi.isIndex(relation.location()) ? Hudi.HOME : HOME; }

  /** The directory with an index; null where there is none. */
  private Path root(HadoopFsRelation relation) throws ReflectiveOperationException {
    if (Hudi.isIndex(relation.location())) {
      Path root = Hudi.root(relation.location());
      return stamp(new Path(root, Hudi.HOME)) == null ? null : root;
    }
    List<Path> roots = Scala.list(relation.location().rootPaths());
    for (int i = 0; i < roots.size() && i < 8; i++) {
      for (Path path = (Path) roots.get(i); path != null; path = above(path)) {
        if (stamp(new Path(path, HOME)) != null) return path;
      }
    }
    return null;
  }

  /** The directory above a partition's or a file's; null where a path is that of a whole table. */
  private static Path above(Path path) {
    String name = path.getName();
    return name.indexOf('=') > 0 || name.endsWith(".parquet") ? path.getParent() : null;
  }

  private BoundIndex bound(Path root, Object stamp, HadoopFsRelation relation) throws ReflectiveOperationException {
    Boolean sensitive = SQLConf.get().caseSensitiveAnalysis();
    List<String> partitions = Arrays.asList(relation.partitionSchema().fieldNames());
    boolean isDelta = Delta.isFormat(relation.fileFormat());
    String[] mapping = isDelta ? Delta.mapping(relation.location()) : new String[2];
    List<String> mapped = Arrays.asList(mapping);
    Object session = relation.sparkSession();
    StructType columns = (StructType) FilterTree.whole(relation.dataSchema());
    Object key = key(root, sensitive, Arrays.asList(partitions, columns, mapped), session);
    Opened known = opened(key, stamp, session);
    if (known != null) return known.index;
    BoundIndex index = open(root, relation, columns.json(), sensitive, mapping);
    put(key, new Opened(stamp, index, session, columns.size()));
    return index;
  }

  /** The index of a mark; null where there is none. */
  BoundIndex named(String mark) { return (BoundIndex) named.get(mark); }

  /** The index of an Iceberg table; null where there is none that can be used. output: all columns of the table. */
  BoundIndex find(IcebergScan scan, Seq<? extends Attribute> output) throws ReflectiveOperationException {
    Path root = scan.root();
    Object stamp = stamp(new Path(root, HOME));
    if (stamp == null) return null;
    Boolean sensitive = SQLConf.get().caseSensitiveAnalysis();
    Object session = org.apache.spark.sql.SparkSession.active();
    Object key = key(root, sensitive, scan.columns(), session);
    Opened known = opened(key, stamp, session);
    if (known != null) return known.index;
    StructType columns = new StructType();
    for (Attribute column : Scala.list(output)) {
      columns = columns.add(column.name(), column.dataType());
    }
    Object answer =
      python.ask("open_by_id", root.toString(), columns.json(), scan.columnsJson(), sensitive, session);
    BoundIndex index = bound(root, (List<Object>) answer);
    put(key, new Opened(stamp, index, session, output.size()));
    return index;
  }

  private static Object key(Path root, Boolean sensitive, Object columns, Object session) {
    return Arrays.asList(root, sensitive, columns, System.identityHashCode(session));
  }

  /** An index as it was opened in a session; null where it has another version now. */
  private Opened opened(Object key, Object stamp, Object session) {
    synchronized (indexes) {
      Opened known = (Opened) indexes.get(key);
      return known != null && known.stamp.equals(stamp) && known.session.get() == session ? known : null;
    }
  }

  /** Keeps an index, and drops those of sessions that are gone and those that were not used for the longest time. */
  void put(Object key, Opened opened) {
    if (opened.stamp == null) return;
    synchronized (indexes) {
      indexes.put(key, opened);
      long bytes = 0;
      for (Opened one : indexes.values()) bytes += one.bytes;
      for (Iterator<Opened> all = indexes.values().iterator(); all.hasNext();) {
        Opened one = (Opened) all.next();
        if (one == opened || bytes <= MOST_BYTES && one.session.get() != null) continue;
        bytes -= one.bytes;
        all.remove();
      }
    }
  }

  /** An opened index, null where there is none that can be used. */
  private static final class Opened {
    final Object stamp;
    final BoundIndex index;
    final WeakReference<Object> session;
    final long bytes;

    Opened(Object stamp, BoundIndex index, Object session, int columns) {
      this.stamp = stamp;
      this.index = index;
      this.session = new WeakReference<>(session);
      this.bytes = columns * BYTES_OF_COLUMN + (index == null ? 0 : index.files() * BYTES_OF_FILE);
    }
  }

  private BoundIndex open(Path root, HadoopFsRelation relation, String data, Boolean sensitive, String[] mapping) {
    String partitions = relation.partitionSchema().json();
    Object session = relation.sparkSession();
    Object answer = python.ask(
      "open", root.toString(), home(relation), data, partitions, sensitive, session, mapping[0], mapping[1]);
    return bound(root, (List<Object>) answer);
  }

  private BoundIndex bound(Path root, List<Object> opened) {
    return opened == null ? null : new BoundIndex(root, opened, false);
  }

  /** The plan of a table that is read by its format's own code, with an index bound to the files that this lists. */
  LogicalPlan bind(LogicalPlan plan, Path root, List<Object> opened, boolean isWatched) {
    BoundIndex bound = new BoundIndex(root, opened, isWatched);
    // Delta and Iceberg choose their files later, but keep options.
    String name = "index " + System.identityHashCode(bound) + " " + System.nanoTime();
    LogicalPlan leaf = (LogicalPlan) Scala.list(plan.collectLeaves()).get(0);
    if (leaf instanceof DataSourceV2Relation) {
      named.put(name, bound);
      return Scala.replace(plan, leaf, ScanRelations.marked((DataSourceV2Relation) leaf, name));
    }
    LogicalRelation node = (LogicalRelation) leaf;
    HadoopFsRelation relation = (HadoopFsRelation) node.relation();
    LogicalRelation other;
    if (Delta.isFormat(relation.fileFormat())) {
      named.put(name, bound);
      other = QueryMark.marked(node, relation, name);
    } else {
      other = Relations.over(node, new ZskipFiles(relation.location(), bound, null));
    }
    return Scala.replace(plan, node, other);
  }

  /** A value that changes with each version of the index in a table's home; null if there is no index. */
  private Object stamp(Path path) {
    String scheme = path.toUri().getScheme();
    if (scheme == null || scheme.equals("file")) {
      long time = new File(path.toUri().getPath(), "index").lastModified();
      return time == 0 ? null : Long.valueOf(time);
    }
    Object[] last = (Object[]) stamps.get(path);
    long now = System.nanoTime();
    if (last == null || now - (Long) last[1] > SECONDS * 1000000000L) {
      last = new Object[] {newest(path), now};
      if (stamps.size() > 10000) stamps.clear();
      stamps.put(path, last);
    }
    return last[0];
  }

  /** The name of the newest manifest. */
  private static Object newest(Path path) {
    String newest = null;
    try {
      FileSystem files = path.getFileSystem(org.apache.spark.SparkContext.getOrCreate().hadoopConfiguration());
      for (FileStatus status : files.listStatus(new Path(path, "index"))) {
        String name = status.getPath().getName();
        if (name.startsWith("manifest-") && (newest == null || name.compareTo(newest) > 0)) newest = name;
      }
    } catch (java.io.IOException e) {
      Faults.passOn(e);
      return null;
    }
    return newest;
  }
}
