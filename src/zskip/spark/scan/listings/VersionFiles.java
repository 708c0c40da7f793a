import java.util.BitSet;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import SEQ;

/** The files of one version of a table, which are at hand, by their numbers in that version. */
abstract class VersionFiles extends Listing {
  private final int count;
  private final BitSet matching;

  /** matching: the files in partitions that filters leave. */
  VersionFiles(BoundIndex index, int count, BitSet matching) {
    super(index);
    this.count = count;
    this.matching = matching;
  }

  /** The number of a file in the index; -1 if the index does not describe it. */
  abstract int number(int file);

  abstract long size(int file);

  abstract boolean hasDeletedRows(int file);

  /** Some of the files, as Spark takes them. */
  abstract Seq<PartitionDirectory> directories(BitSet some);

  Seq<PartitionDirectory> everything() { return directories(matching); }

  void count() {
    BitSet all = new BitSet();
    all.set(0, count);
    add(all);
    total = new long[] {files, bytes, rows};
    reset();
    for (int i = matching.nextSetBit(0); i >= 0; i = matching.nextSetBit(i + 1)) {
      count(number(i), size(i), hasDeletedRows(i));
    }
  }

  Seq<PartitionDirectory> keep(BitSet kept) {
    BitSet left = new BitSet();
    for (int i = matching.nextSetBit(0); i >= 0; i = matching.nextSetBit(i + 1)) {
      if (number(i) < 0 || kept.get(number(i))) left.set(i);
    }
    add(left);
    return directories(left);
  }

  private void add(BitSet some) {
    reset();
    for (int i = some.nextSetBit(0); i >= 0; i = some.nextSetBit(i + 1)) add(number(i), size(i), hasDeletedRows(i));
  }
}
