import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import SEQ;

/** The listing of Spark's file index, or of another program's. */
class ListedFiles extends Listing {
  private final FileIndex location;
  private final boolean isFiltered;
  private final Seq<PartitionDirectory> listed;
  private final List<PartitionDirectory> directories;

  ListedFiles(BoundIndex index, FileIndex location, Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
    super(index);
    this.location = location;
    this.isFiltered = !partitionFilters.isEmpty();
    this.listed = location.listFiles(partitionFilters, dataFilters);
    this.directories = Scala.list(listed);
  }

  Seq<PartitionDirectory> everything() { return listed; }

  void count() {
    for (PartitionDirectory directory : directories) {
      for (FileStatusWithMetadata file : files(directory)) {
        count(number(directory, file.fileStatus()), file.fileStatus().getLen(), Delta.hasDeletedRows(file));
      }
    }
    total = new long[] {files, bytes, rows};
    if (isFiltered && location instanceof PartitioningAwareFileIndex) {
      total = new long[] {((PartitioningAwareFileIndex) location).allFiles().size(), location.sizeInBytes(), -1};
    }
  }

  /** The number of a listed file; -1 if the index does not describe its rows. */
  int number(PartitionDirectory directory, FileStatus file) { return index.number(file); }

  private static List<FileStatusWithMetadata> files(PartitionDirectory directory) {
    return Scala.list(directory.files());
  }

  Seq<PartitionDirectory> keep(BitSet kept) {
    List<PartitionDirectory> left = new ArrayList<>();
    reset();
    for (PartitionDirectory directory : directories) {
      List<FileStatusWithMetadata> chosen = new ArrayList<>();
      int count = 0;
      for (FileStatusWithMetadata file : files(directory)) {
        count++;
        int number = number(directory, file.fileStatus());
        if (number >= 0 && !kept.get(number)) continue;
        chosen.add(file);
        add(number, file.fileStatus().getLen(), Delta.hasDeletedRows(file));
      }
      if (chosen.size() == count) {
        left.add(directory);
      } else if (!chosen.isEmpty()) {
        left.add(new PartitionDirectory(directory.values(), Scala.seq(chosen)));
      }
    }
    return Scala.seq(left);
  }
}
