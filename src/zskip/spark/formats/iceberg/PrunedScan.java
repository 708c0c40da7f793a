import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collections;
import java.util.List;
import java.util.Map;
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
  /** From each name under which Spark will hand over keys to the other table of the join; null for none. */
  final Map<String, Object> names;
  /** From those of the names that are no columns to the columns or expressions that they stand for. */
  final Map<String, String> standIns;
  /** As many keys as these are too many to be sure that they are all. */
  final int mostKeys;
  /** Why joins do not prune it, as Python is told. */
  final List<Map<String, Object>> unused;
  private final IcebergScan iceberg;
  private final ListedTasks listing;
  private final long nanos;
  private Object ticket;
  private List<Object> tasks;
  /** The files of the index that are left. */
  private BitSet kept;
  /** Batch and statistics of the tasks; null until they are needed. */
  private Object[] planned;

  PrunedScan(IcebergScan iceberg, ListedTasks listing, ScanQuery query, long nanos)
      throws ReflectiveOperationException {
    this(iceberg, listing, query, null, Collections.emptyMap(), 0, Collections.emptyList(), nanos);
  }

  private PrunedScan(
      IcebergScan iceberg, ListedTasks listing, ScanQuery query, Map<String, Object> names,
      Map<String, String> standIns, int mostKeys, List<Map<String, Object>> unused, long nanos)
      throws ReflectiveOperationException {
    this.query = query;
    this.names = names;
    this.standIns = standIns;
    this.mostKeys = mostKeys;
    this.unused = unused;
    this.ticket = query.ticket;
    this.nanos = nanos;
    this.iceberg = iceberg;
    this.listing = listing;
    this.kept = (BitSet) query.kept.clone();
    this.kept.and(listing.present);
    this.tasks = listing.keep(listing.tasks, kept);
  }

  /** The same scan before any runtime filter, without joins. */
  PrunedScan bare() { return with(null, Collections.emptyMap(), 0, Collections.emptyList()); }

  /** The same scan before any runtime filter, with joins. */
  PrunedScan with(
      Map<String, Object> names, Map<String, String> standIns, int mostKeys, List<Map<String, Object>> unused) {
    try {
      return new PrunedScan(iceberg, listing, query, names, standIns, mostKeys, unused, nanos);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
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
      Predicate[] icebergs = icebergs(predicates);
      if (icebergs.length > 0) tasks = iceberg.filtered(tasks, icebergs);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
    planned = null;
    try {
      keepPartners(predicates);
    } catch (Throwable e) {
      Faults.tell("skip files by joins", e);
    }
  }

  /** The predicates over columns that Iceberg has asked for. */
  private Predicate[] icebergs(Predicate[] predicates) {
    List<List<String>> names = new ArrayList<>();
    for (NamedReference column : filterAttributes()) names.add(Arrays.asList(column.fieldNames()));
    List<Predicate> some = new ArrayList<>();
    for (Predicate predicate : predicates) {
      boolean isIcebergs = true;
      for (NamedReference column : predicate.references()) {
        isIcebergs &= names.contains(Arrays.asList(column.fieldNames()));
      }
      if (isIcebergs) some.add(predicate);
    }
    return (Predicate[]) some.toArray(new Predicate[0]);
  }

  /** Keeps the files that may hold rows with a partner in the joins. */
  private void keepPartners(Predicate[] predicates) throws ReflectiveOperationException {
    List<Map<String, Object>> keys = RuntimeKeys.described(this, predicates);
    if (keys.isEmpty()) return;
    String notes = Json.write(Collections.singletonMap(ScanQuery.JOIN, keys));
    Map<String, Object> answer =
      listing.index.python.choose("list", listing.text(), ticket, query.ofPartitions, query.ofData, notes);
    BitSet left = Json.bits((String) answer.get("kept"));
    left.and(kept);
    tasks = listing.keep(tasks, left);
    kept = left;
    ticket = answer.get("ticket");
  }

  /** Asked once for each scan that runs, after its tasks are chosen. */
  public CustomTaskMetric[] reportDriverMetrics() {
    try {
      synchronized (listing) {
        listing.keep(tasks, kept);
        ScanLog.add(ticket, listing, nanos, unused, false);
      }
    } catch (Exception e) {
      Faults.tell("report scans", e);
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
      || ZskipFiles.REPLACING.get() == null
        && other instanceof PrunedScan
        && iceberg.scan.equals(((PrunedScan) other).iceberg.scan)
        && isAlike((PrunedScan) other, kept, ((PrunedScan) other).kept);
  }

  /** Whether two scans of equal files leave the same ones; to Spark, stand-ins are alike that differ in their names. */
  boolean isAlike(PrunedScan other, BitSet ours, BitSet theirs) {
    return listing.index == other.listing.index && ours.equals(theirs) && standIns.equals(other.standIns);
  }
}
