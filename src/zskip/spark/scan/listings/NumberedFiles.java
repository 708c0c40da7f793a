import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;

/** The files of one version of a table, which are at hand, by their numbers in that version. */
public interface NumberedFiles {
  int count();

  long size(int file);

  boolean hasDeletedRows(int file);

  /** The number of each file in an index, -1 where the index does not describe it. */
  int[] numbers(BoundIndex index);

  /** Some files of a partition, as Spark takes them. */
  PartitionDirectory directory(InternalRow values, int[] files);
}
