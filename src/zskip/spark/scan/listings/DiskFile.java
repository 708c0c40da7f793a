import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.nio.file.attribute.FileTime;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.fs.Path;

/** What tells a file on a disk of this machine from others that had its path, size and time. */
final class DiskFile {
  private static final long FACTOR = 0x9E3779B97F4A7C15L;

  private DiskFile() {}

  static boolean isOnDisk(Path path) {
    String scheme = path.toUri().getScheme();
    return scheme == null || scheme.equals("file");
  }

  /** As `identity_on_disk` computes it in Python; -1 where the file is gone. */
  static long identity(Path path) {
    try {
      Map<String, Object> facts = Files.readAttributes(Paths.get(path.toUri().getPath()), "unix:ino,ctime");
      long changed = ((FileTime) facts.get("ctime")).to(TimeUnit.MICROSECONDS);
      return ((Long) facts.get("ino") * FACTOR + changed) & Long.MAX_VALUE;
    } catch (IOException e) {
      return -1;
    }
  }
}
