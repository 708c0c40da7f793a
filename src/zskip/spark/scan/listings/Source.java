import java.nio.LongBuffer;
import java.util.HashMap;
import java.util.List;
import java.util.Objects;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;

/** An index of a directory, as relations of one schema see it: the files that it describes, by their paths. */
final class Source {
  final Object stamp;
  final Python python;
  private final String authority;
  private final String prefix;
  private final HashMap places = new HashMap();
  private final LongBuffer sizes;
  private final LongBuffer times;
  /** Of each file, -1 where unknown. */
  final LongBuffer rows;

  /** stamp: of the version of the index; opened: as `indexed.py` gives it, paths relative to the root. */
  Source(Path root, Object stamp, Python python, List opened) {
    this.stamp = stamp;
    this.python = python;
    this.authority = root.toUri().getAuthority();
    String path = root.toUri().getPath();
    this.prefix = path.endsWith("/") ? path : path + "/";
    List paths = (List) opened.get(1);
    this.sizes = (LongBuffer) opened.get(2);
    this.times = (LongBuffer) opened.get(3);
    this.rows = (LongBuffer) opened.get(4);
    for (int i = 0; i < paths.size(); i++) places.put(paths.get(i), Integer.valueOf(i));
  }

  int files() { return places.size(); }

  /** The place of a file in the index; -1 where the index does not describe it as it is. */
  int place(Path path, long size, long time) {
    String name = path.toUri().getPath();
    if (!name.startsWith(prefix) || !Objects.equals(authority, path.toUri().getAuthority())) return -1;
    Integer found = (Integer) places.get(name.substring(prefix.length()));
    if (found == null) return -1;
    int place = found.intValue();
    return sizes.get(place) == size && times.get(place) == time ? place : -1;
  }

  int place(FileStatus file) { return place(file.getPath(), file.getLen(), file.getModificationTime()); }
}
