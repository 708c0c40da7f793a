import java.lang.reflect.Field;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import scala.Option;

/** Tables of Hudi's own reader; its classes may be missing, so they are known by their names. */
final class Hudi {
  /** Where the index of a Hudi table lies. */
  static final String HOME = ".hoodie/zskip";

  private static final String FORMAT =
    "org.apache.spark.sql.execution.datasources.parquet.HoodieFileGroupReaderBasedFileFormat";
  /** The file index of snapshot and read-optimized queries; queries over a range of time have others. */
  private static final String FILES = "org.apache.hudi.HoodieFileIndex";

  private Hudi() {}

  static boolean isFormat(Object format) { return format.getClass().getName().equals(FORMAT); }

  static boolean isIndex(FileIndex location) { return location.getClass().getName().equals(FILES); }

  /** The directory of the table, even if the query is over some of its partitions. */
  static Path root(FileIndex location) throws ReflectiveOperationException {
    return new Path(Scala.call(location, "getBasePath").toString());
  }

  /** Why files must not be dropped from Hudi's listing; null if there is no reason. */
  static String obstacle(HadoopFsRelation relation) throws ReflectiveOperationException {
    if (!isIndex(relation.location())) return "Hudi reads a part of its history";
    Object format = relation.fileFormat();
    if (!((scala.collection.Seq) Scala.call(format, "getRequiredFilters")).isEmpty()) return "Hudi filters its rows";
    Field field = format.getClass().getDeclaredField("tableSchema");
    field.setAccessible(true);
    Object schema = field.get(format);
    if (((Option) Scala.call(schema, "internalSchema")).isDefined()) return "its columns are matched by ids";
    // Hudi reads microseconds in files of older versions as milliseconds.
    boolean hasMillis = Scala.call(schema, "schema").toString().indexOf("timestamp-millis") >= 0;
    return hasMillis ? "it has timestamps in milliseconds" : null;
  }

  /** Whether an option changes neither the values in files nor the columns; it is in lower case. */
  static boolean isHarmless(String option) {
    boolean isRange = option.startsWith("hoodie.datasource.read.");
    return option.startsWith("hoodie.") && !isRange || option.equals("as.of.instant");
  }

  /** Whether there are other files beside base files: then the reader takes slices from a row of a class of Hudi's. */
  static boolean isSlice(PartitionDirectory directory) {
    return directory.values().getClass().getName().startsWith("org.apache.hudi.");
  }
}
