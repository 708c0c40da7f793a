import java.nio.LongBuffer;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import SEQ;

/**
 * An index of ours bound to the files that a relation lists: a file index that knows its query.
 *
 * Plans tell what the query leaves of the table, by which Spark chooses joins. The files to read are chosen when they
 * are listed, by the filters that Spark hands over then and by the notes of the query.
 */
public final class ZskipFiles implements FileIndex {
  /** Set while the rule runs, since a transformation drops a new node that equals the old one. */
  static final ThreadLocal<Object> REPLACING = new ThreadLocal<>();

  /** Lists the files. */
  final FileIndex files;
  final BoundIndex bound;
  /** Null where no query is known. */
  final ScanQuery query;

  /** Over a pinned snapshot. */
  public ZskipFiles(FileIndex files, Python python, LongBuffer rows, Boolean isWatched) {
    this(files, new BoundIndex(python, rows, isWatched.booleanValue()), null);
  }

  ZskipFiles(FileIndex files, BoundIndex bound, ScanQuery query) {
    this.files = files;
    this.bound = bound;
    this.query = query;
  }

  /** An index of ours, or one that another program's class wraps; null for other file indexes. */
  static ZskipFiles of(FileIndex location) {
    FileIndex files = location instanceof Wrapper ? ((Wrapper) location).wrapped() : location;
    return files instanceof ZskipFiles ? (ZskipFiles) files : null;
  }

  /** The same files in another query. */
  ZskipFiles in(ScanQuery other) { return new ZskipFiles(files, bound, other); }

  /** Asks Python about the files that the query may read; null where it does not know. */
  Object ask(String question, Object... arguments) { return bound.python.ask(question, after(listing(), arguments)); }

  /** Asks Python which files the query reads; null where it does not know. */
  Map<String, Object> choose(String question, Object... arguments) {
    return bound.python.choose(question, after(listing(), arguments));
  }

  private String listing() { return query == null ? null : query.listing; }

  /** The arguments of a question about a listing; null before there is one. */
  static Object[] after(String listing, Object[] arguments) {
    Object[] all = new Object[arguments.length + 1];
    all[0] = listing;
    System.arraycopy(arguments, 0, all, 1, arguments.length);
    return all;
  }

  public Seq<Path> rootPaths() { return query == null ? files.rootPaths() : query.paths; }
  public long sizeInBytes() { return query == null ? files.sizeInBytes() : query.bytes; }
  public StructType partitionSchema() { return files.partitionSchema(); }
  public String[] inputFiles() { return files.inputFiles(); }
  public void refresh() { files.refresh(); }
  public Option metadataOpsTimeNs() { return files.metadataOpsTimeNs(); }
  public boolean isTimeTravel() { return false; }
  public String toString() { return files.toString(); }
  public int hashCode() { return files.hashCode(); }

  /**
   * Equal if the rows are, so that Spark may share equal scans: pruning by filters removes no rows of the scan, pruning
   * by notes does.
   */
  public boolean equals(Object other) {
    if (this == other) return true;
    if (REPLACING.get() != null || !(other instanceof ZskipFiles)) return false;
    return notes().equals(((ZskipFiles) other).notes()) && files.equals(((ZskipFiles) other).files);
  }

  /** Whether the rows of the relation are those of its files, and those are at hand. */
  boolean isWhole() {
    boolean isOfFormat = Delta.isPrepared(files) || Hudi.isIndex(files);
    return isOfFormat || files instanceof Pinned || files instanceof PartitioningAwareFileIndex;
  }

  /** Whether each listing gives the files of the plan. */
  boolean isFixed() { return files instanceof Pinned || isFixed(files); }

  /** Whether each listing of another program gives the files of the plan; some ask a catalog each time. */
  static boolean isFixed(FileIndex files) {
    return files.getClass() == InMemoryFileIndex.class || Delta.isPrepared(files);
  }

  Map<String, Object> notes() { return query == null ? ScanQuery.NO_NOTES : query.notes; }

  Listing list(Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
    return Listing.of(files, bound, partitionFilters, dataFilters);
  }

  /** The listing without the files that the query does not need. */
  public Seq<PartitionDirectory> listFiles(Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
    Listing listing = list(partitionFilters, dataFilters);
    try {
      return keep(listing, partitionFilters, Delta.withoutDeleted(dataFilters));
    } catch (Throwable e) {
      Faults.passOn(e);
      if (notes().containsKey(ScanQuery.COUNT)) {
        throw new IllegalStateException(
          "zskip counted files by its index and cannot leave them out now; run the query again", e);
      }
      Faults.tell("choose the files of a scan", e);
      return listing.everything();
    }
  }

  private Seq<PartitionDirectory> keep(Listing listing, Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
    long started = System.nanoTime();
    listing.count();
    Learning.begin();
    boolean isPlanned = query != null && query.isOver(partitionFilters, dataFilters);
    Object ticket = isPlanned ? query.ticket : null;
    Map<String, Object> notes = query == null ? ScanQuery.NO_NOTES : Joins.notes(this);
    List<?> reasons = Joins.reasons(notes);
    BitSet kept = isPlanned && (notes.isEmpty() || reasons != null) ? query.kept : null;
    if (kept == null) {
      reasons = null;
      Map<String, Object> answer =
        bound.python.choose("list", listing.text(), ticket, partitionFilters, dataFilters, Json.write(notes));
      ticket = answer.get("ticket");
      kept = Json.bits((String) answer.get("kept"));
      // Without a row of the target, Spark may end the join before a MERGE has counted its source.
      int first = listing.present.nextSetBit(0);
      boolean isMerge = Delta.isChange(files) && !notes.isEmpty();
      if (isMerge && first >= 0 && !kept.intersects(listing.present)) kept.set(first);
    }
    Seq left = listing.keep(kept);
    boolean isFiltered = !notes.isEmpty() || partitionFilters.nonEmpty() || dataFilters.nonEmpty();
    boolean copies = Delta.isChange(files) && !isFiltered;
    ScanLog.add(ticket, listing, System.nanoTime() - started, reasons, copies);
    return left;
  }

  /** The listing of the files that filters leave, as JSON; null if they would have to be listed first. */
  String listed(Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
    if (!isWhole()) return null;
    Listing listing = list(partitionFilters, Delta.isPrepared(files) ? dataFilters : Scala.NONE);
    listing.count();
    return listing.text();
  }
}
