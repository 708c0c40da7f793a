import com.fasterxml.jackson.databind.ObjectMapper;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.function.BiFunction;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Function1;
import scala.collection.JavaConverters;

/**
 * Evaluates conditions, by Spark's own code, in files where each of their columns has one value.
 *
 * `apply(conditions, null)` tells of each condition the name and the type of each column; null for one that only
 * running the query decides. `apply(conditions, rows)` tells of each condition and each of its rows whether it is true
 * (t), false (f), null (n), or cannot be told (?). Rows are lists of texts, in the order of the columns, as JSON.
 */
public final class Constants implements BiFunction {
  public Object apply(Object conditions, Object text) {
    List all = (List) conditions;
    List answers = new ArrayList();
    try {
      List rows = text == null ? null : (List) new ObjectMapper().readValue((String) text, List.class);
      for (int i = 0; i < all.size(); i++) {
        Expression condition = (Expression) all.get(i);
        answers.add(rows == null ? columns(condition) : outcomes(condition, (List) rows.get(i)));
      }
      return new ObjectMapper().writeValueAsString(answers);
    } catch (Exception e) {
      throw new IllegalStateException(e);
    }
  }

  private static List references(Expression condition) {
    return JavaConverters.seqAsJavaList(condition.references().toSeq());
  }

  private static Object columns(Expression condition) {
    if (!condition.deterministic() || SubqueryExpression.hasSubquery(condition)) return null;
    List answers = new ArrayList();
    List references = references(condition);
    for (int i = 0; i < references.size(); i++) {
      Attribute column = (Attribute) references.get(i);
      List one = new ArrayList();
      one.add(column.name());
      one.add(column.dataType().typeName());
      answers.add(one);
    }
    return answers;
  }

  private static String outcomes(Expression condition, List rows) {
    if (rows == null) return null;
    List references = references(condition);
    Expression bound = (Expression) condition.transformUp(new Bound(references));
    StringBuilder letters = new StringBuilder();
    for (int i = 0; i < rows.size(); i++) letters.append(outcome(bound, references, (List) rows.get(i)));
    return letters.toString();
  }

  private static char outcome(Expression bound, List references, List texts) {
    try {
      Object[] values = new Object[texts.size()];
      for (int i = 0; i < values.length; i++) {
        values[i] = value((String) texts.get(i), ((Attribute) references.get(i)).dataType());
      }
      Object truth = bound.eval((InternalRow) new GenericInternalRow(values));
      return truth == null ? 'n' : ((Boolean) truth).booleanValue() ? 't' : 'f';
    } catch (Exception e) {
      return '?';
    } catch (LinkageError e) {
      return '?';
    }
  }

  /** A value as Spark holds it; numbers, days and microseconds are written as numbers, binary in base 64. */
  private static Object value(String text, DataType type) {
    if (text == null) return null;
    String name = type.typeName();
    if (name.equals("boolean")) return Boolean.valueOf(text);
    if (name.equals("byte")) return Byte.valueOf(text);
    if (name.equals("short")) return Short.valueOf(text);
    if (name.equals("integer") || name.equals("date")) return Integer.valueOf(text);
    if (name.equals("long") || name.startsWith("timestamp")) return Long.valueOf(text);
    if (name.equals("float")) return Float.valueOf(text);
    if (name.equals("double")) return Double.valueOf(text);
    if (name.equals("string")) return UTF8String.fromString(text);
    if (name.equals("binary")) return Base64.getDecoder().decode(text);
    DecimalType decimal = (DecimalType) type;
    return Decimal.apply(new BigDecimal(text), decimal.precision(), decimal.scale());
  }

  /** Columns as places in a row. */
  static final class Bound extends scala.runtime.AbstractPartialFunction {
    private final List references;

    Bound(List references) { this.references = references; }

    public boolean isDefinedAt(Object node) { return node instanceof AttributeReference; }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!(node instanceof AttributeReference)) return otherwise.apply(node);
      AttributeReference column = (AttributeReference) node;
      for (int i = 0; i < references.size(); i++) {
        boolean same = ((Attribute) references.get(i)).exprId().equals(column.exprId());
        if (same) return new BoundReference(i, column.dataType(), true);
      }
      throw new IllegalStateException("no column " + column);
    }
  }
}
