import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.KnownFloatingPointNormalized;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import scala.collection.JavaConverters;
import SEQ;

/** The columns of a relation that the attributes of a plan above it hold, row by row. */
final class Columns {
  /** From the id of an attribute to the name of a column. */
  private final Map names = new HashMap();

  /** The columns of a relation itself. */
  static Columns of(Seq output) {
    Columns columns = new Columns();
    List attributes = list(output);
    for (int i = 0; i < attributes.size(); i++) {
      columns.names.put(id(attributes.get(i)), ((Attribute) attributes.get(i)).name());
    }
    return columns;
  }

  /** The column of an expression, possibly cast to a type that holds all of its values; null if it is no column. */
  String column(Expression expression) {
    if (expression instanceof Attribute) return (String) names.get(id(expression));
    if (expression instanceof Cast) {
      Expression child = ((Cast) expression).child();
      return exact(child.dataType(), expression.dataType()) ? column(child) : null;
    }
    boolean same = expression instanceof Alias
      || expression instanceof KnownFloatingPointNormalized
      || expression instanceof NormalizeNaNAndZero;
    return same ? column((Expression) list(expression.children()).get(0)) : null;
  }

  /** The columns after a projection; null if the projection is not deterministic. */
  Columns projected(Seq named) {
    Columns columns = new Columns();
    List all = list(named);
    for (int i = 0; i < all.size(); i++) {
      Expression one = (Expression) all.get(i);
      if (!one.deterministic()) return null;
      String column = column(one);
      if (column != null) columns.names.put(id(one), column);
    }
    return columns;
  }

  /** Without some attributes. */
  Columns without(List attributes) {
    Columns columns = new Columns();
    columns.names.putAll(names);
    for (int i = 0; i < attributes.size(); i++) columns.names.remove(id(attributes.get(i)));
    return columns;
  }

  /** The columns after grouping: the grouping columns, so that only whole groups can be missing. */
  Columns grouped(Seq grouping, Seq named) {
    Columns groups = new Columns();
    List by = list(grouping);
    if (by.isEmpty()) return null;
    for (int i = 0; i < by.size(); i++) {
      Object one = by.get(i);
      if (one instanceof Attribute && names.containsKey(id(one))) groups.names.put(id(one), names.get(id(one)));
    }
    return groups.projected(named);
  }

  /** The same columns under the attributes of a union instead of its child's. */
  Columns renamed(Seq from, Seq to) {
    Columns columns = new Columns();
    List old = list(from);
    List now = list(to);
    for (int i = 0; i < old.size(); i++) {
      Object name = names.get(id(old.get(i)));
      if (name != null) columns.names.put(id(now.get(i)), name);
    }
    return columns;
  }

  /** Whether a cast keeps all different values different and never fails. */
  static boolean exact(DataType from, DataType to) {
    if (from.equals(to)) return true;
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
