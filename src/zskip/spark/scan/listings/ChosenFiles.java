import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.JavaConverters;
import SEQ;

/** Some of the files that Hudi's file index lists, without the values of their partitions. */
public final class ChosenFiles implements FileIndex {
  private final FileIndex files;
  private final Set paths = new HashSet();

  /** paths: relative to the root. */
  public ChosenFiles(FileIndex files, String root, List paths) {
    this.files = files;
    for (int i = 0; i < paths.size(); i++) this.paths.add(new Path(root, (String) paths.get(i)).toUri().getPath());
  }

  public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
    List directories = JavaConverters.seqAsJavaList(files.listFiles(ScanQuery.NONE, ScanQuery.NONE));
    List chosen = new ArrayList();
    for (int i = 0; i < directories.size(); i++) {
      PartitionDirectory directory = (PartitionDirectory) directories.get(i);
      List statuses = JavaConverters.seqAsJavaList(directory.files());
      List some = new ArrayList();
      for (int k = 0; k < statuses.size(); k++) {
        Path path = ((FileStatusWithMetadata) statuses.get(k)).fileStatus().getPath();
        if (paths.contains(path.toUri().getPath())) some.add(statuses.get(k));
      }
      InternalRow values = Hudi.isSlice(directory) ? directory.values() : InternalRow.empty();
      if (!some.isEmpty()) chosen.add(new PartitionDirectory(values, ScanQuery.seq(some)));
    }
    return ScanQuery.seq(chosen);
  }

  public Seq rootPaths() { return files.rootPaths(); }
  public long sizeInBytes() { return files.sizeInBytes(); }
  public StructType partitionSchema() { return new StructType(); }
  public String[] inputFiles() { return files.inputFiles(); }
  public void refresh() { }
  public Option metadataOpsTimeNs() { return files.metadataOpsTimeNs(); }
  public boolean isTimeTravel() { return false; }
}
