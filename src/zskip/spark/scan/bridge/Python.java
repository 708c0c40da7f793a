import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Executor;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BiFunction;

/** Something in Python that answers questions, asked from a few threads (`callbacks.py` says why). */
final class Python {
  private final BiFunction answer;
  private final Executor threads;
  private final Choices choices = new Choices();

  Python(BiFunction answer, Executor threads) {
    this.answer = answer;
    this.threads = threads;
  }

  /** Asks which files a query reads, unless an equal question was answered; null where that is not known. */
  Map choose(String question, Object[] arguments) {
    String text = Json.question(question, arguments);
    Map choice = choices.get(text);
    if (choice != null) return choice;
    String answered = (String) send(text, arguments);
    if (answered == null) return null;
    choice = Json.read(answered);
    choices.put(text, choice);
    return choice;
  }

  /** Asks a question; filters and plain values are sent as text, other values stay here until Python gets them. */
  Object ask(String question, Object[] arguments) { return send(Json.question(question, arguments), arguments); }

  private Object send(String text, Object[] arguments) {
    AtomicReference box = new AtomicReference(arguments);
    boolean isLong = Json.isLong(text);
    if (isLong) box.set(new Object[] {new StringBuilder(text), arguments});
    FutureTask task = new FutureTask(new Call(answer, box, isLong ? "" : text));
    threads.execute(task);
    try {
      Object plain = task.get();
      return Boolean.TRUE.equals(plain) ? box.get() : plain;
    } catch (Exception e) {
      throw new CompletionException(e.getCause() == null ? e : e.getCause());
    }
  }

  /** One question, in the thread that asks it. */
  static final class Call implements Callable {
    private final BiFunction answer;
    private final AtomicReference box;
    private final String text;

    Call(BiFunction answer, AtomicReference box, String text) {
      this.answer = answer;
      this.box = box;
      this.text = text;
    }

    public Object call() { return answer.apply(box, text); }
  }
}
