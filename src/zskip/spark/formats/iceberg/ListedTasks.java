import java.util.ArrayList;
import java.util.BitSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import SEQ;

/** The files of Iceberg's scan, after Iceberg's own filters: one task for each. */
final class ListedTasks extends Listing {
  /** Before any of ours or of Iceberg's runtime filters. */
  final List<Object> tasks;
  private final IcebergScan scan;
  /**
   * The number of each task's file in the index, -1 if the index does not describe it; Iceberg's runtime filters leave
   * some of the same tasks.
   */
  private final Map<Object, Integer> numbers = new IdentityHashMap<>();

  ListedTasks(BoundIndex index, IcebergScan scan) throws ReflectiveOperationException {
    super(index);
    this.scan = scan;
    this.tasks = scan.tasks();
    for (Object task : tasks) numbers.put(task, index.number(scan.path(task), scan.size(task)));
  }

  Seq everything() { return Scala.seq(tasks); }

  void count() {
    try {
      for (Object task : tasks) count(number(task), scan.size(task), scan.hasDeletes(task));
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
    total = new long[] {files, bytes, rows};
  }

  private int number(Object task) {
    Integer number = (Integer) numbers.get(task);
    return number == null ? -1 : number;
  }

  Seq keep(BitSet kept) {
    try {
      return Scala.seq(keep(tasks, kept));
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Some tasks without those of files that the index describes and that are not kept. */
  synchronized List<Object> keep(List<Object> some, BitSet kept) throws ReflectiveOperationException {
    List<Object> left = new ArrayList<>();
    reset();
    for (Object task : some) {
      int number = number(task);
      if (number >= 0 && !kept.get(number)) continue;
      left.add(task);
      add(number, scan.size(task), number < 0 || deleted.get(number));
    }
    return left;
  }
}
