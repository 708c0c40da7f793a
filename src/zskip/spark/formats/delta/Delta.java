import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import SEQ;

/** Tables of Delta's own reader; its classes may be missing, so they are known by their names. */
final class Delta {
  private static final String FORMAT = "org.apache.spark.sql.delta.DeltaParquetFileFormat";
  private static final String PREPARED = "org.apache.spark.sql.delta.stats.PreparedDeltaFileIndex";
  private static final String LOG = "org.apache.spark.sql.delta.files.TahoeLogFileIndex";
  private static final String CHANGE = "org.apache.spark.sql.delta.files.TahoeBatchFileIndex";
  private static final String MAPPING = "delta.columnMapping.mode";
  private static final String VECTORS = "deletionVectors";
  /** Of listed files with a deletion vector. */
  private static final String VECTOR = "row_index_filter_id_encoded";
  /** The column by which Delta filters deleted rows. */
  private static final String DELETED = "__delta_internal_is_row_deleted";

  /** Null until it is needed, and where this Delta has other classes. */
  private static DeltaCode code;
  private static boolean isKnown;

  private Delta() {}

  static boolean isFormat(Object format) { return format.getClass().getName().equals(FORMAT); }

  /** Whether Delta has already chosen the files of one version, which it then lists at no cost. */
  static boolean isPrepared(FileIndex location) {
    boolean isPrepared = location instanceof DeltaVersion || location.getClass().getName().equals(PREPARED);
    return isPrepared || isChange(location);
  }

  /** Whether a relation reads the files that an `UPDATE`, `DELETE` or `MERGE` may change. */
  static boolean isChange(FileIndex location) { return location.getClass().getName().equals(CHANGE); }

  /** Whether Delta would choose the files of a relation when the query is optimized. */
  static boolean isLog(FileIndex location) { return location.getClass().getName().equals(LOG); }

  /** Why files must not be dropped from Delta's listing; null if there is no reason. */
  static String obstacle(LogicalRelation node, HadoopFsRelation relation) throws ReflectiveOperationException {
    FileIndex location = relation.location();
    if (!isPrepared(location)) return "Delta has not chosen its files when the query is planned";
    if (isChange(location) && !hasTypes(node, relation.schema())) return "the statement changes types of columns";
    return mayDeleteRows(location) && code() == null ? "this version of Delta Lake is not supported" : null;
  }

  /** Whether a relation gives columns as a schema has them: a MERGE may read them as wider types. */
  private static boolean hasTypes(LogicalRelation node, StructType schema) {
    for (StructField field : schema.fields()) {
      for (Object one : Scala.list(node.output())) {
        Attribute column = (Attribute) one;
        boolean isSame = column.dataType().catalogString().equals(field.dataType().catalogString());
        if (column.name().equalsIgnoreCase(field.name()) && !isSame) return false;
      }
    }
    return true;
  }

  /** An index of ours as Delta takes it: where rows may be deleted, Delta leaves them out of its own file indexes. */
  static FileIndex wrap(FileIndex files) {
    if (!(files instanceof ZskipFiles) || !isPrepared(((ZskipFiles) files).files)) return files;
    FileIndex location = ((ZskipFiles) files).files;
    try {
      return mayDeleteRows(location) ? code().wrap(files, location) : files;
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  private static boolean mayDeleteRows(FileIndex location) throws ReflectiveOperationException {
    return Scala.call(Scala.call(location, "protocol"), "readerFeatures").toString().indexOf(VECTORS) >= 0;
  }

  /** Null where this Delta has other classes than are known. */
  static synchronized DeltaCode code() {
    if (!isKnown) code = (DeltaCode) Faults.python.ask("compile_delta");
    isKnown = true;
    return code;
  }

  /** How columns are found in files, and the columns as the log has them; nulls where files have their names. */
  static String[] mapping(FileIndex location) throws ReflectiveOperationException {
    Object metadata = Scala.call(location, "metadata");
    Option mode = ((scala.collection.Map) Scala.call(metadata, "configuration")).get(MAPPING);
    if (mode.isEmpty()) return new String[2];
    // The schema of the relation does not tell, from which Delta takes what it says of the mapping.
    return new String[] {(String) mode.get(), (String) Scala.call(metadata, "schemaString")};
  }

  static boolean hasDeletedRows(FileStatusWithMetadata file) { return file.metadata().contains(VECTOR); }

  static boolean hasDeletedRows(PartitionedFile file) {
    return file.otherConstantMetadataColumnValues().contains(VECTOR);
  }

  /** Without Delta's own filter on deleted rows. */
  static Seq<Expression> withoutDeleted(Seq<Expression> filters) {
    List<Expression> all = Scala.list(filters);
    List<Expression> others = new ArrayList<>();
    for (Expression one : all) {
      List<Attribute> columns = Scala.list(one.references().toSeq());
      boolean isDeltas = columns.size() == 1 && ((Attribute) columns.get(0)).name().equals(DELETED);
      if (!isDeltas) others.add(one);
    }
    return others.size() == all.size() ? filters : Scala.seq(others);
  }
}
