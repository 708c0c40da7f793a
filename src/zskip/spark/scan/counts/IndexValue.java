import java.math.BigDecimal;
import java.math.BigInteger;
import org.apache.spark.sql.catalyst.expressions.SpecificInternalRow;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.unsafe.types.UTF8String;

/** Values in the form in which the index holds them, as text, to values as Spark holds them. */
final class IndexValue {
  private IndexValue() {}

  /** Whole numbers in digits (days, months, microseconds, unscaled decimals, 0 or 1), bytes in hexadecimal digits. */
  static Object value(String text, DataType type) {
    if (text == null) return null;
    // Spark counts the nanoseconds of a day.
    if (Columns.timeDigits(type) >= 0) return Long.valueOf(1000 * Long.parseLong(text));
    if (type instanceof DecimalType) {
      DecimalType decimal = (DecimalType) type;
      BigDecimal value = new BigDecimal(new BigInteger(text), decimal.scale());
      return Decimal.apply(value, decimal.precision(), decimal.scale());
    }
    // What Spark's own rows hold a value in: ints hold days and months, longs hold microseconds.
    switch (new SpecificInternalRow(Scala.seqOf(type)).values()[0].getClass().getSimpleName()) {
      case "MutableBoolean": return Boolean.valueOf(!text.equals("0"));
      case "MutableByte": return Byte.valueOf(text);
      case "MutableShort": return Short.valueOf(text);
      case "MutableInt": return Integer.valueOf(text);
      case "MutableLong": return Long.valueOf(text);
      case "MutableFloat": return Float.valueOf((float) Double.parseDouble(text));
      case "MutableDouble": return Double.valueOf(text);
      default:
        if (type instanceof StringType) return UTF8String.fromBytes(bytes(text));
        if (type instanceof BinaryType) return bytes(text);
        throw new IllegalArgumentException(type.toString());
    }
  }

  private static byte[] bytes(String digits) {
    byte[] bytes = new byte[digits.length() / 2];
    for (int i = 0; i < bytes.length; i++) bytes[i] = (byte) Integer.parseInt(digits.substring(2 * i, 2 * i + 2), 16);
    return bytes;
  }
}
