import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import SEQ;

/** The files of one snapshot of a table; later commits do not change them, and no directory is listed. */
public final class Pinned implements VersionIndex, NumberedFiles {
  private final String name;
  private final String root;
  private final StructType partitionSchema;
  private final Partitions partitions;
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

  public NumberedFiles numberedFiles() { return this; }
  public Partitions partitions() { return partitions; }
  public int count() { return paths.size(); }
  public long size(int file) { return sizes.get(file); }
  public boolean hasDeletedRows(int file) { return false; }

  /** They are those of the index, in its order. */
  public int[] numbers(BoundIndex index) {
    int[] numbers = new int[count()];
    for (int i = 0; i < numbers.length; i++) numbers[i] = i;
    return numbers;
  }

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
    return partitions.directories(this, partitions.matching(partitionFilters));
  }

  public PartitionDirectory directory(InternalRow values, int[] files) {
    FileStatus[] statuses = new FileStatus[files.length];
    for (int i = 0; i < files.length; i++) statuses[i] = status(files[i]);
    return PartitionDirectory.apply(values, statuses);
  }

  private FileStatus status(int file) { return Statuses.status(path(file), sizes.get(file), times.get(file)); }

  private Path path(int file) { return Statuses.path(root, (String) paths.get(file)); }
}
