// Compiled in the driver by Janino, which Spark brings along, as one unit with the other files of this folder;
// Java without generics or lambdas, as Janino reads it.

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executor;
import java.util.function.BiConsumer;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import SEQ;

/**
 * A file index that knows the query it stands in, so that plans tell what is left of the table.
 *
 * What it knows of filters is for people and for the choice of joins: which files are read is decided when they are
 * listed, by the filters that Spark hands over then, and by the notes of the query.
 */
public final class zskip implements FileIndex {
  /** Set while the rule runs, since a transformation drops a new node that equals the old one. */
  static final ThreadLocal REPLACING = new ThreadLocal();

  final FileIndex files;
  final Python python;
  /** What is known of the files that another index lists; null where `files` is our own. */
  final Source source;
  /** Null where no query is known. */
  final Query query;

  public zskip(FileIndex files, BiConsumer answer, Executor threads) {
    this(files, new Python(answer, threads), null, null);
  }

  zskip(FileIndex files, Python python, Source source, Query query) {
    this.files = files;
    this.python = python;
    this.source = source;
    this.query = query;
  }

  /** The same files in another query. */
  zskip in(Query other) { return new zskip(files, python, source, other); }

  /** Asks Python; null where it does not know. Over another's files, it is told of those that the query may read. */
  Object ask(String question, Object[] arguments) {
    return asked(question, query == null ? null : query.listing, arguments);
  }

  private Object asked(String question, String listing, Object[] arguments) {
    Object[] all = new Object[arguments.length + 1];
    all[0] = listing;
    System.arraycopy(arguments, 0, all, 1, arguments.length);
    return python.ask(question, all);
  }

  public Seq rootPaths() { return query == null ? files.rootPaths() : query.paths; }
  public long sizeInBytes() { return query == null ? files.sizeInBytes() : query.bytes; }
  public StructType partitionSchema() { return files.partitionSchema(); }
  public String[] inputFiles() { return files.inputFiles(); }
  public void refresh() { files.refresh(); }
  public Option metadataOpsTimeNs() { return files.metadataOpsTimeNs(); }
  public boolean isTimeTravel() { return false; }
  public String toString() { return files.toString(); }
  public int hashCode() { return files.hashCode(); }

  /**
   * Equal where the rows are, so that Spark may still share equal scans: a filter takes none away that its scan
   * would give, but a note does.
   */
  public boolean equals(Object other) {
    if (this == other) return true;
    if (REPLACING.get() != null) return false;
    if (!(other instanceof zskip)) return source == null && notes().isEmpty() && files.equals(other);
    zskip that = (zskip) other;
    return (source == null) == (that.source == null) && notes().equals(that.notes()) && files.equals(that.files);
  }

  /** Whether the rows of the relation are those of its files, and those are at hand. */
  boolean isWhole() { return source == null || files instanceof PartitioningAwareFileIndex; }

  /** Whether the list of files is that of the plan, whenever it is asked for. */
  boolean isFixed() { return source == null || files.getClass() == InMemoryFileIndex.class; }

  Map notes() { return query == null ? Query.NO_NOTES : query.notes; }

  public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
    if (source != null) return left(partitionFilters, dataFilters);
    Seq found = null;
    try {
      if (query != null) found = chosen(partitionFilters, dataFilters);
    } catch (RuntimeException e) {
      if (notes().containsKey(Counts.KIND)) throw e;
      Faults.tell("the choice of files", e);
    } catch (LinkageError e) {
      Faults.tell("the choice of files", e);
    }
    if (found != null) return found;
    if (notes().containsKey(Counts.KIND)) throw Counts.unsure(null);
    return files.listFiles(partitionFilters, dataFilters);
  }

  /** What the query leaves of our own files; null where it says no more of them than the filters. */
  private Seq chosen(Seq partitionFilters, Seq dataFilters) {
    boolean same = query.isOver(partitionFilters, dataFilters);
    Map notes = Joins.notes(this);
    if (!same && notes.isEmpty()) return null;
    Object ticket = same ? query.ticket : null;
    Object[] arguments = {ticket, partitionFilters, dataFilters, notes, Scans.query(), Scans.forKeys()};
    return (Seq) ask("list", arguments);
  }

  /** What another index lists, without the files that the query does not need. */
  private Seq left(Seq partitionFilters, Seq dataFilters) {
    Seq all = files.listFiles(partitionFilters, dataFilters);
    try {
      long started = System.nanoTime();
      Listing listing = new Listing(source, all);
      long[] total = total(listing, partitionFilters);
      boolean same = query != null && query.isOver(partitionFilters, dataFilters);
      Object ticket = same ? query.ticket : null;
      Map notes = query == null ? Query.NO_NOTES : Joins.notes(this);
      List reasons = Joins.reasons(notes);
      BitSet kept = same && (notes.isEmpty() || reasons != null) ? query.kept : null;
      if (kept == null) reasons = null;
      if (kept == null) {
        Object[] arguments = {ticket, partitionFilters, dataFilters, notes, null, null};
        String answer = (String) asked("list", listing.text(total), arguments);
        if (answer == null) throw new IllegalStateException("no answer");
        Map found = Text.read(answer);
        ticket = found.get("ticket");
        kept = Text.bits((String) found.get("kept"));
      }
      Seq left = listing.keep(kept);
      Scans.add(ticket, listing, total, System.nanoTime() - started, reasons);
      return left;
    } catch (Exception e) {
      if (notes().containsKey(Counts.KIND)) throw Counts.unsure(e);
      Faults.tell("the choice of files", e);
      return all;
    } catch (LinkageError e) {
      if (notes().containsKey(Counts.KIND)) throw Counts.unsure(e);
      Faults.tell("the choice of files", e);
      return all;
    }
  }

  /** Files and bytes before partition filters where they are at hand, else after them. */
  private long[] total(Listing listing, Seq partitionFilters) {
    if (partitionFilters.isEmpty() || !(files instanceof PartitioningAwareFileIndex)) {
      return new long[] {listing.files, listing.bytes, listing.rows};
    }
    return new long[] {((PartitioningAwareFileIndex) files).allFiles().size(), files.sizeInBytes(), -1};
  }

  /** What Python is told of the files that filters leave; null where they would have to be listed first. */
  String listed(Seq partitionFilters, Seq dataFilters) {
    if (source == null) return null;
    boolean isDelta = Delta.isPrepared(files);
    if (!isDelta && !(files instanceof PartitioningAwareFileIndex)) return null;
    Seq held = files.listFiles(partitionFilters, isDelta ? dataFilters : Query.seq(new ArrayList()));
    Listing listing = new Listing(source, held);
    return listing.text(total(listing, partitionFilters));
  }
}
