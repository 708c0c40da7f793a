import java.util.concurrent.CompletionException;
import java.util.concurrent.Executor;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BiConsumer;

/** Something in Python that answers questions, asked from a few threads (`callbacks.py` says why). */
final class Python {
  private final BiConsumer answer;
  private final Executor threads;

  Python(BiConsumer answer, Executor threads) {
    this.answer = answer;
    this.threads = threads;
  }

  /** Asks a question; filters and plain values are sent as text, other values stay here until Python gets them. */
  Object ask(String question, Object[] arguments) {
    String text = Json.question(question, arguments);
    AtomicReference box = new AtomicReference(arguments);
    boolean isLong = text.length() > Json.LONGEST;
    if (isLong) box.set(new Object[] {new StringBuilder(text), arguments});
    FutureTask task = new FutureTask(new Call(answer, box, isLong ? "" : text), null);
    threads.execute(task);
    try {
      task.get();
    } catch (Exception e) {
      throw new CompletionException(e.getCause() == null ? e : e.getCause());
    }
    return box.get();
  }

  /** One question, in the thread that asks it. */
  static final class Call implements Runnable {
    private final BiConsumer answer;
    private final AtomicReference box;
    private final String text;

    Call(BiConsumer answer, AtomicReference box, String text) {
      this.answer = answer;
      this.box = box;
      this.text = text;
    }

    public void run() { answer.accept(box, text); }
  }
}
