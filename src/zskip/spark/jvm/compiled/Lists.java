import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import scala.Option;

/** Calls methods of many objects, for one call from Python. */
public final class Lists {
  /** What each item's getters return, such as `getPath.toString`; of lists and options, what their items' do. */
  public List<Object> get(List<?> items, String getters) throws ReflectiveOperationException {
    List<Object> values = new ArrayList<>(items);
    for (String getter : getters.split("\\.")) values = each(values, getter, new HashMap<>());
    return values;
  }

  private static List<Object> each(List<?> items, String getter, Map<Class<?>, Method> methods)
      throws ReflectiveOperationException {
    List<Object> values = new ArrayList<>();
    for (Object item : items) {
      values.add(item instanceof List ? each((List<?>) item, getter, methods) : call(item, getter, methods));
    }
    return values;
  }

  private static Object call(Object item, String getter, Map<Class<?>, Method> methods)
      throws ReflectiveOperationException {
    if (item == null) return null;
    Method method = (Method) methods.get(item.getClass());
    if (method == null) {
      method = item.getClass().getMethod(getter);
      method.setAccessible(true); // Public methods of classes that are not, as Hadoop and Iceberg have them.
      methods.put(item.getClass(), method);
    }
    Object value = method.invoke(item);
    if (!(value instanceof Option)) return value;
    return ((Option<?>) value).isDefined() ? ((Option<?>) value).get() : null;
  }
}
