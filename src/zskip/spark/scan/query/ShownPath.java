import org.apache.hadoop.fs.Path;

/** The path of a table, which plans show with the files that are left. */
final class ShownPath extends Path {
  private final String text;

  ShownPath(Path path, String text) {
    super(path.toUri());
    this.text = text + " in " + path;
  }

  public String toString() { return text; }
}
