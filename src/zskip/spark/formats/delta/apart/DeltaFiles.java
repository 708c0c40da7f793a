import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.delta.OptimisticTransaction$;
import org.apache.spark.sql.delta.Snapshot;
import org.apache.spark.sql.delta.actions.Action;
import org.apache.spark.sql.delta.actions.AddFile;
import org.apache.spark.sql.delta.actions.InMemoryLogReplay;
import org.apache.spark.sql.delta.files.TahoeFileIndex;
import org.apache.spark.sql.delta.files.TahoeFileIndexWithSnapshotDescriptor;
import org.apache.spark.sql.delta.files.TahoeLogFileIndex;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.collection.JavaConverters;
import SEQ;

/** Compiled apart, where a session has Delta Lake. */
public final class DeltaFiles implements DeltaCode {
  /** In the columns of tables whose partitions Delta may choose by filters on other columns. */
  private static final String GENERATED = "delta.generationExpression";

  public DeltaFiles() {}

  public FileIndex wrap(FileIndex index, FileIndex location) {
    return new ZskipFiles(index, (TahoeFileIndex) location);
  }

  public boolean isInTransaction() { return OptimisticTransaction$.MODULE$.getActive().isDefined(); }

  public Object log(FileIndex location) { return ((TahoeLogFileIndex) location).deltaLog().compositeId(); }

  public boolean isPinned(FileIndex location) { return ((TahoeLogFileIndex) location).isTimeTravelQuery(); }

  public Object snapshot(FileIndex location) {
    TahoeLogFileIndex files = (TahoeLogFileIndex) location;
    if (!files.partitionFilters().isEmpty()) return null;
    try {
      Snapshot snapshot = files.getSnapshot();
      return snapshot.metadata().schemaString().indexOf(GENERATED) >= 0 ? null : snapshot;
    } catch (Exception e) {
      Faults.passOn(e);
      return null; // Delta raises it again, as an error of the query.
    }
  }

  public List<Object> key(FileIndex location, Object snapshot) {
    Snapshot of = (Snapshot) snapshot;
    // A table that was made anew has the same versions again.
    Object time = of.logSegment().lastCommitFileModificationTimestamp();
    Object path = ((TahoeFileIndex) location).path();
    return Arrays.asList(log(location), path, of.metadata().id(), of.version(), time);
  }

  public long version(Object snapshot) { return ((Snapshot) snapshot).version(); }

  public LogEntries entries(FileIndex location, Object snapshot, LogEntries older) throws Exception {
    TahoeLogFileIndex files = (TahoeLogFileIndex) location;
    List<AddFile> adds = older == null ? null : replayed(files, (Snapshot) snapshot, older);
    // Statistics are not needed, and they take the most memory.
    if (adds == null) adds = Scala.list(((Snapshot) snapshot).filesForScan(Scala.NONE, false).files());
    FileStatusWithMetadata[] statuses = new FileStatusWithMetadata[adds.size()];
    Object[] partitions = new Object[adds.size()];
    for (int i = 0; i < statuses.length; i++) {
      AddFile add = (AddFile) adds.get(i);
      statuses[i] = files.fileStatusWithMetadataFromAddFile(add);
      partitions[i] = add.partitionValues();
    }
    return new LogEntries(version(snapshot), adds, statuses, partitions);
  }

  /** The entries of a snapshot by the commits after an older one; null where they are not those that Delta counted. */
  private static List<AddFile> replayed(TahoeLogFileIndex files, Snapshot snapshot, LogEntries older) {
    Option count = snapshot.numOfFilesIfKnown();
    Option bytes = snapshot.sizeInBytesIfKnown();
    if (count.isEmpty() || bytes.isEmpty()) return null;
    try {
      InMemoryLogReplay replay = new InMemoryLogReplay(Option.empty(), Option.empty());
      replay.append(older.version, JavaConverters.asScalaIterator(((List<Action>) older.adds).iterator()));
      Option table = files.catalogTableOpt();
      Iterator commits = snapshot.deltaLog().getChanges(older.version + 1, snapshot.version(), table, true);
      long version = older.version;
      while (commits.hasNext()) {
        Tuple2 commit = (Tuple2) commits.next();
        version = (Long) commit._1();
        replay.append(version, ((scala.collection.Seq) commit._2()).iterator());
      }
      List<AddFile> adds = Scala.list(replay.allFiles());
      long sum = 0;
      for (AddFile add : adds) sum += add.size();
      boolean isWhole = version == snapshot.version()
        && adds.size() == (Long) count.get()
        && sum == (Long) bytes.get();
      return isWhole ? adds : null;
    } catch (Exception e) {
      Faults.passOn(e);
      return null;
    } catch (AssertionError e) {
      return null;
    }
  }

  public DeltaVersion over(FileIndex location, Object snapshot, LogEntries entries) {
    return new Version((TahoeLogFileIndex) location, (Snapshot) snapshot, entries);
  }

  /** The files of a snapshot, as its log has them; Delta chooses some of them by filters. */
  public static final class Version extends TahoeFileIndexWithSnapshotDescriptor implements DeltaVersion {
    private final Snapshot snapshot;
    private final LogEntries entries;

    Version(TahoeLogFileIndex location, Snapshot snapshot, LogEntries entries) {
      super(location.spark(), location.deltaLog(), location.path(), snapshot);
      this.snapshot = snapshot;
      this.entries = entries;
    }

    public NumberedFiles numberedFiles() { return entries; }
    public Partitions partitions() { return entries.partitions(this); }
    public Object zone() { return spark().sessionState().conf().sessionLocalTimeZone(); }
    public InternalRow row(Object partition) {
      return getPartitionValuesRow((scala.collection.immutable.Map) partition);
    }
    public Seq matchingFiles(Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
      List<Expression> filters = new ArrayList<>(Scala.list(partitionFilters));
      filters.addAll(Scala.list(dataFilters));
      boolean isAll = true;
      for (Object filter : filters) {
        isAll &= filter instanceof Literal && Boolean.TRUE.equals(((Literal) filter).value());
      }
      // So Delta asks whether there are deletion vectors.
      if (isAll) return Scala.seq(entries.adds);
      return snapshot.filesForScan(Scala.seq(filters), false).files();
    }
    public long sizeInBytes() { return entries.bytes; }
    public String[] inputFiles() {
      String[] paths = new String[entries.files.length];
      for (int i = 0; i < paths.length; i++) paths[i] = entries.files[i].fileStatus().getPath().toString();
      return paths;
    }
    public void refresh() { }
    public int hashCode() { return System.identityHashCode(entries); }
    public boolean equals(Object other) { return other instanceof Version && entries == ((Version) other).entries; }
  }

  /**
   * An index of ours over Delta's, which Delta takes for one of its own. Plans show the last part of its name.
   *
   * Delta looks here for deletion vectors when it plans the query, and lists the files when it runs.
   */
  public static final class ZskipFiles extends TahoeFileIndexWithSnapshotDescriptor implements Wrapper {
    private final FileIndex index;
    private final TahoeFileIndex files;

    /** index: ours; files: Delta's, to which it belongs. */
    ZskipFiles(FileIndex index, TahoeFileIndex files) {
      super(files.spark(), files.deltaLog(), files.path(), files);
      this.index = index;
      this.files = files;
    }

    public FileIndex wrapped() { return index; }
    public Seq matchingFiles(Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
      return files.matchingFiles(partitionFilters, dataFilters);
    }
    public Seq<PartitionDirectory> listFiles(Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
      return index.listFiles(partitionFilters, dataFilters);
    }
    public Option rowIndexFilters() { return files.rowIndexFilters(); }
    public StructType partitionSchema() { return files.partitionSchema(); }
    public Option metadataOpsTimeNs() { return files.metadataOpsTimeNs(); }
    public Seq<Path> rootPaths() { return index.rootPaths(); }
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
