import java.util.BitSet;
import SEQ;

/** The files of a pinned snapshot, which are those of the index, in its order. */
final class PinnedFiles extends Listing {
  private final Pinned snapshot;
  private final BitSet matching;

  PinnedFiles(BoundIndex index, Pinned snapshot, Seq partitionFilters) {
    super(index);
    this.snapshot = snapshot;
    this.matching = snapshot.partitions.matching(partitionFilters);
  }

  Seq everything() { return snapshot.directories(matching); }

  void count() {
    present.or(matching);
    BitSet all = new BitSet();
    all.set(0, snapshot.files());
    add(all);
    total = new long[] {files, bytes, rows};
    if (matching.cardinality() < files) add(matching);
  }

  private void add(BitSet numbers) {
    reset();
    for (int i = numbers.nextSetBit(0); i >= 0; i = numbers.nextSetBit(i + 1)) add(i, snapshot.size(i), false);
  }

  Seq keep(BitSet kept) {
    BitSet left = (BitSet) kept.clone();
    left.and(matching);
    add(left);
    return snapshot.directories(left);
  }
}
