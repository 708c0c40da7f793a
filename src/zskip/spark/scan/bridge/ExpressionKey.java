import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.zone.ZoneRulesProvider;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.NamedLambdaVariable;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * What an expression computes of the columns of a row, as a digest that another one shares only if it computes the same.
 *
 * It is of the classes of all nodes and all their parameters, and of what else decides about values: the versions of
 * Spark, Java and time zones, and the session's settings.
 */
final class ExpressionKey {
  /** The package whose classes are nothing but their parameters. */
  private static final String SPARK = "org.apache.spark.sql.catalyst.";
  /** Operators whose operands may be exchanged. */
  private static final Set<String> COMMUTATIVE = new HashSet<>(Arrays.asList(
    "And", "Or", "EqualTo", "EqualNullSafe", "Add", "Multiply", "BitwiseAnd", "BitwiseOr", "BitwiseXor"));
  /** The settings that decide about values, beside the time zone. */
  private static final Pattern SETTINGS = Pattern.compile(
    "\\(spark\\.sql\\.(legacy|mapKey|json|csv|xml|icu|collation|function|decimal|variant|case|columnNameOf|binary)");
  private static final Pattern OF_FUNCTIONS = Pattern.compile("\\(spark\\.sql\\.execution\\.(python|pandas|pyspark)");
  private static final Pattern MOMENT = Pattern.compile("\"timestamp(?!_ntz)");
  private static final SQLConf DEFAULTS = new SQLConf();

  /** The Python functions in the latest expression, as they are sent to workers; its key knows their order alone. */
  final List<String> functions = new ArrayList<>();
  private final List<Object> variables = new ArrayList<>();
  /** Of the session; null until a key is asked for. */
  private String environment;

  /** The key of an expression; null where it is not known what the expression computes, or a Python function does. */
  String of(Expression node) {
    String key = withFunctions(node);
    return functions.isEmpty() ? key : null;
  }

  /** The key of an expression, which says all only together with its functions. */
  String withFunctions(Expression node) {
    functions.clear();
    try {
      if (!node.deterministic() || SubqueryExpression.hasSubquery(node)) return null;
      if (environment == null) environment = environment();
      variables.clear();
      String text = environment + text(node);
      byte[] digest = MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
      return new BigInteger(1, Arrays.copyOf(digest, 16)).toString(16);
    } catch (Exception e) {
      return null;
    }
  }

  private static String environment() {
    List<String> parts = settings(SETTINGS);
    // Whose default is a variable of the process.
    parts.add(quoted(SQLConf.get().ansiEnabled()));
    parts.add(quoted(org.apache.spark.package$.MODULE$.SPARK_VERSION()));
    parts.add(quoted(System.getProperty("java.version")) + quoted(Locale.getDefault()));
    return parts + quoted(ZoneRulesProvider.getVersions("UTC").lastKey());
  }

  /** Those that a pattern names and that have another value than by default. */
  private static List<String> settings(Pattern names) {
    List<String> parts = new ArrayList<>();
    for (Object setting : Scala.list((scala.collection.Seq) SQLConf.get().getAllConfs().toSeq())) {
      if (names.matcher(setting.toString()).lookingAt() && !isDefault((scala.Tuple2) setting)) {
        parts.add(quoted(setting));
      }
    }
    Collections.sort(parts);
    return parts;
  }

  private static boolean isDefault(scala.Tuple2 setting) {
    try {
      return DEFAULTS.getConfString((String) setting._1()).equals(setting._2());
    } catch (Exception e) {
      return false; // Spark does not know it.
    }
  }

  /** A node or one of its parameters, as a text that no other one has. */
  private String text(Object value) {
    if (value == null) return "null";
    String name = value.getClass().getName();
    if (value instanceof AttributeReference || value instanceof GetStructField) {
      return column((Expression) value) + quoted(((Expression) value).dataType().sql());
    }
    if (value instanceof NamedLambdaVariable) {
      Object id = ((NamedLambdaVariable) value).exprId();
      if (!variables.contains(id)) variables.add(id);
      return "variable" + variables.indexOf(id) + quoted(((Expression) value).dataType().sql());
    }
    if (value instanceof PythonUDF) return text((PythonUDF) value);
    if (value instanceof DataType) return "type" + quoted(((DataType) value).json());
    if (value instanceof UTF8String) return text(((UTF8String) value).getBytes());
    if (value instanceof byte[]) return "bytes" + quoted(Base64.getEncoder().encodeToString((byte[]) value));
    if (value instanceof Class && ((Class<?>) value).getName().startsWith(SPARK)) return quoted(value);
    if (value instanceof scala.collection.Iterable) return "values" + parts((scala.collection.Iterable) value);
    boolean isPlain = name.startsWith(SPARK) || name.startsWith("scala.Tuple") || value instanceof scala.Option;
    if (isPlain && value instanceof scala.Product) {
      scala.Product product = (scala.Product) value;
      List<String> parts = new ArrayList<>();
      for (int i = 0; i < product.productArity(); i++) parts.add(text(product.productElement(i)));
      String kind = name.substring(name.lastIndexOf('.') + 1);
      if (kind.startsWith("GreaterThan")) Collections.reverse(parts);
      if (COMMUTATIVE.contains(kind)) Collections.sort(parts);
      return name.replace("GreaterThan", "LessThan") + parts;
    }
    if (name.startsWith("java.lang.") || name.startsWith("scala.Enumeration$") || name.endsWith(".Decimal")) {
      if (!(value instanceof Class)) return name + quoted(value);
    }
    if (value instanceof AbstractDataType) return quoted(name);
    throw new IllegalArgumentException(name);
  }

  private String text(PythonUDF call) {
    if (!isByRows(call)) throw new IllegalArgumentException(call.name());
    List<Object> pickled = Scala.list((scala.collection.Seq) call.func().command());
    byte[] bytes = new byte[pickled.size()];
    int i = 0;
    for (Object one : pickled) bytes[i++] = ((Byte) one).byteValue();
    String function = Base64.getEncoder().encodeToString(bytes);
    if (!functions.contains(function)) functions.add(function);
    String type = text(call.dataType()) + call.evalType() + settings(OF_FUNCTIONS);
    return "function" + functions.indexOf(function) + type + parts(call.children());
  }

  /** Whether a function is called for each row, and not for batches of them, with values that are alike everywhere. */
  static boolean isByRows(PythonUDF call) {
    // To Python, a moment is a time by the clock of the machine.
    boolean hasMoment = MOMENT.matcher(call.dataType().json()).find();
    for (Expression one : Scala.list(call.children())) hasMoment |= MOMENT.matcher(one.dataType().json()).find();
    return !hasMoment && (call.evalType() == 100 || call.evalType() == 101);
  }

  /** The name of a column, or of a field inside it. */
  private String column(Expression node) {
    if (node instanceof AttributeReference) return "column" + quoted(((AttributeReference) node).name());
    Expression outer = (Expression) node.children().apply(0);
    String field = "field" + quoted(((GetStructField) node).extractFieldName());
    boolean isColumn = outer instanceof GetStructField || outer instanceof AttributeReference;
    return field + (isColumn ? column(outer) : text(outer));
  }

  private List<String> parts(scala.collection.Iterable values) {
    List<String> parts = new ArrayList<>();
    for (Object one : Scala.list((scala.collection.Seq) values.toSeq())) parts.add(text(one));
    // Sets and maps have no order.
    if (!(values instanceof scala.collection.Seq)) Collections.sort(parts);
    return parts;
  }

  /** A text that no other text begins with. */
  private static String quoted(Object value) { return value.toString().length() + ":" + value; }
}
