import java.util.BitSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import SEQ;

/** The files of a pinned snapshot, which are those of the index, in its order. */
final class PinnedFiles extends VersionFiles {
  private final Pinned snapshot;

  PinnedFiles(BoundIndex index, Pinned snapshot, Seq<Expression> partitionFilters) {
    super(index, snapshot.files(), snapshot.partitions.matching(partitionFilters));
    this.snapshot = snapshot;
  }

  int number(int file) { return file; }
  long size(int file) { return snapshot.size(file); }
  boolean hasDeletedRows(int file) { return false; }
  Seq<PartitionDirectory> directories(BitSet some) { return snapshot.directories(some); }
}
