import java.util.BitSet;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.FileIndex;
import SEQ;

/** The files of a relation after partition filters, seen from an index of ours; each kind of relation lists its own. */
abstract class Listing {
  final BoundIndex index;
  /** The listed files that the index describes, by their numbers in it. */
  final BitSet present = new BitSet();
  /** The listed files with deleted rows. */
  final BitSet deleted = new BitSet();
  /** The number of files in the listing, or in what is kept of it. */
  int files;
  long bytes;
  /** -1 if the rows of a file are not known. */
  long rows;
  /** Listed files that the index does not describe. */
  protected int others;
  protected long otherBytes;
  /** Whether a file is listed more than once: Spark reads it as often. */
  protected boolean twice;
  /** Files, bytes and rows before partition filters where they are known, else after them. */
  protected long[] total;

  Listing(BoundIndex index) { this.index = index; }

  /** Lists files; Spark's errors are the query's. */
  static Listing of(FileIndex files, BoundIndex index, Seq<Expression> partitionFilters, Seq<Expression> dataFilters) {
    if (files instanceof VersionIndex) return new VersionFiles(index, (VersionIndex) files, partitionFilters);
    if (Hudi.isIndex(files)) return new HudiFiles(index, files, partitionFilters, dataFilters);
    return new ListedFiles(index, files, partitionFilters, dataFilters);
  }

  /** All listed files, as Spark takes them. */
  abstract Seq everything();

  /** Counts the listed files. */
  abstract void count();

  /** Without the files that the index describes and that are not kept. */
  abstract Seq keep(BitSet kept);

  /** Counts a listed file; number: -1 if the index does not describe it. */
  protected final void count(int number, long size, boolean isDeleted) {
    add(number, size, isDeleted);
    if (number < 0) {
      others++;
      otherBytes += size;
      return;
    }
    twice |= present.get(number);
    present.set(number);
    if (isDeleted) deleted.set(number);
  }

  /** Counts a file of what is kept. */
  protected final void add(int number, long size, boolean isDeleted) {
    files++;
    bytes += size;
    long count = number < 0 || isDeleted ? -1 : index.rows.get(number);
    rows = count < 0 || rows < 0 ? -1 : rows + count;
  }

  protected final void reset() {
    files = 0;
    bytes = 0;
    rows = 0;
  }

  /** For Python, which reads it as JSON. */
  String text() {
    Map<String, Object> described = new LinkedHashMap<>();
    if (present.cardinality() < index.files()) described.put("bits", Json.bits(present));
    if (!deleted.isEmpty()) described.put("deleted", Json.bits(deleted));
    described.put("twice", twice);
    described.put("others", others);
    described.put("other_bytes", otherBytes);
    described.put("total", total[0]);
    described.put("total_bytes", total[1]);
    described.put("total_rows", total[2] < 0 ? null : Long.valueOf(total[2]));
    return Json.write(described);
  }
}
