import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.catalog.CatalogStatistics;
import org.apache.spark.sql.catalyst.catalog.CatalogTablePartition;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils;
import scala.Option;
import scala.math.BigInt;
import SEQ;

/** Partitions of a table in Spark's catalog, and statistics of tables and partitions. */
public final class CatalogPartitions {
  /** Where each partition lies. */
  public List<String> paths(List<CatalogTablePartition> partitions) {
    List<String> paths = new ArrayList<>();
    for (CatalogTablePartition partition : partitions) paths.add(new Path(partition.location()).toString());
    return paths;
  }

  /** Where Spark would put each partition. */
  public List<String> usualPaths(List<CatalogTablePartition> partitions, Seq<String> columns, String root) {
    List<String> paths = new ArrayList<>();
    for (CatalogTablePartition partition : partitions) {
      paths.add(ExternalCatalogUtils.generatePartitionPath(partition.spec(), columns, new Path(root)).toString());
    }
    return paths;
  }

  /** Statistics with another size; py4j would make an int of Scala's BigInt. */
  public Option<CatalogStatistics> resized(CatalogStatistics stats, String bytes) {
    return Option.apply(new CatalogStatistics(BigInt.apply(bytes), stats.rowCount(), stats.colStats()));
  }

  public CatalogTablePartition withStats(CatalogTablePartition partition, Option<CatalogStatistics> stats) {
    return new CatalogTablePartition(
      partition.spec(), partition.storage(), partition.parameters(), partition.createTime(),
      partition.lastAccessTime(), stats);
  }
}
