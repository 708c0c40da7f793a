import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedLambdaVariable;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * What an expression computes of the columns of a row, as a digest that another one shares only if it computes the same.
 *
 * It is of the classes of all nodes and all their parameters, and of what else decides about values: the versions of
 * Spark, Java and time zones, and the session's settings.
 */
final class ExpressionKey {
  private static final String SPARK = "org.apache.spark.sql.catalyst.expressions.";
  /** Where parameters come from that are nothing but their own parts. */
  private static final String PLAIN = "org.apache.spark.sql.";
  /** Operators whose operands may be exchanged. */
  private static final Set<String> COMMUTATIVE = new HashSet<>(Arrays.asList(
    "And", "Or", "EqualTo", "EqualNullSafe", "Add", "Multiply", "BitwiseAnd", "BitwiseOr", "BitwiseXor"));
  /** What the names of the settings begin with that decide about values, beside the time zone. */
  private static final String[] SETTINGS = {
    "spark.sql.ansi.enabled", "spark.sql.legacy.", "spark.sql.mapKeyDedupPolicy", "spark.sql.json", "spark.sql.csv",
    "spark.sql.xml", "spark.sql.icu.", "spark.sql.collation", "spark.sql.function", "spark.sql.decimalOperations.",
    "spark.sql.variant", "spark.sql.caseSensitive"};

  private final List<Object> variables = new ArrayList<>();

  /** The key of an expression; null where it is not known what the expression computes. */
  static String of(Expression node) {
    try {
      if (!node.deterministic() || SubqueryExpression.hasSubquery(node)) return null;
      String text = environment() + new ExpressionKey().node(node);
      byte[] digest = MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
      return new BigInteger(1, Arrays.copyOf(digest, 16)).toString(16);
    } catch (Exception e) {
      return null;
    }
  }

  private static String environment() {
    List<String> parts = new ArrayList<>();
    for (Object setting : Scala.list((scala.collection.Seq) SQLConf.get().getAllConfs().toSeq())) {
      String text = setting.toString();
      for (String name : SETTINGS) if (text.startsWith("(" + name)) parts.add(quoted(text));
    }
    Collections.sort(parts);
    parts.add(quoted(org.apache.spark.package$.MODULE$.SPARK_VERSION()));
    parts.add(quoted(System.getProperty("java.version")));
    parts.add(quoted(Locale.getDefault().toString()));
    parts.add(quoted((String) java.time.zone.ZoneRulesProvider.getVersions("UTC").lastKey()));
    return parts.toString();
  }

  private String node(Expression node) {
    if (node.getClass() == AttributeReference.class) {
      return "column" + quoted(((AttributeReference) node).name()) + quoted(node.dataType().sql());
    }
    if (node instanceof NamedLambdaVariable) {
      Object id = ((NamedLambdaVariable) node).exprId();
      if (!variables.contains(id)) variables.add(id);
      return "variable" + variables.indexOf(id) + quoted(node.dataType().sql());
    }
    if (node instanceof Literal) return literal(((Literal) node).value(), node.dataType());
    String name = node.getClass().getName();
    if (!name.startsWith(SPARK)) throw new IllegalArgumentException(name);
    boolean isReversed = name.equals(SPARK + "GreaterThan") || name.equals(SPARK + "GreaterThanOrEqual");
    List<String> parts = new ArrayList<>();
    for (int i = 0; i < node.productArity(); i++) parts.add(value(node.productElement(i)));
    if (isReversed) Collections.reverse(parts);
    if (COMMUTATIVE.contains(name.substring(SPARK.length()))) Collections.sort(parts);
    return (isReversed ? name.replace("Greater", "Less") : name) + parts;
  }

  private static String literal(Object value, DataType type) {
    String name = "literal" + quoted(type.json());
    if (!(value instanceof ArrayData)) return name + new ExpressionKey().value(value);
    DataType inner = ((ArrayType) type).elementType();
    StringBuilder text = new StringBuilder(name);
    for (Object element : ((ArrayData) value).toObjectArray(inner)) text.append(literal(element, inner));
    return text.append(';').toString();
  }

  private String value(Object value) {
    if (value == null) return "null";
    if (value instanceof Expression) return node((Expression) value);
    if (value instanceof DataType) return "type" + quoted(((DataType) value).json());
    if (value instanceof UTF8String) return "text" + bytes(((UTF8String) value).getBytes());
    if (value instanceof byte[]) return "bytes" + bytes((byte[]) value);
    String name = value.getClass().getName();
    boolean isPlain = value instanceof Number || value instanceof Boolean || value instanceof Character;
    if (isPlain || value instanceof String || value instanceof Decimal || name.startsWith("scala.Enumeration$")) {
      return name + quoted(value.toString());
    }
    if (value instanceof Class) return "class" + quoted(((Class<?>) value).getName());
    if (value instanceof scala.collection.Iterable) return values((scala.collection.Iterable) value);
    boolean isProduct = name.startsWith(PLAIN) || name.startsWith("scala.Tuple") || value instanceof scala.Option;
    if (isProduct && value instanceof scala.Product) {
      List<String> parts = new ArrayList<>();
      scala.Product product = (scala.Product) value;
      for (int i = 0; i < product.productArity(); i++) parts.add(value(product.productElement(i)));
      return name + parts;
    }
    if (value instanceof AbstractDataType) return "type of " + name;
    throw new IllegalArgumentException(name);
  }

  private String values(scala.collection.Iterable values) {
    List<String> parts = new ArrayList<>();
    for (Object one : Scala.list((scala.collection.Seq) values.toSeq())) parts.add(value(one));
    // Sets and maps have no order.
    if (!(values instanceof scala.collection.Seq)) Collections.sort(parts);
    return "values" + parts;
  }

  private static String bytes(byte[] bytes) { return quoted(Base64.getEncoder().encodeToString(bytes)); }

  /** A text that no other text begins with. */
  private static String quoted(String text) { return text.length() + ":" + text; }
}
