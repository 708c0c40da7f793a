import java.math.BigDecimal;
import java.math.BigInteger;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.types.YearMonthIntervalType;
import org.apache.spark.unsafe.types.UTF8String;

/** Values in the form in which the index holds them, as text, to values as Spark holds them. */
final class IndexValue {
  private IndexValue() {}

  /** Whole numbers in digits (days, months, microseconds, unscaled decimals, 0 or 1), bytes in hexadecimal digits. */
  static Object value(String text, DataType type) {
    if (text == null) return null;
    if (type instanceof BooleanType) return Boolean.valueOf(!text.equals("0"));
    if (type instanceof ByteType) return Byte.valueOf(text);
    if (type instanceof ShortType) return Short.valueOf(text);
    boolean isInteger = type instanceof IntegerType
      || type instanceof DateType
      || type instanceof YearMonthIntervalType;
    if (isInteger) return Integer.valueOf(text);
    boolean isLong = type instanceof LongType
      || type instanceof TimestampType
      || type instanceof TimestampNTZType
      || type instanceof DayTimeIntervalType;
    if (isLong) return Long.valueOf(text);
    // Spark counts the nanoseconds of a day.
    if (Columns.timeDigits(type) >= 0) return Long.valueOf(1000 * Long.parseLong(text));
    if (type instanceof FloatType) return Float.valueOf((float) Double.parseDouble(text));
    if (type instanceof DoubleType) return Double.valueOf(text);
    if (type instanceof DecimalType) {
      DecimalType decimal = (DecimalType) type;
      BigDecimal value = new BigDecimal(new BigInteger(text), decimal.scale());
      return Decimal.apply(value, decimal.precision(), decimal.scale());
    }
    if (type instanceof StringType) return UTF8String.fromBytes(bytes(text));
    if (type instanceof BinaryType) return bytes(text);
    throw new IllegalArgumentException(type.toString());
  }

  private static byte[] bytes(String digits) {
    byte[] bytes = new byte[digits.length() / 2];
    for (int i = 0; i < bytes.length; i++) bytes[i] = (byte) Integer.parseInt(digits.substring(2 * i, 2 * i + 2), 16);
    return bytes;
  }
}
