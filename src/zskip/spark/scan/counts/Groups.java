import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;

/** The files of a relation by the values of partition columns. */
final class Groups {
  /** Of `Object[]`, as Spark holds values. */
  private final List values = new ArrayList();
  /** Of each file of the index, -1 for those of no group. */
  private final int[] groupOf;

  private Groups(int files) {
    groupOf = new int[files];
    Arrays.fill(groupOf, -1);
  }

  /** columns: lists of name and type; null where one of them is no partition column. */
  static Groups of(zskip index, List columns) {
    // Rows of Hudi's tables may have other values than their directories.
    if (Hudi.isIndex(index.files)) return null;
    StructType schema = index.partitionSchema();
    List names = Arrays.asList(schema.fieldNames());
    int[] fields = new int[columns.size()];
    for (int i = 0; i < fields.length; i++) {
      fields[i] = names.indexOf(((List) columns.get(i)).get(0));
      if (fields[i] < 0) return null;
    }
    Groups groups = new Groups(index.bound.files());
    Map known = new LinkedHashMap();
    List partitions = index.list(index.query.ofPartitions, ScanQuery.NONE).partitions();
    for (int i = 0; i < partitions.size(); i++) {
      InternalRow row = (InternalRow) ((List) partitions.get(i)).get(0);
      Object[] group = new Object[fields.length];
      for (int k = 0; k < fields.length; k++) group[k] = row.get(fields[k], schema.apply(fields[k]).dataType());
      List key = Arrays.asList(group);
      if (!known.containsKey(key)) {
        known.put(key, Integer.valueOf(groups.values.size()));
        groups.values.add(group);
      }
      int number = ((Integer) known.get(key)).intValue();
      int[] files = (int[]) ((List) partitions.get(i)).get(1);
      for (int k = 0; k < files.length; k++) if (files[k] >= 0) groups.groupOf[files[k]] = number;
    }
    return groups;
  }

  Object[] values(int number) { return (Object[]) values.get(number); }

  /** The group of each file, as 32 bits, big-endian, in base 64. */
  String text() {
    ByteBuffer packed = ByteBuffer.allocate(4 * groupOf.length);
    packed.asIntBuffer().put(groupOf);
    return Base64.getEncoder().encodeToString(packed.array());
  }
}
