import java.io.File;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.function.BiConsumer;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.datasources.CatalogFileIndex;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.internal.SQLConf;
import scala.collection.JavaConverters;

/** The indexes that lie in the directories of relations: looked up at each scan, opened once. */
final class Tables {
  static final String ENABLED = "spark.zskip.enabled";
  private static final String BY_ID = "spark.sql.parquet.fieldId.read.enabled";
  private static final String PARQUET = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat";
  private static final String INDEX = "_zskip/index";
  private static final int HELD = 256;
  private static final long SECONDS = 10;
  /** Options by which no value in a file is read as another one, and no column is found elsewhere. */
  private static final Set HARMLESS = new HashSet(Arrays.asList(new Object[] {
    "path", "paths", "basepath", "serialization.format", "mergeschema", "compression", "header", "inferschema",
    "pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter", "ignorecorruptfiles",
    "ignoremissingfiles", "comment", "owner"}));

  private final Python python;
  private final Executor threads;
  private final Map sources = Collections.synchronizedMap(new LinkedHashMap(16, 0.75f, true));
  /** What was last seen in directories of slow file systems, and when. */
  private final Map seen = new ConcurrentHashMap();

  Tables(BiConsumer answer, Executor threads) {
    this.python = new Python(answer, threads);
    this.threads = threads;
  }

  static boolean isEnabled() { return "true".equalsIgnoreCase(SQLConf.get().getConfString(ENABLED, "false")); }

  /** The same relation over an index of ours; null where there is none, or it has to be left alone. */
  zskip over(LogicalRelation node) throws ReflectiveOperationException {
    HadoopFsRelation relation = (HadoopFsRelation) node.relation();
    if (obstacle(node, relation) != null) return null;
    Source source = find(relation);
    return source == null ? null : new zskip(relation.location(), source.python, source, null);
  }

  /** Why a relation must be left to Spark, whatever lies in its directory; null where nothing speaks against it. */
  static String obstacle(LogicalRelation node, HadoopFsRelation relation) throws ReflectiveOperationException {
    if (node.isStreaming()) return "it is a stream";
    if (Delta.isFormat(relation.fileFormat())) return Delta.obstacle(relation);
    FileIndex location = relation.location();
    if (!relation.fileFormat().getClass().getName().equals(PARQUET)) {
      return "its format is " + relation.fileFormat() + ", not parquet";
    }
    if (!(location instanceof PartitioningAwareFileIndex || location instanceof CatalogFileIndex)) {
      return "another program chooses its files";
    }
    List options = JavaConverters.seqAsJavaList(relation.options().keys().toSeq());
    for (int i = 0; i < options.size(); i++) {
      String option = ((String) options.get(i)).toLowerCase(Locale.ROOT);
      if (!HARMLESS.contains(option) && !option.startsWith("parquet.")) return "it is read with the option " + option;
    }
    if (SQLConf.get().getConfString(BY_ID, "false").equals("true")) {
      if (relation.dataSchema().json().indexOf("parquet.field.id") >= 0) return "its columns may be matched by field id";
    }
    return null;
  }

  private Source find(HadoopFsRelation relation) {
    List roots = JavaConverters.seqAsJavaList(relation.location().rootPaths());
    for (int i = 0; i < roots.size() && i < 8; i++) {
      for (Path path = (Path) roots.get(i); path != null; path = above(path)) {
        Object stamp = stamp(path);
        if (stamp != null) return source(path, stamp, relation);
      }
    }
    return null;
  }

  /** The directory above a partition's or a file's; null where a path is that of a whole table. */
  private static Path above(Path path) {
    String name = path.getName();
    return name.indexOf('=') > 0 || name.endsWith(".parquet") ? path.getParent() : null;
  }

  private Source source(Path root, Object stamp, HadoopFsRelation relation) {
    Boolean sensitive = Boolean.valueOf(SQLConf.get().caseSensitiveAnalysis());
    List partitions = Arrays.asList(relation.partitionSchema().fieldNames());
    Object key = Arrays.asList(new Object[] {root, sensitive, partitions, relation.dataSchema(), relation.sparkSession()});
    Object[] held = (Object[]) sources.get(key);
    if (held != null && held[0].equals(stamp)) return (Source) held[1];
    Source made = open(root, stamp, relation, sensitive);
    sources.put(key, new Object[] {stamp, made});
    if (sources.size() > HELD) {
      synchronized (sources) {
        sources.remove(sources.keySet().iterator().next());
      }
    }
    return made;
  }

  private Source open(Path root, Object stamp, HadoopFsRelation relation, Boolean sensitive) {
    String partitions = relation.partitionSchema().json();
    Object[] arguments = {root.toString(), relation.dataSchema().json(), partitions, sensitive, relation.sparkSession()};
    List found = (List) python.ask("open", arguments);
    if (found == null) return null;
    Python of = new Python((BiConsumer) found.get(0), threads);
    return new Source(root, stamp, of, found);
  }

  /** What changes with each version of the index in a directory; null where there is none. */
  private Object stamp(Path path) {
    String scheme = path.toUri().getScheme();
    if (scheme == null || scheme.equals("file")) {
      long time = new File(path.toUri().getPath(), INDEX).lastModified();
      return time == 0 ? null : Long.valueOf(time);
    }
    Object[] last = (Object[]) seen.get(path);
    long now = System.nanoTime();
    if (last == null || now - ((Long) last[1]).longValue() > SECONDS * 1000000000L) {
      last = new Object[] {newest(path), Long.valueOf(now)};
      if (seen.size() > 10000) seen.clear();
      seen.put(path, last);
    }
    return last[0];
  }

  /** The name of the newest manifest. */
  private static Object newest(Path path) {
    String newest = null;
    try {
      FileSystem files = path.getFileSystem(org.apache.spark.SparkContext.getOrCreate().hadoopConfiguration());
      FileStatus[] held = files.listStatus(new Path(path, INDEX));
      for (int i = 0; i < held.length; i++) {
        String name = held[i].getPath().getName();
        if (name.startsWith("manifest-") && (newest == null || name.compareTo(newest) > 0)) newest = name;
      }
    } catch (java.io.IOException e) {
      return null;
    }
    return newest;
  }
}
