import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.FileIndex;

/** A file index of Delta's over the live files of one version, which are at hand. */
public interface DeltaVersion extends FileIndex {
  LogEntries entries();

  /** What partitions are computed by, beside the values that the log has; equal if they are. */
  Object zone();

  /** The values of a partition as they are read; partition: as the log has them. */
  InternalRow row(Object partition);
}
