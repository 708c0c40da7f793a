import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataType;

/** The values of partitions, a row for each. */
public final class PartitionRows {
  /** Rows of one value: their number. */
  public List<InternalRow> numbers(int count) {
    List<InternalRow> rows = new ArrayList<>();
    for (int i = 0; i < count; i++) rows.add(new GenericInternalRow(new Object[] {i}));
    return rows;
  }

  /** The values of a column as text. */
  public List<String> texts(List<InternalRow> rows, int column, DataType type) {
    List<String> texts = new ArrayList<>();
    for (InternalRow row : rows) {
      Object value = row.get(column, type);
      texts.add(value == null ? null : value.toString());
    }
    return texts;
  }
}
