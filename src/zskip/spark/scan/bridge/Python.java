import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Base64;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BiFunction;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.unsafe.Platform;

/** Something in Python that answers questions, asked from a few threads (`callbacks.py` says why). */
public final class Python {
  private final BiFunction<Object, Object, Object> answer;
  private final Executor threads;
  private final byte[] secret;
  private final Choices choices = new Choices();

  /** secret: signs each question, since any local process reaches the port on which Python listens. */
  public Python(BiFunction<Object, Object, Object> answer, Executor threads, String secret) {
    this.answer = answer;
    this.threads = threads;
    this.secret = secret.getBytes(StandardCharsets.US_ASCII);
  }

  /** Asks which files a query reads, unless an equal question was answered; null where that is not known. */
  Map<String, Object> choose(String question, Object... arguments) {
    String text = Json.question(question, arguments);
    Map<String, Object> choice = choices.get(text);
    if (choice != null) return choice;
    String answered = (String) send(text, arguments);
    if (answered == null) return null;
    choice = Json.read(answered);
    choices.put(text, choice);
    return choice;
  }

  /** Has questions answered anew. */
  void forget() { choices.clear(); }

  /** Asks a question; filters and plain values are sent as text, other values stay here until Python gets them. */
  Object ask(String question, Object... arguments) { return send(Json.question(question, arguments), arguments); }

  private Object send(String text, Object[] arguments) {
    boolean isLong = Json.isLong(text);
    Object content = isLong ? new Object[] {new StringBuilder(text), arguments} : arguments;
    final AtomicReference<Object> box = new AtomicReference<>(content);
    final String signed = signed(isLong ? "\n" + System.nanoTime() : text);
    FutureTask<Object> task = new FutureTask<>(new Callable<Object>() {
      public Object call() {
        try {
          return answer.apply(box, signed);
        } finally {
          // Threads inherit a session, or Python sets one: they live on, and would keep it alive.
          SparkSession.clearActiveSession();
        }
      }
    });
    threads.execute(task);
    try {
      Object plain = task.get();
      return Boolean.TRUE.equals(plain) ? box.get() : plain;
    } catch (InterruptedException e) {
      task.cancel(false);
      Platform.throwException(e);
      return null;
    } catch (ExecutionException e) {
      throw new CompletionException(e.getCause());
    }
  }

  /** A text after its signature: py4j puts a text that it cannot send into logs, where the secret must not appear. */
  private String signed(String text) {
    try {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      digest.update(secret);
      byte[] inner = digest.digest(text.getBytes(StandardCharsets.UTF_8));
      digest.update(secret);
      return Base64.getEncoder().encodeToString(digest.digest(inner)) + text;
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
  }
}
