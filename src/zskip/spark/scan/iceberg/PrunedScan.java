import java.util.BitSet;
import java.util.List;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportPartitioning;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.connector.read.partitioning.Partitioning;
import org.apache.spark.sql.types.StructType;

/** Iceberg's scan without the tasks of files in which, by our index, no row can match. */
public final class PrunedScan
    implements Scan, SupportsReportStatistics, SupportsReportPartitioning, SupportsRuntimeV2Filtering {
  final ScanQuery query;
  private final IcebergScan iceberg;
  private final ListedTasks listing;
  private final long nanos;
  private List tasks;
  /** Of the index, those that are left. */
  private BitSet kept;
  /** Batch and statistics of the tasks; null until they are needed. */
  private Object[] planned;

  PrunedScan(IcebergScan iceberg, ListedTasks listing, ScanQuery query, long started)
      throws ReflectiveOperationException {
    this.query = query;
    this.iceberg = iceberg;
    this.listing = listing;
    this.kept = (BitSet) query.kept.clone();
    this.kept.and(listing.present);
    this.tasks = listing.keep(iceberg.tasks(), kept);
    this.nanos = System.nanoTime() - started;
  }

  IcebergScan iceberg() { return iceberg; }

  ListedTasks listing() { return listing; }

  private synchronized Object[] planned() {
    try {
      if (planned == null) planned = iceberg.over(tasks);
      return planned;
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  public Batch toBatch() { return new PrunedBatch((Batch) planned()[0], this, kept); }
  public Statistics estimateStatistics() { return (Statistics) planned()[1]; }

  public Partitioning outputPartitioning() {
    return ((SupportsReportPartitioning) iceberg.scan).outputPartitioning();
  }

  public NamedReference[] filterAttributes() {
    return ((SupportsRuntimeV2Filtering) iceberg.scan).filterAttributes();
  }

  public synchronized void filter(Predicate[] predicates) {
    try {
      tasks = iceberg.filtered(tasks, predicates);
      planned = null;
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Asked once for each scan that runs, after its tasks are chosen. */
  public CustomTaskMetric[] reportDriverMetrics() {
    try {
      listing.keep(tasks, kept);
      ScanLog.add(query.ticket, listing, nanos, null);
    } catch (Exception e) {
      Faults.tell("the report of a scan", e);
    }
    return iceberg.scan.reportDriverMetrics();
  }

  public StructType readSchema() { return iceberg.scan.readSchema(); }
  public CustomMetric[] supportedCustomMetrics() { return iceberg.scan.supportedCustomMetrics(); }
  public Scan.ColumnarSupportMode columnarSupportMode() { return iceberg.scan.columnarSupportMode(); }
  public String description() { return iceberg.scan.description() + " [zskip " + query.text + "]"; }
  public String toString() { return iceberg.scan.toString(); }
  public int hashCode() { return iceberg.scan.hashCode(); }

  /** Equal if the rows are, so that Spark may share equal scans. */
  public boolean equals(Object other) {
    return this == other
      || other instanceof PrunedScan
        && iceberg.scan.equals(((PrunedScan) other).iceberg.scan)
        && isAlike((PrunedScan) other, kept, ((PrunedScan) other).kept);
  }

  /** Whether two scans of equal files leave the same ones. */
  boolean isAlike(PrunedScan other, BitSet ours, BitSet theirs) {
    return listing.index == other.listing.index && ours.equals(theirs);
  }
}
