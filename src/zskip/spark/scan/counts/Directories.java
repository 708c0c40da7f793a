import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructType;
import scala.collection.JavaConverters;
import SEQ;

/** The directories of a relation that another index lists: their files, and the values by which a query groups them. */
final class Directories {
  /** Of `Object[]`, as Spark holds values. */
  private final List values = new ArrayList();
  /** Of the places of files in the index of ours, as text. */
  private final List files = new ArrayList();

  /** columns: lists of name and type; null where one of them is no partition column. */
  static Directories of(zskip index, List columns) {
    StructType schema = index.partitionSchema();
    List names = Arrays.asList(schema.fieldNames());
    int[] places = new int[columns.size()];
    for (int i = 0; i < places.length; i++) {
      places[i] = names.indexOf(((List) columns.get(i)).get(0));
      if (places[i] < 0) return null;
    }
    Directories made = new Directories();
    Seq held = index.files.listFiles(index.query.ofPartitions, Query.seq(new ArrayList()));
    List all = JavaConverters.seqAsJavaList(held);
    for (int i = 0; i < all.size(); i++) {
      PartitionDirectory one = (PartitionDirectory) all.get(i);
      InternalRow row = one.values();
      Object[] group = new Object[places.length];
      for (int k = 0; k < places.length; k++) group[k] = row.get(places[k], schema.apply(places[k]).dataType());
      made.values.add(group);
      made.files.add(Text.bits(new Listing(index.source, Query.seq(Arrays.asList(new Object[] {one}))).present));
    }
    return made;
  }

  Object[] values(int number) { return (Object[]) values.get(number); }

  String text() {
    Map found = new LinkedHashMap();
    found.put("directories", files);
    return Text.json(found);
  }
}
