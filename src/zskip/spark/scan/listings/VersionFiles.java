import java.util.BitSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import SEQ;

/** The listing of one version of a table. */
final class VersionFiles extends Listing {
  private final NumberedFiles numbered;
  private final Partitions partitions;
  /** Of each file, in the index. */
  private final int[] numbers;
  /** The files in partitions that filters leave. */
  private final BitSet matching;

  VersionFiles(BoundIndex index, VersionIndex version, Seq<Expression> partitionFilters) {
    super(index);
    this.numbered = version.numberedFiles();
    this.partitions = version.partitions();
    this.numbers = numbered.numbers(index);
    this.matching = partitions.matching(partitionFilters);
  }

  Seq<PartitionDirectory> everything() { return partitions.directories(numbered, matching); }

  void count() {
    BitSet all = new BitSet();
    all.set(0, numbered.count());
    add(all);
    total = new long[] {files, bytes, rows};
    reset();
    for (int i = matching.nextSetBit(0); i >= 0; i = matching.nextSetBit(i + 1)) {
      count(numbers[i], numbered.size(i), numbered.hasDeletedRows(i));
    }
  }

  Seq<PartitionDirectory> keep(BitSet kept) {
    BitSet left = new BitSet();
    for (int i = matching.nextSetBit(0); i >= 0; i = matching.nextSetBit(i + 1)) {
      if (numbers[i] < 0 || kept.get(numbers[i])) left.set(i);
    }
    add(left);
    return partitions.directories(numbered, left);
  }

  private void add(BitSet some) {
    reset();
    for (int i = some.nextSetBit(0); i >= 0; i = some.nextSetBit(i + 1)) {
      add(numbers[i], numbered.size(i), numbered.hasDeletedRows(i));
    }
  }
}
