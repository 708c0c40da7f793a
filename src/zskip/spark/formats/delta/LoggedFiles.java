import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import SEQ;

/** The files of one version of a Delta table, by the entries of its log. */
final class LoggedFiles extends Listing {
  private final LogEntries entries;
  private final Partitions partitions;
  /** Of each entry, in the index. */
  private final int[] numbers;
  /** By the order of the entries. */
  private final BitSet matching;

  LoggedFiles(BoundIndex index, DeltaVersion location, Seq partitionFilters) {
    super(index);
    entries = location.entries();
    partitions = entries.partitions(location);
    numbers = entries.numbers(index);
    matching = partitions.matching(partitionFilters);
  }

  Seq everything() { return directories(matching); }

  void count() {
    BitSet all = new BitSet();
    all.set(0, numbers.length);
    add(all);
    total = new long[] {files, bytes, rows};
    if (matching.cardinality() < files) add(matching);
    for (int i = matching.nextSetBit(0); i >= 0; i = matching.nextSetBit(i + 1)) {
      if (numbers[i] < 0) {
        others++;
        otherBytes += size(i);
        continue;
      }
      twice |= present.get(numbers[i]);
      present.set(numbers[i]);
      if (entries.deleted.get(i)) deleted.set(numbers[i]);
    }
  }

  private long size(int i) { return entries.files[i].fileStatus().getLen(); }

  private void add(BitSet some) {
    reset();
    for (int i = some.nextSetBit(0); i >= 0; i = some.nextSetBit(i + 1)) {
      add(numbers[i], size(i), entries.deleted.get(i));
    }
  }

  Seq keep(BitSet kept) {
    BitSet left = new BitSet();
    for (int i = matching.nextSetBit(0); i >= 0; i = matching.nextSetBit(i + 1)) {
      if (numbers[i] < 0 || kept.get(numbers[i])) left.set(i);
    }
    add(left);
    return directories(left);
  }

  private Seq directories(BitSet some) {
    int[][] byPartition = partitions.divide(some);
    List directories = new ArrayList();
    for (int i = 0; i < byPartition.length; i++) {
      if (byPartition[i] == null) continue;
      List statuses = new ArrayList();
      for (int k = 0; k < byPartition[i].length; k++) statuses.add(entries.files[byPartition[i][k]]);
      directories.add(new PartitionDirectory(partitions.values(i), ScanQuery.seq(statuses)));
    }
    return ScanQuery.seq(directories);
  }
}
