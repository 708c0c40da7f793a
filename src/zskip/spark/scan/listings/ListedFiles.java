import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import scala.collection.JavaConverters;
import SEQ;

/** The listing of Spark's file index, or of another program's. */
class ListedFiles extends Listing {
  private final FileIndex location;
  private final boolean isFiltered;
  private final Seq listed;
  /** Of `PartitionDirectory`. */
  private final List directories;

  ListedFiles(BoundIndex index, FileIndex location, Seq partitionFilters, Seq dataFilters) {
    super(index);
    this.location = location;
    this.isFiltered = !partitionFilters.isEmpty();
    this.listed = location.listFiles(partitionFilters, dataFilters);
    this.directories = JavaConverters.seqAsJavaList(listed);
  }

  Seq everything() { return listed; }

  void count() {
    for (int i = 0; i < directories.size(); i++) {
      List statuses = files(directories.get(i));
      for (int k = 0; k < statuses.size(); k++) {
        FileStatusWithMetadata file = (FileStatusWithMetadata) statuses.get(k);
        int number = number((PartitionDirectory) directories.get(i), file.fileStatus());
        long size = file.fileStatus().getLen();
        add(number, file);
        if (number >= 0) {
          twice |= present.get(number);
          present.set(number);
          if (Delta.hasDeletedRows(file)) deleted.set(number);
        } else {
          others++;
          otherBytes += size;
        }
      }
    }
    total = new long[] {files, bytes, rows};
    if (isFiltered && location instanceof PartitioningAwareFileIndex) {
      total = new long[] {((PartitioningAwareFileIndex) location).allFiles().size(), location.sizeInBytes(), -1};
    }
  }

  private void add(int number, FileStatusWithMetadata file) {
    add(number, file.fileStatus().getLen(), Delta.hasDeletedRows(file));
  }

  /** The number of a listed file; -1 if the index does not describe its rows. */
  int number(PartitionDirectory directory, FileStatus file) { return index.number(file); }

  private static List files(Object directory) {
    return FilterTree.items(((PartitionDirectory) directory).files());
  }

  Seq keep(BitSet kept) {
    List left = new ArrayList();
    reset();
    for (int i = 0; i < directories.size(); i++) {
      List statuses = files(directories.get(i));
      List chosen = new ArrayList();
      for (int k = 0; k < statuses.size(); k++) {
        FileStatusWithMetadata file = (FileStatusWithMetadata) statuses.get(k);
        int number = number((PartitionDirectory) directories.get(i), file.fileStatus());
        if (number >= 0 && !kept.get(number)) continue;
        chosen.add(file);
        add(number, file);
      }
      if (chosen.size() == statuses.size()) {
        left.add(directories.get(i));
      } else if (!chosen.isEmpty()) {
        left.add(new PartitionDirectory(((PartitionDirectory) directories.get(i)).values(), ScanQuery.seq(chosen)));
      }
    }
    return ScanQuery.seq(left);
  }
}
