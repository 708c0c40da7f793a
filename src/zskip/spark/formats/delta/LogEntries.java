import java.nio.IntBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;

/** The live files of one version of a Delta table, as its log has them. */
public final class LogEntries implements NumberedFiles {
  private static final int ZONES = 4;
  public final long version;
  /** Of Delta's `AddFile`. */
  public final List<?> adds;
  public final FileStatusWithMetadata[] files;
  public final long bytes;
  /** Files with a deletion vector. */
  final BitSet deleted = new BitSet();
  /** The values of each partition, as the log has them. */
  private final List<Object> partitions = new ArrayList<>();
  private final int[] partitionOf;
  /** The numbers of the files in an index, by the index. */
  private final Map<BoundIndex, int[]> numbers = new WeakHashMap<>();
  /** By what their values are computed by. */
  private final Map<Object, Partitions> rows = new LinkedHashMap<>();

  /** partitionOf: of each file, the values of its partition as the log has them. */
  public LogEntries(long version, List<?> adds, FileStatusWithMetadata[] files, Object[] partitionOf) {
    this.version = version;
    this.adds = adds;
    this.files = files;
    this.partitionOf = new int[files.length];
    Map<Object, Integer> known = new HashMap<>();
    long sum = 0;
    for (int i = 0; i < files.length; i++) {
      sum += files[i].fileStatus().getLen();
      if (Delta.hasDeletedRows(files[i])) deleted.set(i);
      Integer partition = (Integer) known.get(partitionOf[i]);
      if (partition == null) {
        partition = partitions.size();
        partitions.add(partitionOf[i]);
        known.put(partitionOf[i], partition);
      }
      this.partitionOf[i] = partition;
    }
    bytes = sum;
  }

  public int count() { return files.length; }

  public long size(int file) { return files[file].fileStatus().getLen(); }

  public boolean hasDeletedRows(int file) { return deleted.get(file); }

  public PartitionDirectory directory(InternalRow values, int[] some) {
    List<FileStatusWithMetadata> statuses = new ArrayList<>();
    for (int file : some) statuses.add(files[file]);
    return new PartitionDirectory(values, Scala.seq(statuses));
  }

  public int[] numbers(BoundIndex index) {
    synchronized (numbers) {
      int[] known = (int[]) numbers.get(index);
      if (known != null) return known;
      known = new int[files.length];
      for (int i = 0; i < known.length; i++) known[i] = index.number(files[i].fileStatus());
      numbers.put(index, known);
      return known;
    }
  }

  /** Whether an index describes all of the files. */
  boolean areKnown(BoundIndex index) {
    for (int number : numbers(index)) if (number < 0) return false;
    return true;
  }

  /** The partitions with the values that are read. */
  public Partitions partitions(DeltaVersion location) {
    Object key = Arrays.asList(location.zone(), location.partitionSchema());
    synchronized (rows) {
      Partitions known = (Partitions) rows.get(key);
      if (known != null) return known;
      List<InternalRow> values = new ArrayList<>();
      for (Object partition : partitions) values.add(location.row(partition));
      IntBuffer of = IntBuffer.wrap(partitionOf);
      String root = location.rootPaths().apply(0).toString();
      Object session = org.apache.spark.sql.SparkSession.active();
      known = new Partitions(location.partitionSchema(), values, of, root, session);
      rows.put(key, known);
      if (rows.size() > ZONES) rows.remove(rows.keySet().iterator().next());
      return known;
    }
  }
}
