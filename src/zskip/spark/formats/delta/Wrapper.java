import org.apache.spark.sql.execution.datasources.FileIndex;

/** A file index of another program's class around one of ours. */
public interface Wrapper {
  FileIndex wrapped();
}
