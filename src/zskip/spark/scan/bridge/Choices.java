import java.util.LinkedHashMap;
import java.util.Map;

/** The latest choices of files that hold for equal questions to one index, by the text of the question. */
final class Choices {
  private static final int MOST = 256;
  private static final int MOST_CHARACTERS = 1 << 20;
  /** Python forgets a choice after 1,000 more (`reports.py`), and is told of a scan only when somebody asks. */
  private static final long MOST_TICKETS = 500;
  /** Of any index. */
  private static volatile long newestTicket;
  private final LinkedHashMap choices = new LinkedHashMap(16, 0.75f, true);
  private int characters;

  synchronized Map get(String question) {
    Map choice = (Map) choices.get(question);
    if (choice == null || newestTicket - ticket(choice) < MOST_TICKETS) return choice;
    remove(question);
    return null;
  }

  synchronized void put(String question, Map choice) {
    newestTicket = Math.max(newestTicket, ticket(choice));
    if (choice.get("is_repeatable") != Boolean.TRUE || question.length() > MOST_CHARACTERS) return;
    if (choices.put(question, choice) == null) characters += question.length();
    while (choices.size() > MOST || characters > MOST_CHARACTERS) remove((String) choices.keySet().iterator().next());
  }

  private void remove(String question) {
    choices.remove(question);
    characters -= question.length();
  }

  private static long ticket(Map choice) { return ((Number) choice.get("ticket")).longValue(); }
}
