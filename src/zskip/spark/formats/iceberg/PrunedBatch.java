import java.util.BitSet;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;

/** Iceberg's batch, which takes batches of equal filters for equal, whichever tasks they have. */
final class PrunedBatch implements Batch {
  private final Batch batch;
  private final PrunedScan scan;
  private final BitSet kept;

  PrunedBatch(Batch batch, PrunedScan scan, BitSet kept) {
    this.batch = batch;
    this.scan = scan;
    this.kept = kept;
  }

  public InputPartition[] planInputPartitions() { return batch.planInputPartitions(); }
  public PartitionReaderFactory createReaderFactory() { return batch.createReaderFactory(); }
  public int hashCode() { return batch.hashCode(); }

  public boolean equals(Object other) {
    if (this == other) return true;
    if (!(other instanceof PrunedBatch) || !batch.equals(((PrunedBatch) other).batch)) return false;
    return scan.isAlike(((PrunedBatch) other).scan, kept, ((PrunedBatch) other).kept);
  }
}
