import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import org.apache.hadoop.fs.Path;
import SEQ;

/** The files of Iceberg's scan, after Iceberg's own filters: one task for each. */
final class ListedTasks extends Listing {
  private final IcebergScan scan;
  private final List tasks;

  ListedTasks(BoundIndex index, IcebergScan scan) throws ReflectiveOperationException {
    super(index);
    this.scan = scan;
    this.tasks = scan.tasks();
  }

  Seq everything() { return ScanQuery.seq(tasks); }

  void count() {
    try {
      for (int i = 0; i < tasks.size(); i++) count(tasks.get(i));
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
    total = new long[] {files, bytes, rows};
  }

  private void count(Object task) throws ReflectiveOperationException {
    int number = add(task);
    if (number < 0) {
      others++;
      otherBytes += scan.size(task);
      return;
    }
    twice |= present.get(number);
    present.set(number);
    if (scan.hasDeletes(task)) deleted.set(number);
  }

  private int add(Object task) throws ReflectiveOperationException {
    long size = scan.size(task);
    int number = index.number(new Path(scan.path(task)), size);
    add(number, size, scan.hasDeletes(task));
    return number;
  }

  Seq keep(BitSet kept) {
    try {
      return ScanQuery.seq(keep(tasks, kept));
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Some tasks without those of files that the index describes and that are not kept. */
  List keep(List some, BitSet kept) throws ReflectiveOperationException {
    List left = new ArrayList();
    reset();
    for (int i = 0; i < some.size(); i++) {
      Object task = some.get(i);
      int number = index.number(new Path(scan.path(task)), scan.size(task));
      if (number >= 0 && !kept.get(number)) continue;
      left.add(task);
      add(task);
    }
    return left;
  }

  /** Iceberg's partitions are hidden. */
  List partitions() { return new ArrayList(); }
}
