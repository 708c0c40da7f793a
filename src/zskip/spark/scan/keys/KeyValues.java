import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.util.TypeUtils;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.YearMonthIntervalType;
import org.apache.spark.unsafe.types.UTF8String;

/** Values of a key, packed for Python: 64 bits each, or each with its length; nulls are left out. */
final class KeyValues {
  private static final int LONGS = 1;
  private static final int DOUBLES = 2;
  private static final int BYTES = 3;
  private static final long MOST_BYTES = 64L << 20;
  private static final int MOST_RANGES = 8;

  final DataType type;
  private final int form;
  private final int most;
  private long[] longs = new long[64];
  private int count;
  private final Set<ByteBuffer> texts = new HashSet<>();
  private long bytes;

  /** most: after more values than these, repeated ones included, `add` refuses. */
  KeyValues(DataType type, int most) {
    this.type = type;
    this.most = most;
    this.form = form(type);
  }

  static boolean supports(DataType type) { return form(type) != 0; }

  private static int form(DataType type) {
    if (DataTypes.FloatType.equals(type) || DataTypes.DoubleType.equals(type)) return DOUBLES;
    if (type instanceof DecimalType) return ((DecimalType) type).precision() <= 18 ? LONGS : BYTES;
    // Only strings that compare as bytes are equal to this type.
    if (DataTypes.StringType.equals(type) || type instanceof BinaryType) return BYTES;
    boolean whole = DataTypes.ByteType.equals(type)
      || DataTypes.ShortType.equals(type)
      || DataTypes.IntegerType.equals(type)
      || DataTypes.LongType.equals(type)
      || DataTypes.BooleanType.equals(type)
      || DataTypes.DateType.equals(type)
      || DataTypes.TimestampType.equals(type)
      || DataTypes.TimestampNTZType.equals(type)
      || type instanceof DayTimeIntervalType
      || type instanceof YearMonthIntervalType
      || Columns.timeDigits(type) >= 0;
    return whole ? LONGS : 0;
  }

  /** Takes one more value as Catalyst has it; false where there are too many. */
  boolean add(Object value) {
    if (value == null) return true;
    if (form == BYTES) {
      byte[] text = bytes(value);
      if (texts.add(ByteBuffer.wrap(text))) bytes += text.length + 4;
      return texts.size() <= most && bytes <= MOST_BYTES;
    }
    if (count == longs.length) longs = Arrays.copyOf(longs, 2 * count);
    longs[count++] = number(value);
    return count <= most;
  }

  private static byte[] bytes(Object value) {
    if (value instanceof UTF8String) return ((UTF8String) value).getBytes();
    if (value instanceof Decimal) return ((Decimal) value).toJavaBigDecimal().unscaledValue().toByteArray();
    return (byte[]) ((byte[]) value).clone();
  }

  private static long number(Object value) {
    if (value instanceof Boolean) return (Boolean) value ? 1 : 0;
    if (value instanceof Decimal) return ((Decimal) value).toUnscaledLong();
    if (value instanceof Double || value instanceof Float) {
      return Double.doubleToLongBits(((Number) value).doubleValue());
    }
    return ((Number) value).longValue();
  }

  /** Few ranges that hold all values, as Catalyst has them, with the widest gaps between; none where zskip knows none. */
  synchronized List<Object[]> ranges() {
    List<Object[]> ranges = new ArrayList<>();
    if (DataTypes.StringType.equals(type) && !texts.isEmpty()) ranges.add(rangeOfTexts());
    if (form != LONGS || count == 0 || DataTypes.BooleanType.equals(type)) return ranges;
    Arrays.sort(longs, 0, count);
    long[] gaps = new long[count];
    // Of halves, since the whole may be more than a long holds.
    for (int i = 1; i < count; i++) gaps[i] = (longs[i] >> 1) - (longs[i - 1] >> 1);
    long[] sorted = Arrays.copyOf(gaps, count);
    Arrays.sort(sorted);
    long least = Math.max(1, sorted[Math.max(0, count - MOST_RANGES + 1)]);
    int first = 0;
    for (int i = 1; i <= count; i++) {
      if (i < count && (gaps[i] < least || ranges.size() == MOST_RANGES - 1)) continue;
      ranges.add(new Object[] {value(longs[first]), value(longs[i - 1])});
      first = i;
    }
    return ranges;
  }

  private Object[] rangeOfTexts() {
    scala.math.Ordering<Object> order = TypeUtils.getInterpretedOrdering(type);
    Object[] range = new Object[2];
    for (ByteBuffer text : texts) {
      Object value = UTF8String.fromBytes(text.array());
      if (range[0] == null || order.compare(value, range[0]) < 0) range[0] = value;
      if (range[1] == null || order.compare(value, range[1]) > 0) range[1] = value;
    }
    return range;
  }

  private Object value(long number) {
    if (type instanceof DecimalType) {
      return Decimal.apply(number, ((DecimalType) type).precision(), ((DecimalType) type).scale());
    }
    switch (type.defaultSize()) {
      case 1: return (byte) number;
      case 2: return (short) number;
      case 4: return (int) number;
      default: return number;
    }
  }

  /** The distinct values, big-endian; they are sorted in place, and scans in several threads may share them. */
  synchronized byte[] packed() {
    if (form == BYTES) return packedTexts();
    Arrays.sort(longs, 0, count);
    ByteBuffer packed = ByteBuffer.allocate(8 * count);
    for (int i = 0; i < count; i++) {
      if (i == 0 || longs[i] != longs[i - 1]) packed.putLong(longs[i]);
    }
    return Arrays.copyOf(packed.array(), packed.position());
  }

  private byte[] packedTexts() {
    ByteBuffer packed = ByteBuffer.allocate((int) bytes);
    for (ByteBuffer text : texts) {
      packed.putInt(text.array().length);
      packed.put(text.array());
    }
    return packed.array();
  }
}
