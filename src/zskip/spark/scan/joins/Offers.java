import java.util.ArrayList;
import java.util.List;

/** The joins of one scan: those that are used are its note and make scans unequal, the others only say why not. */
final class Offers {
  final List used = new ArrayList();
  final List unused = new ArrayList();

  void add(Offer offer) {
    List all = offer.reason.isEmpty() ? used : unused;
    if (!all.contains(offer)) all.add(offer);
  }

  public int hashCode() { return used.size(); }

  public boolean equals(Object other) {
    return this == other || other instanceof Offers && used.equals(((Offers) other).used);
  }
}
