/** The user canceled a query while it asked for the keys of a join: no fault, and nothing to go on with. */
final class Canceled extends Error {
  private Canceled(Throwable why) { super(why.getMessage(), why); }

  /** Ends the query where that is what happened. */
  static void check(Throwable fault) {
    for (Throwable one = fault; one != null; one = one.getCause()) {
      boolean ofSpark = one instanceof org.apache.spark.SparkException;
      if (ofSpark && String.valueOf(one.getMessage()).indexOf(" cancelled") >= 0) throw new Canceled(one);
    }
  }
}
