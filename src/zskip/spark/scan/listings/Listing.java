import java.util.ArrayList;
import java.util.BitSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import scala.collection.JavaConverters;
import SEQ;

/** Files that the index of a relation lists, seen from an index of ours. */
final class Listing {
  private final Source source;
  private final List directories;
  /** By the places of the index. */
  final BitSet present = new BitSet();
  int files = 0;
  long bytes = 0;
  /** -1 where a file's are unknown. */
  long rows = 0;
  /** What lies there beside the files that the index describes. */
  private int others = 0;
  private long otherBytes = 0;
  /** Whether a file is listed more than once: Spark reads it as often. */
  private boolean twice = false;

  /** directories: of `PartitionDirectory`. */
  Listing(Source source, Seq directories) {
    this.source = source;
    this.directories = JavaConverters.seqAsJavaList(directories);
    for (int i = 0; i < this.directories.size(); i++) {
      List held = files(this.directories.get(i));
      for (int k = 0; k < held.size(); k++) {
        FileStatusWithMetadata file = (FileStatusWithMetadata) held.get(k);
        add(source.place(file.fileStatus()), file.fileStatus().getLen());
      }
    }
  }

  private void add(int place, long size) {
    count(place, size);
    if (place >= 0) {
      twice |= present.get(place);
      present.set(place);
    } else {
      others++;
      otherBytes += size;
    }
  }

  private void count(int place, long size) {
    files++;
    bytes += size;
    long held = place < 0 ? -1 : source.rows.get(place);
    rows = held < 0 || rows < 0 ? -1 : rows + held;
  }

  private static List files(Object directory) {
    return JavaConverters.seqAsJavaList((scala.collection.Seq) ((PartitionDirectory) directory).files());
  }

  /** Without the files that the index describes and that are not kept. */
  Seq keep(BitSet kept) {
    List left = new ArrayList();
    files = 0;
    bytes = 0;
    rows = 0;
    for (int i = 0; i < directories.size(); i++) {
      List held = files(directories.get(i));
      List chosen = new ArrayList();
      for (int k = 0; k < held.size(); k++) {
        FileStatusWithMetadata file = (FileStatusWithMetadata) held.get(k);
        int place = source.place(file.fileStatus());
        if (place >= 0 && !kept.get(place)) continue;
        chosen.add(file);
        count(place, file.fileStatus().getLen());
      }
      if (chosen.size() == held.size()) {
        left.add(directories.get(i));
      } else if (!chosen.isEmpty()) {
        left.add(new PartitionDirectory(((PartitionDirectory) directories.get(i)).values(), Query.seq(chosen)));
      }
    }
    return Query.seq(left);
  }

  /** What Python is told of it; total: files and bytes before partition filters. */
  String text(long[] total) {
    Map found = new LinkedHashMap();
    if (present.cardinality() < source.files()) found.put("bits", Text.bits(present));
    found.put("twice", Boolean.valueOf(twice));
    found.put("others", Integer.valueOf(others));
    found.put("other_bytes", Long.valueOf(otherBytes));
    found.put("total", Long.valueOf(total[0]));
    found.put("total_bytes", Long.valueOf(total[1]));
    return Text.json(found);
  }
}
