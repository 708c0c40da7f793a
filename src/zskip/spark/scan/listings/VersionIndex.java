import org.apache.spark.sql.execution.datasources.FileIndex;

/** A file index over the files of one version of a table. */
public interface VersionIndex extends FileIndex {
  NumberedFiles numberedFiles();

  Partitions partitions();
}
