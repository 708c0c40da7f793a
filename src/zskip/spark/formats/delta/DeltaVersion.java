import org.apache.spark.sql.catalyst.InternalRow;

/** A file index of Delta's over the live files of one version, which are at hand. */
public interface DeltaVersion extends VersionIndex {
  /** What partitions are computed by, beside the values that the log has; equal if they are. */
  Object zone();

  /** The values of a partition as they are read; partition: as the log has them. */
  InternalRow row(Object partition);
}
