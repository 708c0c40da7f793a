import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.NoopCache$;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.PartitionPath;
import org.apache.spark.sql.execution.datasources.PartitionSpec;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.JavaConverters;
import SEQ;

/** The files of one snapshot of a table; later commits do not change them, and no directory is listed. */
public final class Pinned implements FileIndex {
  private static final long BLOCK = 128L << 20;

  private final String name;
  private final String root;
  private final StructType partitionSchema;
  /** An `InternalRow` for each partition. */
  private final List values;
  private final IntBuffer partitionOf;
  /** Relative to the root. */
  private final List paths;
  private final LongBuffer sizes;
  private final LongBuffer times;
  private final long bytes;
  private final Object session;
  private FileIndex partitions;

  /** name: the same for snapshots that give the same rows, so that Spark may share exchanges and cached data. */
  public Pinned(
    String name, String root, StructType partitionSchema, List values, IntBuffer partitionOf, List paths,
    LongBuffer sizes, LongBuffer times, Object session) {
    this.name = name;
    this.root = root;
    this.partitionSchema = partitionSchema;
    this.values = values;
    this.partitionOf = partitionOf;
    this.paths = paths;
    this.sizes = sizes;
    this.times = times;
    this.session = session;
    long sum = 0;
    for (int i = 0; i < sizes.limit(); i++) sum += sizes.get(i);
    this.bytes = sum;
  }

  int files() { return paths.size(); }
  long size(int file) { return sizes.get(file); }
  InternalRow values(int partition) { return (InternalRow) values.get(partition); }

  public Seq rootPaths() { return ScanQuery.seq(Arrays.asList(new Object[] {new Path(root)})); }
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

  public Seq listFiles(Seq partitionFilters, Seq dataFilters) { return directories(matching(partitionFilters)); }

  /** The files in the partitions for which all filters are true, as Spark's own code evaluates them. */
  BitSet matching(Seq partitionFilters) {
    BitSet matching = new BitSet();
    matching.set(0, paths.size());
    if (partitionFilters.isEmpty()) return matching;
    BitSet kept = new BitSet();
    List listed = JavaConverters.seqAsJavaList(partitions().listFiles(partitionFilters, ScanQuery.NONE));
    int width = partitionSchema.length();
    for (int i = 0; i < listed.size(); i++) kept.set(((PartitionDirectory) listed.get(i)).values().getInt(width));
    for (int i = 0; i < paths.size(); i++) if (!kept.get(partitionOf.get(i))) matching.clear(i);
    return matching;
  }

  /** An index without paths, whose partition rows end in the partition's number. */
  private synchronized FileIndex partitions() {
    if (partitions != null) return partitions;
    List numbered = new ArrayList();
    for (int i = 0; i < values.size(); i++) {
      InternalRow number = new GenericInternalRow(new Object[] {Integer.valueOf(i)});
      numbered.add(new PartitionPath(new JoinedRow(values(i), number), new Path(root)));
    }
    Object spec = new PartitionSpec(partitionSchema, ScanQuery.seq(numbered));
    Object none = ScanQuery.NONE;
    Object map = scala.collection.immutable.Map$.MODULE$.empty();
    Object[] parts = {session, none, map, Option.empty(), NoopCache$.MODULE$, Option.apply(spec), Option.empty()};
    try {
      partitions = (FileIndex) InMemoryFileIndex.class.getConstructors()[0].newInstance(parts);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
    return partitions;
  }

  /** One directory for each partition that has some of the files. */
  Seq directories(BitSet files) {
    int[][] numbers = byPartition(files);
    List directories = new ArrayList();
    for (int i = 0; i < numbers.length; i++) {
      if (numbers[i] == null) continue;
      FileStatus[] statuses = new FileStatus[numbers[i].length];
      for (int k = 0; k < statuses.length; k++) statuses[k] = status(numbers[i][k]);
      directories.add(PartitionDirectory.apply(values(i), statuses));
    }
    return ScanQuery.seq(directories);
  }

  /** The numbers of each partition's files; null where it has none. */
  int[][] byPartition(BitSet files) {
    int[] counts = new int[values.size()];
    for (int i = files.nextSetBit(0); i >= 0; i = files.nextSetBit(i + 1)) counts[partitionOf.get(i)]++;
    int[][] numbers = new int[counts.length][];
    for (int i = files.nextSetBit(0); i >= 0; i = files.nextSetBit(i + 1)) {
      int partition = partitionOf.get(i);
      if (numbers[partition] == null) numbers[partition] = new int[counts[partition]];
      numbers[partition][numbers[partition].length - counts[partition]--] = i;
    }
    return numbers;
  }

  private FileStatus status(int file) {
    return new FileStatus(sizes.get(file), false, 1, BLOCK, times.get(file), path(file));
  }

  /** `Path` has no escapes: blanks, `%` and `#` mean themselves, as in Spark's own listings. */
  private Path path(int file) {
    return new Path((root.endsWith("/") ? root : root + "/") + paths.get(file));
  }
}
