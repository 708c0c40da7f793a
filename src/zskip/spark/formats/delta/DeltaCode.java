import java.util.List;
import org.apache.spark.sql.execution.datasources.FileIndex;

/** What needs Delta's own classes: `DeltaFiles.java`, compiled where a session has them. */
public interface DeltaCode {
  /** An index of ours as Delta takes it; location: Delta's, to which it belongs. */
  FileIndex wrap(FileIndex index, FileIndex location);

  /** Whether a transaction of Delta's is active in this thread, which has to know what is read. */
  boolean isInTransaction();

  /** The log of a relation that has no files yet; equal for equal logs. */
  Object log(FileIndex location);

  /** Whether such a relation reads one version, whichever is the latest. */
  boolean isPinned(FileIndex location);

  /** The snapshot that it would read now; null where Delta has to choose its files. */
  Object snapshot(FileIndex location);

  /** Equal for snapshots with the same entries. */
  List<Object> key(FileIndex location, Object snapshot);

  long version(Object snapshot);

  /** The entries of a snapshot; older: those of an older version of the same log, or null. */
  LogEntries entries(FileIndex location, Object snapshot, LogEntries older) throws Exception;

  /** The files of a snapshot as a file index. */
  DeltaVersion over(FileIndex location, Object snapshot, LogEntries entries);
}
