import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.KnownFloatingPointNormalized;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import scala.collection.JavaConverters;
import SEQ;

/** The columns of a relation, and expressions of them, that the attributes of a plan above it hold, row by row. */
final class Columns {
  /** From the id of an attribute to the relation's attribute, or to an expression and the columns below it. */
  private final Map sources = new HashMap();

  /** The columns of a relation itself. */
  static Columns of(Seq output) {
    Columns columns = new Columns();
    List attributes = list(output);
    for (int i = 0; i < attributes.size(); i++) columns.sources.put(id(attributes.get(i)), attributes.get(i));
    return columns;
  }

  /** The column of an expression, possibly cast to a type that holds all of its values; null if it is no column. */
  String column(Expression expression) {
    Expression source = source(expression);
    return source instanceof Attribute ? ((Attribute) source).name() : null;
  }

  /** The same, or the description of an expression of columns, which is no name; null if it is none. */
  String key(Expression expression) {
    Expression source = source(expression);
    if (source == null || source instanceof Attribute) return column(expression);
    if (!KeySide.allowed(source) || source.references().isEmpty()) return null;
    return FilterText.of(ScanQuery.seq(java.util.Arrays.asList(new Object[] {new IsNotNull(source)})));
  }

  /** Whether a key is no column. */
  static boolean isExpression(String key) { return key.startsWith("{"); }

  /** An expression over the relation's attributes, without a cast around it that changes no value. */
  private Expression source(Expression expression) { return source(expression, false); }

  /** inside: whether a function takes the value, for which a wider type may be another value, such as a hash. */
  private Expression source(Expression expression, boolean inside) {
    if (expression instanceof Attribute) {
      Object source = sources.get(id(expression));
      if (!(source instanceof Object[])) return (Expression) source;
      return ((Columns) ((Object[]) source)[1]).source((Expression) ((Object[]) source)[0], inside);
    }
    boolean unchanged = expression instanceof KnownFloatingPointNormalized
      || expression instanceof NormalizeNaNAndZero
      || expression instanceof Cast
        && exact(((Cast) expression).child().dataType(), ((Cast) expression).dataType());
    List children = list(expression.children());
    if (expression instanceof Alias || (unchanged && !inside)) return source((Expression) children.get(0), inside);
    List below = new ArrayList();
    for (int i = 0; i < children.size(); i++) {
      Expression child = source((Expression) children.get(i), true);
      if (child == null) return null;
      below.add(child);
    }
    return below.isEmpty() ? expression : (Expression) expression.withNewChildren(ScanQuery.seq(below));
  }

  /** The columns after a projection; null if the projection is not deterministic. */
  Columns projected(Seq named) {
    Columns columns = new Columns();
    List all = list(named);
    for (int i = 0; i < all.size(); i++) {
      Expression one = (Expression) all.get(i);
      if (!one.deterministic()) return null;
      columns.sources.put(id(one), new Object[] {one instanceof Alias ? ((Alias) one).child() : one, this});
    }
    return columns;
  }

  /** Without some attributes. */
  Columns without(List attributes) {
    Columns columns = new Columns();
    columns.sources.putAll(sources);
    for (int i = 0; i < attributes.size(); i++) columns.sources.remove(id(attributes.get(i)));
    return columns;
  }

  /** The columns after grouping: the grouping columns, so that only whole groups can be missing. */
  Columns grouped(Seq grouping, Seq named) {
    Columns groups = new Columns();
    List by = list(grouping);
    if (by.isEmpty()) return null;
    for (int i = 0; i < by.size(); i++) {
      Object one = by.get(i);
      if (one instanceof Attribute && sources.containsKey(id(one))) groups.sources.put(id(one), sources.get(id(one)));
    }
    return groups.projected(named);
  }

  /** The same columns under the attributes of a union instead of its child's. */
  Columns renamed(Seq from, Seq to) {
    Columns columns = new Columns();
    List old = list(from);
    List now = list(to);
    for (int i = 0; i < old.size(); i++) {
      Object name = sources.get(id(old.get(i)));
      if (name != null) columns.sources.put(id(now.get(i)), name);
    }
    return columns;
  }

  /** Whether a cast keeps all different values different and never fails. */
  static boolean exact(DataType from, DataType to) {
    if (from.equals(to)) return true;
    if (timeDigits(from) >= 0) return timeDigits(to) >= timeDigits(from);
    int digits = digits(from);
    if (to instanceof DecimalType) {
      DecimalType wide = (DecimalType) to;
      if (digits > 0) return wide.precision() - wide.scale() >= digits;
      if (!(from instanceof DecimalType)) return false;
      DecimalType narrow = (DecimalType) from;
      return wide.scale() >= narrow.scale()
        && wide.precision() - wide.scale() >= narrow.precision() - narrow.scale();
    }
    if (DataTypes.DoubleType.equals(to)) return DataTypes.FloatType.equals(from) || (digits > 0 && digits <= 10);
    return digits > 0 && digits(to) >= digits;
  }

  /** The digits after the second of a time of day, whose class came with Spark 4.1; -1 for other types. */
  static int timeDigits(DataType type) {
    String name = type.typeName();
    return name.matches("time\\([0-6]\\)") ? name.charAt(5) - '0' : -1;
  }

  /** The most digits of a type of whole numbers; 0 for others. */
  private static int digits(DataType type) {
    if (DataTypes.ByteType.equals(type)) return 3;
    if (DataTypes.ShortType.equals(type)) return 5;
    if (DataTypes.IntegerType.equals(type)) return 10;
    return DataTypes.LongType.equals(type) ? 19 : 0;
  }

  static Object id(Object named) { return Long.valueOf(((NamedExpression) named).exprId().id()); }

  static List list(Object seq) { return JavaConverters.seqAsJavaList((Seq) seq); }
}
