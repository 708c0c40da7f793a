import java.nio.LongBuffer;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;

/** An index bound to the files that it describes, numbered in its order. */
final class BoundIndex {
  /** Answers what a query would read of the files. */
  final Python python;
  /** The number of rows in each file; -1 if it is not known. */
  final LongBuffer rows;
  /** Whether Python is told of each scan at once. */
  final boolean isWatched;
  /** Where the table lies; null for a snapshot. */
  final Path root;
  private final String authority;
  private final String prefix;
  /** The root as it is written, before the path of a file. */
  private final String written;
  private final Map<Object, Integer> numbers = new HashMap<>();
  private final LongBuffer sizes;
  private final LongBuffer times;
  private final LongBuffer identities;
  private final boolean isOnDisk;
  /** For each file the hash of the status by which it was last compared with the disk, negative if it had changed. */
  private final int[] compared;

  /** Bound to the files of a snapshot, in the snapshot's order. */
  BoundIndex(Python python, LongBuffer rows, boolean isWatched) {
    this.python = python;
    this.rows = rows;
    this.isWatched = isWatched;
    this.root = null;
    this.authority = null;
    this.prefix = null;
    this.written = null;
    this.sizes = null;
    this.times = null;
    this.identities = null;
    this.isOnDisk = false;
    this.compared = null;
  }

  /** Bound to the files of a directory; opened: as `bound_files.py` gives it, paths relative to the root. */
  BoundIndex(Path root, List<Object> opened, boolean isWatched) {
    this.python = (Python) opened.get(0);
    this.isWatched = isWatched;
    this.root = root;
    this.authority = root.toUri().getAuthority();
    String path = root.toUri().getPath();
    this.prefix = path.endsWith("/") ? path : path + "/";
    this.written = root.toString() + "/";
    List<?> paths = (List<?>) opened.get(1);
    this.sizes = (LongBuffer) opened.get(2);
    this.times = (LongBuffer) opened.get(3);
    this.rows = (LongBuffer) opened.get(4);
    this.identities = (LongBuffer) opened.get(5);
    this.isOnDisk = DiskFile.isOnDisk(root);
    this.compared = new int[isOnDisk ? rows.limit() : 0];
    for (int i = 0; i < paths.size(); i++) numbers.put(paths.get(i), i);
  }

  int files() { return rows.limit(); }

  /** The number of a file; -1 if the index does not describe this version of it. */
  int number(FileStatus file) {
    int i = numberOfName(file);
    return i >= 0 && times.get(i) == file.getModificationTime() && isSame(i, file) ? i : -1;
  }

  /** Whether a listed file on a disk is the one that was indexed; looks once a listing, whose statuses Spark keeps. */
  private boolean isSame(int i, FileStatus file) {
    if (!isOnDisk || identities.get(i) == 0) return true;
    int listed = System.identityHashCode(file) | 1;
    if (compared[i] != listed && compared[i] != -listed) {
      compared[i] = DiskFile.identity(file.getPath()) == identities.get(i) ? listed : -listed;
    }
    return compared[i] == listed;
  }

  /** The number of a file whose name no other version of it has; -1 if the index does not describe it. */
  int numberOfName(FileStatus file) { return numberOfName(file.getPath(), file.getLen()); }

  /** The number of a file of Iceberg's, for which no index notes a time; -1 if it was indexed as another reader's. */
  int number(String location, long size) {
    int i = -1;
    if (location.startsWith(written)) i = numbered(location.substring(written.length()), size);
    // To read a path takes long where there are thousands, and most are written like that of the table.
    if (i < 0) i = numberOfName(new Path(location), size);
    return i >= 0 && times.get(i) == 0 ? i : -1;
  }

  private int numberOfName(Path path, long size) {
    String name = path.toUri().getPath();
    if (!name.startsWith(prefix) || !Objects.equals(authority, path.toUri().getAuthority())) return -1;
    return numbered(name.substring(prefix.length()), size);
  }

  /** relative: to the root. */
  private int numbered(String relative, long size) {
    Integer number = (Integer) numbers.get(relative);
    return number != null && sizes.get(number) == size ? number : -1;
  }
}
