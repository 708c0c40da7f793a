import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import SEQ;

/** The listing of Hudi's file index: the base file of each file slice, and a log file of those without one. */
final class HudiFiles extends ListedFiles {
  HudiFiles(BoundIndex index, FileIndex location, Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
    super(index, location, partitionFilters, dataFilters);
  }

  int number(PartitionDirectory directory, FileStatus file) {
    return Hudi.isSlice(directory) ? -1 : index.numberOfName(file);
  }
}
