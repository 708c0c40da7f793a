import java.util.Arrays;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.Function1;
import scala.PartialFunction;
import scala.collection.JavaConverters;
import scala.runtime.AbstractPartialFunction;
import SEQ;

/** What Java has to write at length of Spark's classes in Scala: collections, copies, and calls by reflection. */
public final class Scala {
  public static final Seq NONE = seqOf();

  private Scala() {}

  /** A view; to walk it takes no longer than the sequence, to index it may. */
  public static <T> List<T> list(scala.collection.Seq<? extends T> items) {
    return (List<T>) JavaConverters.seqAsJavaList(items);
  }

  public static <T> Seq<T> seq(List<T> items) { return PythonUtils.toSeq(items); }

  static <T> Seq<T> seqOf(T... items) { return seq(Arrays.asList(items)); }

  /** A node of a plan with another value in place of one of its parameters. */
  static LogicalPlan copy(LogicalPlan node, int position, Object value) {
    Object[] parameters = new Object[node.productArity()];
    for (int i = 0; i < parameters.length; i++) parameters[i] = i == position ? value : node.productElement(i);
    return (LogicalPlan) node.makeCopy(parameters);
  }

  /** A plan with another node in place of one of its nodes. */
  static LogicalPlan replace(LogicalPlan plan, LogicalPlan before, LogicalPlan after) {
    if (before == after) return plan;
    Map<LogicalPlan, LogicalPlan> others = new IdentityHashMap<>();
    others.put(before, after);
    return (LogicalPlan) plan.transformDown(replacing(others));
  }

  /** Replaces nodes of plans; others: by the nodes in whose places they come. */
  static PartialFunction replacing(final Map<LogicalPlan, LogicalPlan> others) {
    return new AbstractPartialFunction() {
      public boolean isDefinedAt(Object node) { return true; }

      public Object applyOrElse(Object node, Function1 otherwise) {
        Object other = others.get(node);
        return other == null ? node : other;
      }
    };
  }

  /** Calls the first constructor of a class; older versions of Spark do not have the last of the parameters. */
  static Object construct(Class<?> type, Object... parameters) {
    try {
      int count = type.getConstructors()[0].getParameterTypes().length;
      return type.getConstructors()[0].newInstance(Arrays.copyOf(parameters, count));
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Calls a public method without parameters of a class that may be missing. */
  static Object call(Object object, String method) throws ReflectiveOperationException {
    return object.getClass().getMethod(method).invoke(object);
  }
}
