import java.nio.LongBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;

/** Files below a root as Hadoop describes them. */
public final class Statuses {
  private static final long BLOCK = 128L << 20;

  /** `Path` has no escapes: names may contain blanks, `%`, `#` and line breaks, as in Spark's own listings. */
  static Path path(String root, String name) { return new Path((root.endsWith("/") ? root : root + "/") + name); }

  static FileStatus status(Path path, long size, long time) { return new FileStatus(size, false, 1, BLOCK, time, path); }

  public List<Path> paths(String root, List<String> names) {
    List<Path> paths = new ArrayList<>();
    for (String name : names) paths.add(path(root, name));
    return paths;
  }

  public List<FileStatus> of(String root, List<String> names, LongBuffer sizes, LongBuffer times) {
    List<FileStatus> statuses = new ArrayList<>();
    for (int i = 0; i < names.size(); i++) {
      statuses.add(status(path(root, (String) names.get(i)), sizes.get(i), times.get(i)));
    }
    return statuses;
  }
}
