import org.apache.hadoop.fs.Path;

/** The path of a table, shown with what is left of it. */
final class ShownPath extends Path {
  private final String text;

  ShownPath(Path path, String text) {
    super(path.toUri());
    this.text = text + " in " + path;
  }

  public String toString() { return text; }
}
