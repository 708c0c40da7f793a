import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import SEQ;

/** The files of one snapshot of a table; later commits do not change them, and no directory is listed. */
public final class Pinned implements FileIndex {
  private final String name;
  private final String root;
  private final StructType partitionSchema;
  final Partitions partitions;
  /** Relative to the root. */
  private final List<String> paths;
  private final LongBuffer sizes;
  private final LongBuffer times;
  private final long bytes;

  /**
   * name: the same for snapshots that give the same rows, so that Spark may share exchanges and cached data; values: an
   * `InternalRow` for each partition.
   */
  public Pinned(
    String name, String root, StructType partitionSchema, List<InternalRow> values, IntBuffer partitionOf,
    List<String> paths, LongBuffer sizes, LongBuffer times, Object session) {
    this.name = name;
    this.root = root;
    this.partitionSchema = partitionSchema;
    this.partitions = new Partitions(partitionSchema, values, partitionOf, root, session);
    this.paths = paths;
    this.sizes = sizes;
    this.times = times;
    long sum = 0;
    for (int i = 0; i < sizes.limit(); i++) sum += sizes.get(i);
    this.bytes = sum;
  }

  int files() { return paths.size(); }
  long size(int file) { return sizes.get(file); }

  public Seq<Path> rootPaths() { return Scala.seqOf(new Path(root)); }
  public long sizeInBytes() { return bytes; }
  public StructType partitionSchema() { return partitionSchema; }
  public void refresh() { }
  public Option metadataOpsTimeNs() { return Option.empty(); }
  public boolean isTimeTravel() { return false; }
  public String toString() { return name; }
  public int hashCode() { return name.hashCode(); }
  public boolean equals(Object other) { return other instanceof Pinned && name.equals(((Pinned) other).name); }

  public String[] inputFiles() {
    String[] files = new String[paths.size()];
    for (int i = 0; i < files.length; i++) files[i] = path(i).toUri().toString();
    return files;
  }

  public Seq<PartitionDirectory> listFiles(Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
    return directories(partitions.matching(partitionFilters));
  }

  /** One directory for each partition that has some of the files. */
  Seq<PartitionDirectory> directories(BitSet files) {
    int[][] numbers = partitions.divide(files);
    List<PartitionDirectory> directories = new ArrayList<>();
    for (int i = 0; i < numbers.length; i++) {
      if (numbers[i] == null) continue;
      FileStatus[] statuses = new FileStatus[numbers[i].length];
      for (int k = 0; k < statuses.length; k++) statuses[k] = status(numbers[i][k]);
      directories.add(PartitionDirectory.apply(partitions.values(i), statuses));
    }
    return Scala.seq(directories);
  }

  private FileStatus status(int file) { return Statuses.status(path(file), sizes.get(file), times.get(file)); }

  private Path path(int file) { return Statuses.path(root, (String) paths.get(file)); }
}
