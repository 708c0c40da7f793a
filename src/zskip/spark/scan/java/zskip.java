// Compiled in the driver by Janino, which Spark brings along, as one unit with the other files of this folder;
// Java without generics or lambdas, as Janino reads it.

import java.util.Map;
import java.util.function.Function;
import org.apache.spark.sql.execution.datasources.FileIndex;
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
  final Function python;
  /** Null where no query is known. */
  final Query query;

  public zskip(FileIndex files, Function python, Query query) {
    this.files = files;
    this.python = python;
    this.query = query;
  }

  /** The same files in another query. */
  zskip in(Query other) { return new zskip(files, python, other); }

  /** Asks `PrunedFileIndex.answer` in Python; null where it does not know. */
  Object ask(String question, Object[] arguments) {
    Object[] all = new Object[arguments.length + 1];
    all[0] = question;
    System.arraycopy(arguments, 0, all, 1, arguments.length);
    return python.apply(all);
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
    Object others = other instanceof zskip ? ((zskip) other).notes() : Query.NO_NOTES;
    return notes().equals(others) && files.equals(other);
  }

  Map notes() { return query == null ? Query.NO_NOTES : query.notes; }

  public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
    if (query != null) {
      boolean same = query.ofPartitions.equals(partitionFilters) && query.ofData.equals(dataFilters);
      if (same || !query.notes.isEmpty()) {
        Object ticket = same ? query.ticket : null;
        Object found = ask("list", new Object[] {ticket, partitionFilters, dataFilters, query.notes});
        if (found != null) return (Seq) found;
      }
    }
    return files.listFiles(partitionFilters, dataFilters);
  }
}
