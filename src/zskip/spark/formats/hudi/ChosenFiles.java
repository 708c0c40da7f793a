import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import SEQ;

/** Some of the files that Hudi's file index lists, without the values of their partitions. */
public final class ChosenFiles implements FileIndex {
  private final FileIndex files;
  private final Set<String> paths = new HashSet<>();

  /** paths: relative to the root. */
  public ChosenFiles(FileIndex files, String root, List<String> paths) {
    this.files = files;
    for (int i = 0; i < paths.size(); i++) this.paths.add(new Path(root, (String) paths.get(i)).toUri().getPath());
  }

  public Seq<PartitionDirectory> listFiles(Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
    List<PartitionDirectory> directories = Scala.list(files.listFiles(Scala.NONE, Scala.NONE));
    List<PartitionDirectory> chosen = new ArrayList<>();
    for (PartitionDirectory directory : directories) {
      List<FileStatusWithMetadata> statuses = Scala.list(directory.files());
      List<FileStatusWithMetadata> some = new ArrayList<>();
      for (FileStatusWithMetadata status : statuses) {
        Path path = status.fileStatus().getPath();
        if (paths.contains(path.toUri().getPath())) some.add(status);
      }
      InternalRow values = Hudi.isSlice(directory) ? directory.values() : InternalRow.empty();
      if (!some.isEmpty()) chosen.add(new PartitionDirectory(values, Scala.seq(some)));
    }
    return Scala.seq(chosen);
  }

  public Seq<Path> rootPaths() { return files.rootPaths(); }
  public long sizeInBytes() { return files.sizeInBytes(); }
  public StructType partitionSchema() { return new StructType(); }
  public String[] inputFiles() { return files.inputFiles(); }
  public void refresh() { }
  public Option metadataOpsTimeNs() { return files.metadataOpsTimeNs(); }
  public boolean isTimeTravel() { return false; }
}
