import java.util.ArrayList;
import java.util.BitSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import SEQ;

/** The files of Iceberg's scan, after Iceberg's own filters: one task for each. */
final class ListedTasks extends Listing {
  /** Before any of ours or of Iceberg's runtime filters. */
  final List tasks;
  private final IcebergScan scan;
  /** Of the index, -1 for files that it does not describe; Iceberg's runtime filters leave some of the same tasks. */
  private final Map numbers = new IdentityHashMap();

  ListedTasks(BoundIndex index, IcebergScan scan) throws ReflectiveOperationException {
    super(index);
    this.scan = scan;
    this.tasks = scan.tasks();
    for (int i = 0; i < tasks.size(); i++) {
      Object task = tasks.get(i);
      numbers.put(task, Integer.valueOf(index.number(scan.path(task), scan.size(task))));
    }
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
    int number = number(task);
    boolean hasDeletes = scan.hasDeletes(task);
    add(number, scan.size(task), hasDeletes);
    if (number < 0) {
      others++;
      otherBytes += scan.size(task);
      return;
    }
    twice |= present.get(number);
    present.set(number);
    if (hasDeletes) deleted.set(number);
  }

  private int number(Object task) {
    Integer number = (Integer) numbers.get(task);
    return number == null ? -1 : number.intValue();
  }

  Seq keep(BitSet kept) {
    try {
      return ScanQuery.seq(keep(tasks, kept));
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Some tasks without those of files that the index describes and that are not kept. */
  synchronized List keep(List some, BitSet kept) throws ReflectiveOperationException {
    List left = new ArrayList();
    reset();
    for (int i = 0; i < some.size(); i++) {
      Object task = some.get(i);
      int number = number(task);
      if (number >= 0 && !kept.get(number)) continue;
      left.add(task);
      add(number, scan.size(task), number < 0 || deleted.get(number));
    }
    return left;
  }
}
