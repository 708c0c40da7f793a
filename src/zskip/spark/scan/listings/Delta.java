import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;

/** Tables of Delta's own reader; its classes may be missing, so they are known by their names. */
final class Delta {
  private static final String FORMAT = "org.apache.spark.sql.delta.DeltaParquetFileFormat";
  private static final String PREPARED = "org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex";

  private static final String MAPPING = "delta.columnMapping.mode";

  private Delta() {}

  static boolean isFormat(Object format) { return format.getClass().getName().equals(FORMAT); }

  /** Whether Delta has already chosen the files of one version, which it then lists at no cost. */
  static boolean isPrepared(FileIndex location) { return location.getClass().getName().equals(PREPARED); }

  /** Why files must not be dropped from Delta's listing; null if there is no reason. */
  static String obstacle(HadoopFsRelation relation) throws ReflectiveOperationException {
    FileIndex location = relation.location();
    if (!isPrepared(location)) return "Delta has not chosen its files when the query is planned";
    Object metadata = location.getClass().getMethod("metadata", new Class[0]).invoke(location, new Object[0]);
    Object settings = metadata.getClass().getMethod("configuration", new Class[0]).invoke(metadata, new Object[0]);
    // Not told by the schema, from which Delta takes what it says of the mapping.
    if (((scala.collection.Map) settings).contains(MAPPING)) return "its columns are mapped";
    Object protocol = location.getClass().getMethod("protocol", new Class[0]).invoke(location, new Object[0]);
    Object features = protocol.getClass().getMethod("readerFeatures", new Class[0]).invoke(protocol, new Object[0]);
    // Delta looks for an index of its own class when it adds the filter that leaves deleted rows out.
    return features.toString().indexOf("deletionVectors") >= 0 ? "it may have deletion vectors" : null;
  }
}
