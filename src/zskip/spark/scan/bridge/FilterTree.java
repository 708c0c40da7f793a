import java.time.LocalDate;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.ArrayExists;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Contains;
import org.apache.spark.sql.catalyst.expressions.EndsWith;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LambdaFunction;
import org.apache.spark.sql.catalyst.expressions.Like;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Murmur3Hash;
import org.apache.spark.sql.catalyst.expressions.NamedLambdaVariable;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.Pmod;
import org.apache.spark.sql.catalyst.expressions.PrettyAttribute;
import org.apache.spark.sql.catalyst.expressions.Remainder;
import org.apache.spark.sql.catalyst.expressions.StartsWith;
import org.apache.spark.sql.catalyst.expressions.XxHash64;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** A filter as lists that `catalyst.py` reads: known shapes with the values of literals, the rest as text. */
final class FilterTree {
  private static final int DEEPEST = 100;
  private static final int LONG = 20;
  private static final int MOST_CHARACTERS = 500;
  private static final int DEEPEST_CALL = 4;
  /** The seed of SQL's hashes. */
  private static final long SEED = 42;
  private static final List<String> OPERATORS = Arrays.asList(
    "EqualTo", "=", "LessThan", "<", "LessThanOrEqual", "<=", "GreaterThan", ">", "GreaterThanOrEqual", ">=");
  /** The key in the metadata of a field that stands for a part of a variant. */
  private static final String VARIANT = "__VARIANT_METADATA_KEY";
  /** Types to which a cast has one name in SQL, whichever version prints it. */
  private static final Set<String> CASTS = new HashSet<>(Arrays.asList(
    "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "BOOLEAN", "BINARY", "STRING", "DATE", "TIMESTAMP",
    "TIMESTAMP_NTZ"));
  /** Functions that are never read as terms, whatever their arguments. */
  private static final Set<String> NO_TERMS = new HashSet<>(Arrays.asList(
    "Divide", "IntegralDivide", "Abs", "Sqrt", "Pow", "Exp", "Log", "Coalesce", "If", "CaseWhen", "RLike",
    "RegExpReplace", "RegExpExtract", "Size", "ArrayContains"));
  /** Tests of the elements of arrays. */
  private static final Set<String> COLLECTIONS =
    new HashSet<>(Arrays.asList("ArrayContains", "ArrayExists", "ArraysOverlap"));

  /** Whether the filter has only columns, literals and functions that this class reads. */
  boolean isPlain = true;
  /** How many calls are around the expression that is read. */
  private int calls;
  private boolean isInLambda = false;
  private final ExpressionKey expressions;

  FilterTree(ExpressionKey expressions) { this.expressions = expressions; }

  Object of(Expression node) { return of(node, 0); }

  private Object of(Expression node, int depth) {
    if (depth > DEEPEST) return unknown(node);
    Class<?> kind = node.getClass();
    if (kind == And.class || kind == Or.class) {
      List<Object> parts = new ArrayList<>();
      for (Expression operand : operands(node, kind)) parts.add(of(operand, depth + 1));
      return list(kind == And.class ? "and" : "or", parts);
    }
    if (kind == Not.class) return list("not", of(child(node, 0), depth + 1));
    if (kind == IsNull.class) return keyed(node, list("null", text(node), side(child(node, 0))));
    if (kind == IsNotNull.class) {
      return keyed(node, list("not null", text(node), side(child(node, 0))));
    }
    Object leaf = leaf(node, kind);
    return keyed(node, leaf == null ? text("sql", node) : leaf);
  }

  /** A leaf and the key of its condition, if Python might not understand it. */
  private Object keyed(Expression node, Object leaf) {
    List<Object> parts = new ArrayList<>((List<?>) leaf);
    boolean isText = Arrays.asList("sql", "unknown", "like").contains(parts.get(0));
    String key = isInLambda || !isText && isSimple(node) ? null : expressions.of(node);
    if (key != null) parts.add(Collections.singletonMap("key", key));
    return parts;
  }

  /** Whether an expression is about a column itself. */
  private static boolean isSimple(Expression node) {
    List<Expression> children = Scala.list(node.children());
    for (Expression child : children) {
      if (!(child instanceof Literal) && child.getClass() != AttributeReference.class) return false;
    }
    return true;
  }

  /** A comparison, a list, a test of texts, or a boolean column; null for others. */
  private Object leaf(Expression node, Class<?> kind) {
    int operator = OPERATORS.indexOf(kind.getSimpleName());
    if (node instanceof BinaryComparison && operator >= 0) {
      Expression left = child(node, 0);
      Expression right = child(node, 1);
      if (isNoTerm(left) || isNoTerm(right)) return unknown(node);
      return list("compare", text(node), OPERATORS.get(operator + 1), side(left), side(right));
    }
    if (kind == In.class) return in(node, child(node, 0), literals((In) node));
    if (kind == InSet.class) {
      Expression value = child(node, 0);
      List<?> values = Scala.list(((InSet) node).hset().toSeq());
      return in(node, value, values(values, value.dataType()));
    }
    if (kind == StartsWith.class) return test("starts", node);
    if (kind == EndsWith.class) return test("ends", node);
    if (kind == Contains.class) return test("contains", node);
    if (kind == Like.class && child(node, 1) instanceof Literal) {
      String escape = node.productElement(2).toString(); // Spark 3.5 does not print it.
      return list("like", text(node), side(child(node, 0)), side(child(node, 1)), escape);
    }
    if (COLLECTIONS.contains(kind.getSimpleName())) return elements(node, kind.getSimpleName());
    boolean isColumn = kind == AttributeReference.class || kind == GetStructField.class || kind == Cast.class;
    return isColumn ? list("true", text(node), side(node)) : null;
  }

  /** A test of an array's elements, as an array and the test of one of them. */
  private Object elements(Expression node, String kind) {
    Expression array = child(node, 0);
    Expression other = child(node, 1);
    if (isInLambda) return unknown(node);
    if (kind.equals("ArrayExists")) {
      boolean hasNull = ((ArrayExists) node).followThreeValuedLogic();
      if (!hasNull || !(other instanceof LambdaFunction) || other.children().size() != 2) return unknown(node);
      isInLambda = true;
      Object test = of(child(other, 0));
      isInLambda = false;
      return list("exists", text(node), array(array), test);
    }
    if (kind.equals("ArrayContains")) {
      Object test = list("compare", "", "=", element(array), side(other));
      return list("exists", text(node), array(array), test);
    }
    if (array instanceof Literal) {
      array = other;
      other = child(node, 0);
    }
    List<Object> elements = listed(other);
    List<?> values = elements == null ? null : values(elements, ((ArrayType) other.dataType()).elementType());
    if (values == null) return unknown(node);
    boolean hasNull = values.removeAll(Collections.singleton(null));
    String type = type(((ArrayType) other.dataType()).elementType());
    Object test = list("in", "", element(array), type, values);
    Object overlap = list("exists", text(node), array(array), test);
    // Where there is none, a null makes it null, and so does NOT.
    return hasNull ? list("and", list(overlap, unknown(node))) : overlap;
  }

  /** The values of an array that is a literal; null for others. */
  private static List<Object> listed(Expression node) {
    Object value = node instanceof Literal ? ((Literal) node).value() : null;
    if (!(value instanceof ArrayData)) return null;
    DataType type = ((ArrayType) node.dataType()).elementType();
    return Arrays.asList(((ArrayData) value).toObjectArray(type));
  }

  /** An array without the cast of its elements. */
  private Object array(Expression node) {
    Expression array = isCastOfArray(node) ? child(node, 0) : node;
    String kind = array.getClass().getSimpleName();
    if (kind.equals("MapKeys")) return list("keys", side(child(array, 0)));
    return kind.equals("MapValues") ? list("values", side(child(array, 0))) : side(array);
  }

  private Object element(Expression array) {
    Object element = list("element");
    if (!isCastOfArray(array)) return element;
    return list("cast", element, ((ArrayType) array.dataType()).elementType().sql());
  }

  private static boolean isCastOfArray(Expression node) {
    return node.getClass() == Cast.class && node.dataType() instanceof ArrayType;
  }

  private Object test(String kind, Expression node) {
    return list(kind, text(node), side(child(node, 0)), side(child(node, 1)));
  }

  /** values: null where some are not known. */
  private Object in(Expression node, Expression value, List<?> values) {
    if (isNoTerm(value)) return unknown(node);
    if (values == null) return null;
    return list("in", text(node), side(value), type(value.dataType()), values);
  }

  private static List<Object> literals(In in) {
    DataType type = child(in, 0).dataType();
    List<Object> values = new ArrayList<>();
    for (Expression one : Scala.list(in.list())) {
      if (!(one instanceof Literal) || !((Literal) one).dataType().equals(type)) return null;
      values.add(((Literal) one).value());
    }
    return values(values, type);
  }

  /** Values of a type as JSON holds them; null where some are not known. */
  private static List<Object> values(List<?> values, DataType type) {
    if (type(type) == null) return null;
    List<Object> all = new ArrayList<>();
    for (Object item : values) {
      Object value = value(item, type);
      if (value == null && item != null) return null;
      all.add(value);
    }
    return all;
  }

  /** A term or a literal; the text of others. */
  private Object side(Expression node) {
    if (node instanceof NamedLambdaVariable) return list("element");
    if (node instanceof Literal) {
      Literal literal = (Literal) node;
      Object value = literal.value() == null ? null : value(literal.value(), literal.dataType());
      if (value != null) return list("literal", type(literal.dataType()), value);
    }
    if (node.getClass() == AttributeReference.class) return new ArrayList<>(list("column", node.sql()));
    if (node.getClass() == GetStructField.class && extraction(node) == null) {
      Object child = side(child(node, 0));
      if (((List<?>) child).get(0).equals("column")) {
        ((List<Object>) child).add(((GetStructField) node).extractFieldName());
        return child;
      }
    }
    if (node.getClass() == Cast.class) {
      String target = node.dataType().sql();
      if (CASTS.contains(target) || node.dataType() instanceof DecimalType || target.startsWith("TIME(")) {
        if (!(node.dataType() instanceof NumericType)) isPlain = false;
        boolean isLegacy = ((Cast) node).evalMode().toString().equals("LEGACY");
        return list(isLegacy ? "cast" : "strict cast", side(child(node, 0)), target);
      }
    }
    Object call = call(node);
    return call == null ? text("side", node) : call;
  }

  /** A call of a function whose arguments are known here; null for others. */
  private Object call(Expression node) {
    String name = function(node);
    if (name == null || calls == DEEPEST_CALL) return null;
    calls++;
    List<Object> sides = new ArrayList<>();
    List<Expression> children = Scala.list(node.children());
    for (Expression child : children) {
      Object side = side(child);
      if (!((List<?>) side).get(0).equals("side")) sides.add(side);
    }
    calls--;
    return sides.size() < children.size() ? null : list("call", name, sides);
  }

  private static String function(Expression node) {
    Class<?> kind = node.getClass();
    boolean isHash = kind == Murmur3Hash.class || kind == XxHash64.class;
    // The second parameter; Janino finds no `seed()`, of which the classes have several.
    if (isHash && ((Number) node.productElement(1)).longValue() != SEED) return null;
    if (isHash) return kind == Murmur3Hash.class ? "hash" : "xxhash64";
    if (!node.dataType().equals(DataTypes.IntegerType) && !node.dataType().equals(DataTypes.LongType)) return null;
    if (kind == Remainder.class) return "mod";
    return kind == Pmod.class ? "pmod" : null;
  }

  /** What is taken out of a variant, with its type, which Catalyst does not print; null for other expressions. */
  private static String extraction(Expression node) {
    String path = null;
    if (node.getClass().getSimpleName().equals("VariantGet")) path = child(node, 1).sql();
    if (node.getClass() == GetStructField.class) {
      // A scan reads the parts of a variant that a query asks for as a struct.
      StructType parts = (StructType) child(node, 0).dataType();
      Metadata metadata = parts.fields()[((GetStructField) node).ordinal()].metadata();
      if (metadata.contains(VARIANT)) {
        path = metadata.getMetadata(VARIANT).getString("path").replace("\\", "\\\\").replace("'", "\\'");
        path = "'" + path + "'";
      }
    }
    if (path == null) return null;
    String target = node.dataType().sql().toLowerCase();
    return "try_variant_get(" + typed(child(node, 0)).sql() + ", " + path + ", '" + target + "')";
  }

  /** A relation's columns, with the parts that a scan reads of a variant as the variant that they are taken out of. */
  static DataType whole(DataType type) {
    if (!(type instanceof StructType)) return type;
    StructType columns = new StructType();
    for (StructField field : ((StructType) type).fields()) {
      if (field.metadata().contains(VARIANT)) return DataType.fromJson("\"variant\"");
      columns = columns.add(field.name(), whole(field.dataType()), field.nullable(), field.metadata());
    }
    return columns.equals(type) ? type : columns;
  }

  /** The same expression, in which what is taken out of variants is printed with its type. */
  private static Expression typed(Expression node) {
    String extraction = extraction(node);
    if (extraction != null) return new PrettyAttribute(extraction, node.dataType());
    List<Expression> children = new ArrayList<>();
    boolean isSame = true;
    for (Expression child : Scala.list(node.children())) {
      Expression typed = typed(child);
      isSame &= typed == child;
      children.add(typed);
    }
    return isSame ? node : (Expression) node.withNewChildren(Scala.seq(children));
  }

  private Object text(String kind, Expression node) {
    isPlain = false;
    if (isInLambda) return list("unknown", text(node)); // Its variables have no text that is theirs alone.
    return list(kind, typed(node).sql());
  }

  private static Object unknown(Expression node) { return list("unknown", text(node)); }

  private static boolean isNoTerm(Expression node) { return NO_TERMS.contains(node.getClass().getSimpleName()); }

  /** A leaf for people, without the most of a long list. */
  private static String text(Expression node) {
    if (node.getClass() == InSet.class) {
      InSet set = (InSet) node;
      return cut(child(node, 0), Scala.list(set.hset().toSeq()));
    }
    if (node.getClass() == In.class && ((In) node).list().size() > LONG) {
      return cut(child(node, 0), Scala.list(((In) node).list()));
    }
    String text = node.sql();
    return text.length() > MOST_CHARACTERS ? text.substring(0, MOST_CHARACTERS) + "..." : text;
  }

  private static String cut(Expression value, List<?> values) {
    StringBuilder text = new StringBuilder("(").append(value.sql()).append(" IN (");
    int count = 0;
    for (Object one : values) {
      if (count == LONG) return text.append(", ...))").toString();
      Expression literal = one instanceof Expression ? (Expression) one : new Literal(one, value.dataType());
      text.append(count++ == 0 ? "" : ", ").append(literal.sql());
    }
    return text.append("))").toString();
  }

  /** The operands of a chain of one operator, without recursion, since chains may be thousands long. */
  private static List<Expression> operands(Expression node, Class<?> kind) {
    List<Expression> operands = new ArrayList<>();
    ArrayDeque<Expression> todo = new ArrayDeque<>();
    todo.push(node);
    while (!todo.isEmpty()) {
      Expression next = (Expression) todo.pop();
      if (next.getClass() == kind) {
        todo.push(child(next, 1));
        todo.push(child(next, 0));
      } else {
        operands.add(next);
      }
    }
    return operands;
  }

  /** The name of a type whose values are known here; null for others. */
  private static String type(DataType type) {
    String name = type.typeName();
    return type instanceof DecimalType || NAMES.contains(name) || name.startsWith("time(") ? name : null;
  }

  private static final Set<String> NAMES = new HashSet<>(Arrays.asList(
    "byte", "short", "integer", "long", "float", "double", "boolean", "string", "binary", "date", "timestamp",
    "timestamp_ntz", "string collate UTF8_LCASE"));

  /** A value as JSON holds it, decimals and floats as text; null where a text would be another value. */
  private static Object value(Object value, DataType type) {
    String name = type(type);
    if (value == null || name == null) return null;
    if (value instanceof byte[]) return java.util.Base64.getEncoder().encodeToString((byte[]) value);
    if (name.equals("date")) return LocalDate.ofEpochDay((Integer) value).toString();
    if (isMangled(value)) return null;
    return value instanceof Boolean || value instanceof Number && !isText(name) ? value : value.toString();
  }

  /** Whether a value is bytes that are no text: then its text has other ones. */
  static boolean isMangled(Object value) {
    return value instanceof UTF8String && !UTF8String.fromString(value.toString()).equals(value);
  }

  private static boolean isText(String name) { return name.equals("float") || name.equals("double"); }

  private static Expression child(Expression node, int i) { return (Expression) node.children().apply(i); }

  private static List<Object> list(Object... items) { return Arrays.asList(items); }
}
