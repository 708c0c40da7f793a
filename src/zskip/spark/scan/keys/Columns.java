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
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import SEQ;

/** The columns of a relation, and expressions of them, that the attributes of a plan above it hold, row by row. */
final class Columns {
  /** From the id of an attribute to the relation's attribute, or to an expression and the columns below it. */
  private final Map<Object, Object> sources = new HashMap<>();
  /** Whether nulls may stand for rows that are missing: unlike a column, an expression may have a value for them. */
  private boolean isPadded;

  /** The columns of a relation itself. */
  static Columns of(Seq<Attribute> output) {
    Columns columns = new Columns();
    for (Attribute attribute : Scala.list(output)) columns.sources.put(id(attribute), attribute);
    return columns;
  }

  /**
   * The key of a column, possibly cast to a type that holds all of its values, or of an expression of columns; null if
   * it is none.
   */
  String key(Expression expression) {
    Expression source = source(expression, false);
    if (isPadded && !(source instanceof Attribute)) return null;
    return source == null || !allowed(source) || source.references().isEmpty() ? null : described(source);
  }

  /** An expression of a relation's columns as a key: a name, or the description of what is no name. */
  static String described(Expression source) {
    if (source instanceof Attribute) return ((Attribute) source).name();
    return FilterText.of(Scala.seqOf(new IsNotNull(source)));
  }

  /** An expression over the relation's attributes; null if it is of others. */
  Expression over(Expression expression) { return source(expression, true); }

  /** Whether an expression has one value for equal rows, whoever evaluates it. */
  static boolean allowed(Expression expression) {
    return expression.deterministic() && !SubqueryExpression.hasSubquery(expression);
  }

  /** Whether a key is no column. */
  static boolean isExpression(String key) { return key.startsWith("{"); }

  /**
   * An expression over the relation's attributes; inside: with a cast around it that changes no value, as for a function,
   * for which a wider type may be another value, such as a hash.
   */
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
    if (expression instanceof Alias || (unchanged && !inside)) {
      return source((Expression) expression.children().apply(0), inside);
    }
    List<Expression> below = new ArrayList<>();
    for (Expression child : Scala.list(expression.children())) {
      Expression source = source(child, true);
      if (source == null) return null;
      below.add(source);
    }
    return below.isEmpty() ? expression : (Expression) expression.withNewChildren(Scala.seq(below));
  }

  /** The columns after a projection; null if the projection is not deterministic. */
  Columns projected(Seq<NamedExpression> named) {
    Columns columns = new Columns();
    columns.isPadded = isPadded;
    for (NamedExpression one : Scala.list(named)) {
      if (!((Expression) one).deterministic()) return null;
      columns.sources.put(id(one), new Object[] {one instanceof Alias ? ((Alias) one).child() : one, this});
    }
    return columns;
  }

  /** The columns above an outer join whose other rows stay. */
  Columns padded() {
    Columns columns = without(new ArrayList<>());
    columns.isPadded = true;
    return columns;
  }

  /** Without some attributes. */
  Columns without(List<Attribute> attributes) {
    Columns columns = new Columns();
    columns.isPadded = isPadded;
    columns.sources.putAll(sources);
    for (Attribute attribute : attributes) columns.sources.remove(id(attribute));
    return columns;
  }

  /** The columns after grouping: the grouping columns, so that only whole groups can be missing. */
  Columns grouped(Seq<Expression> grouping, Seq<NamedExpression> named) {
    Columns groups = new Columns();
    groups.isPadded = isPadded;
    if (grouping.isEmpty()) return null;
    for (Expression one : Scala.list(grouping)) {
      if (one instanceof Attribute && sources.containsKey(id(one))) groups.sources.put(id(one), sources.get(id(one)));
    }
    return groups.projected(named);
  }

  /** The same columns under the attributes of a union instead of its child's. */
  Columns renamed(Seq<Attribute> from, Seq<Attribute> to) {
    Columns columns = new Columns();
    columns.isPadded = isPadded;
    List<Attribute> old = Scala.list(from);
    List<Attribute> now = Scala.list(to);
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

  static Object id(Object named) { return ((NamedExpression) named).exprId().id(); }
}
