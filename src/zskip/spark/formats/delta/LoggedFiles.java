import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import SEQ;

/** The files of one version of a Delta table, by the entries of its log. */
final class LoggedFiles extends VersionFiles {
  private final LogEntries entries;
  private final Partitions partitions;
  /** Of each entry, in the index. */
  private final int[] numbers;

  static LoggedFiles of(BoundIndex index, DeltaVersion location, Seq<Expression> partitionFilters) {
    Partitions partitions = location.entries().partitions(location);
    return new LoggedFiles(index, location.entries(), partitions, partitions.matching(partitionFilters));
  }

  private LoggedFiles(BoundIndex index, LogEntries entries, Partitions partitions, BitSet matching) {
    super(index, entries.files.length, matching);
    this.entries = entries;
    this.partitions = partitions;
    this.numbers = entries.numbers(index);
  }

  int number(int file) { return numbers[file]; }
  long size(int file) { return entries.files[file].fileStatus().getLen(); }
  boolean hasDeletedRows(int file) { return entries.deleted.get(file); }

  Seq<PartitionDirectory> directories(BitSet some) {
    int[][] byPartition = partitions.divide(some);
    List<PartitionDirectory> directories = new ArrayList<>();
    for (int i = 0; i < byPartition.length; i++) {
      if (byPartition[i] == null) continue;
      List<FileStatusWithMetadata> statuses = new ArrayList<>();
      for (int file : byPartition[i]) statuses.add(entries.files[file]);
      directories.add(new PartitionDirectory(partitions.values(i), Scala.seq(statuses)));
    }
    return Scala.seq(directories);
  }
}
