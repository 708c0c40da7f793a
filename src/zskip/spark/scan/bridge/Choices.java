import java.util.LinkedHashMap;
import java.util.Map;

/** The latest choices of files that hold for equal questions to one index, by the text of the question; up to 1 MB. */
final class Choices {
  private static final int MOST_CHARACTERS = 1 << 20;
  private static final int ENTRY = 1000;
  /** Python forgets choices with older tickets soon (`reports.py`), and is told of a scan only when somebody asks. */
  private static volatile long stale;
  private final Map<String, Map<String, Object>> choices = new LinkedHashMap<>(16, 0.75f, true);
  private int characters;

  synchronized Map<String, Object> get(String question) {
    Map<String, Object> choice = (Map<String, Object>) choices.get(question);
    if (choice == null || ((Number) choice.get("ticket")).longValue() >= stale) return choice;
    remove(question);
    return null;
  }

  synchronized void put(String question, Map<String, Object> choice) {
    stale = Math.max(stale, ((Number) choice.get("stale")).longValue());
    if (choice.get("is_repeatable") != Boolean.TRUE) return;
    if (choices.containsKey(question)) remove(question);
    choices.put(question, choice);
    characters += size(question, choice);
    while (characters > MOST_CHARACTERS) remove((String) choices.keySet().iterator().next());
  }

  synchronized void clear() {
    choices.clear();
    characters = 0;
  }

  private void remove(String question) { characters -= size(question, (Map<String, Object>) choices.remove(question)); }

  private static int size(String question, Map<String, Object> choice) {
    return ENTRY + question.length() + choice.get("kept").toString().length();
  }
}
