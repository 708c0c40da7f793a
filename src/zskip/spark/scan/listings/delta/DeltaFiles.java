import org.apache.spark.sql.delta.files.TahoeFileIndex;
import org.apache.spark.sql.delta.files.TahoeFileIndexWithSnapshotDescriptor;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import SEQ;

/** Compiled apart, where a session has Delta Lake. */
public final class DeltaFiles {
  private DeltaFiles() {}

  /**
   * An index of ours over Delta's, which Delta takes for one of its own. Plans show the last part of its name.
   *
   * Delta looks here for deletion vectors when it plans the query, and lists the files when it runs.
   */
  public static final class zskip extends TahoeFileIndexWithSnapshotDescriptor implements Wrapper {
    private final FileIndex index;
    private final TahoeFileIndex files;

    /** index: ours; location: Delta's, to which it belongs. */
    public zskip(FileIndex index, FileIndex location) {
      super(
        ((TahoeFileIndex) location).spark(),
        ((TahoeFileIndex) location).deltaLog(),
        ((TahoeFileIndex) location).path(),
        (TahoeFileIndex) location);
      this.index = index;
      this.files = (TahoeFileIndex) location;
    }

    public FileIndex wrapped() { return index; }
    public Seq matchingFiles(Seq partitionFilters, Seq dataFilters) {
      return files.matchingFiles(partitionFilters, dataFilters);
    }
    public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
      return index.listFiles(partitionFilters, dataFilters);
    }
    public Option rowIndexFilters() { return files.rowIndexFilters(); }
    public StructType partitionSchema() { return files.partitionSchema(); }
    public Option metadataOpsTimeNs() { return files.metadataOpsTimeNs(); }
    public Seq rootPaths() { return index.rootPaths(); }
    public long sizeInBytes() { return index.sizeInBytes(); }
    public String[] inputFiles() { return index.inputFiles(); }
    public void refresh() { }
    public String toString() { return index.toString(); }
    public int hashCode() { return index.hashCode(); }
    public boolean equals(Object other) {
      return this == other || other instanceof Wrapper && index.equals(((Wrapper) other).wrapped());
    }
  }
}
