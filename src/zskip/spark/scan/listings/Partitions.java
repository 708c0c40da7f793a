import java.nio.IntBuffer;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
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
import SEQ;

/** The partitions of numbered files, and the files that filters on them leave. */
public final class Partitions {
  private final StructType schema;
  private final List<InternalRow> values;
  private final IntBuffer partitionOf;
  private final String root;
  private final Object session;
  private FileIndex numbered;

  Partitions(StructType schema, List<InternalRow> values, IntBuffer partitionOf, String root, Object session) {
    this.schema = schema;
    this.values = values;
    this.partitionOf = partitionOf;
    this.root = root;
    this.session = session;
  }

  /** The files in the partitions for which all filters are true, as Spark's own code evaluates them. */
  BitSet matching(Seq<Expression> filters) {
    BitSet matching = new BitSet();
    matching.set(0, partitionOf.limit());
    if (filters.isEmpty()) return matching;
    BitSet kept = new BitSet();
    List<PartitionDirectory> listed = Scala.list(numbered().listFiles(filters, Scala.NONE));
    int width = schema.length();
    for (PartitionDirectory one : listed) kept.set(one.values().getInt(width));
    for (int i = 0; i < partitionOf.limit(); i++) if (!kept.get(partitionOf.get(i))) matching.clear(i);
    return matching;
  }

  /** An index without paths, whose partition rows end in the partition's number. */
  private synchronized FileIndex numbered() {
    if (numbered != null) return numbered;
    List<PartitionPath> rows = new ArrayList<>();
    for (int i = 0; i < values.size(); i++) {
      InternalRow number = new GenericInternalRow(new Object[] {i});
      rows.add(new PartitionPath(new JoinedRow((InternalRow) values.get(i), number), new Path(root)));
    }
    Object spec = new PartitionSpec(schema, Scala.seq(rows));
    Object map = scala.collection.immutable.Map$.MODULE$.empty();
    numbered = (FileIndex) Scala.construct(
      InMemoryFileIndex.class,
      session, Scala.NONE, map, Option.empty(), NoopCache$.MODULE$, Option.apply(spec), Option.empty());
    return numbered;
  }

  /** One directory for each partition that has some of the files. */
  Seq<PartitionDirectory> directories(NumberedFiles files, BitSet some) {
    int[][] numbers = divide(some);
    List<PartitionDirectory> directories = new ArrayList<>();
    for (int i = 0; i < numbers.length; i++) {
      if (numbers[i] != null) directories.add(files.directory((InternalRow) values.get(i), numbers[i]));
    }
    return Scala.seq(directories);
  }

  /** The numbers of each partition's files among some; null where it has none. */
  private int[][] divide(BitSet files) {
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
}
