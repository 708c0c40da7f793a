import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.DynamicPruning;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import SEQ;

/** Finds the joins above each relation of ours that drop its rows without a partner. */
final class JoinSearch {
  private final JoinSettings settings;
  private final List<LogicalPlan> path = new ArrayList<>();
  /** Joins whose other side has no filter of its own; a join further up may filter it, as a dimension's dimension. */
  private List<Object[]> pending;
  /** Above a shuffle that Spark may share between joins: broadcasts that differ would keep it from that. */
  private boolean isAboveGroups;
  /** Whether a statement may change the relation's rows: its source prunes them whether it is filtered or not. */
  private boolean isChanged;
  /** Whether its keys are asked for whatever that saves: the workload of the relation that it changes is recorded. */
  private boolean isRecorded;
  /** Whether a MERGE of Delta's finds the files that it changes; later, it reads only files that have matches. */
  private boolean isMergeSearch;
  /** Files that dynamic partition pruning reads, too: if they were pruned here alone, Spark could not share them. */
  private final List<Object> inPruning = new ArrayList<>();
  /** From a relation to its joins. */
  private final Map<LogicalPlan, JoinCandidates> found = new IdentityHashMap<>();
  /** From a relation to its replacement. */
  private final Map<LogicalPlan, LogicalPlan> others = new IdentityHashMap<>();
  /** By files and column, the share of the bytes that one key leaves. */
  private final Map<Object, Object> shares = new HashMap<>();

  private JoinSearch(JoinSettings settings) { this.settings = settings; }

  static LogicalPlan apply(LogicalPlan plan, JoinSettings settings) {
    JoinSearch search = new JoinSearch(settings);
    search.findPruning(plan);
    search.visit(plan);
    search.replace();
    return search.others.isEmpty() ? plan : (LogicalPlan) plan.transformDown(Scala.replacing(search.others));
  }

  /** The plan of a key query, whose own scans of Iceberg's get the keys of its broadcasts. */
  static LogicalPlan ofKeys(LogicalPlan plan) {
    JoinSearch search = new JoinSearch(new JoinSettings());
    search.visit(plan);
    for (JoinCandidates joins : search.found.values()) joins.used.clear();
    search.replace();
    return search.others.isEmpty() ? plan : (LogicalPlan) plan.transformDown(Scala.replacing(search.others));
  }

  private void findPruning(LogicalPlan node) {
    if (node instanceof Filter) {
      for (Object one : ScanQuery.conjuncts(((Filter) node).condition())) {
        if (!(one instanceof DynamicPruningSubquery)) continue;
        addFiles((LogicalPlan) ((DynamicPruningSubquery) one).buildQuery());
      }
    }
    for (LogicalPlan child : Scala.list(node.children())) findPruning(child);
  }

  private void addFiles(LogicalPlan buildQuery) {
    for (LogicalPlan leaf : Scala.list(buildQuery.collectLeaves())) {
      ZskipFiles index = Relations.index(leaf);
      PrunedScan scan = ScanRelations.scan(leaf);
      if (index != null) inPruning.add(index.files);
      if (scan != null) inPruning.add(scan.iceberg().scan);
    }
  }

  private void visit(LogicalPlan node) {
    JoinTarget target = JoinTarget.of(node);
    if (target != null) {
      // One object at two positions has two paths to the root.
      found.put(node, found.containsKey(node) ? new JoinCandidates() : candidates(node, target));
    }
    path.add(node);
    for (LogicalPlan child : Scala.list(node.children())) visit(child);
    path.remove(path.size() - 1);
  }

  private void replace() {
    for (LogicalPlan node : found.keySet()) {
      JoinTarget target = JoinTarget.of(node);
      boolean isAlone = !inPruning.contains(target.files);
      JoinCandidates joins = isAlone ? (JoinCandidates) found.get(node) : new JoinCandidates();
      others.put(node, Merge.filtered(target.with(joins), joins.ranges));
    }
  }

  private JoinCandidates candidates(LogicalPlan relation, JoinTarget target) {
    JoinCandidates candidates = new JoinCandidates();
    pending = new ArrayList<>();
    isAboveGroups = false;
    isMergeSearch = false;
    LogicalPlan root = (LogicalPlan) (path.isEmpty() ? relation : path.get(0));
    if (target.isStuckIn(root)) return candidates;
    isChanged = target.isChangedBy(root);
    isRecorded = isChanged && target.isRecorded();
    Columns columns = Columns.of(relation.output());
    LogicalPlan below = relation;
    for (int i = path.size() - 1; i >= 0 && columns != null; i--) {
      LogicalPlan node = (LogicalPlan) path.get(i);
      if (node instanceof Join) columns = joined((Join) node, below, columns, candidates, target);
      else columns = after(node, below, columns, target);
      // Above a union the first branch's attributes stand for all branches, but the pending joins are below one.
      if (node instanceof Union) pending.clear();
      isAboveGroups |= node instanceof Aggregate;
      below = node;
    }
    return candidates;
  }

  /** The columns above a node; null if the node does not work by rows or whole groups. */
  private Columns after(LogicalPlan node, LogicalPlan below, Columns columns, JoinTarget target) {
    if (node instanceof Filter) {
      Expression condition = ((Filter) node).condition();
      return condition.deterministic() ? columns.without(pruned(condition)) : null;
    }
    if (node instanceof Project) {
      Seq<NamedExpression> named = ((Project) node).projectList();
      if (!isChanged) return columns.projected(named);
      Seq<NamedExpression> others = Merge.withoutAdded(named);
      isMergeSearch |= others.size() < named.size();
      return columns.projected(others);
    }
    if (node instanceof Union) return columns.renamed(below.output(), node.output());
    if (node instanceof Sort) return columns;
    if (!(node instanceof Aggregate)) return null;
    return columns.grouped(((Aggregate) node).groupingExpressions(), ((Aggregate) node).aggregateExpressions());
  }

  /** The columns that Spark's own dynamic partition pruning handles. */
  private static List<Attribute> pruned(Expression condition) {
    List<Attribute> columns = new ArrayList<>();
    for (Expression one : ScanQuery.conjuncts(condition)) {
      if (one instanceof DynamicPruning) columns.addAll(Scala.list(one.references().toSeq()));
    }
    return columns;
  }

  private Columns joined(Join join, LogicalPlan below, Columns columns, JoinCandidates candidates, JoinTarget target) {
    boolean left = join.left() == below;
    if (left == (join.right() == below)) return null;
    String type = join.joinType().toString();
    boolean inner = type.equals("Inner") || type.equals("Cross");
    boolean isPadded = type.equals(left ? "RightOuter" : "LeftOuter");
    boolean droppable = inner || type.equals("LeftSemi") || isPadded
      || !left && (type.equals("LeftAnti") || type.startsWith("ExistenceJoin"));
    boolean goesOn = inner || type.equals("LeftOuter") || type.equals("RightOuter")
      || left && (type.equals("LeftSemi") || type.equals("LeftAnti") || type.startsWith("ExistenceJoin"));
    if (join.condition().isDefined()) {
      Expression condition = (Expression) join.condition().get();
      if (!condition.deterministic()) return null;
      LogicalPlan other = (LogicalPlan) (left ? join.right() : join.left());
      isMergeSearch |= target.isMerge() && type.equals("LeftAnti");
      if (droppable || isMergeSearch || isChanged && !target.isMerge()) {
        List<Expression> conjuncts = ScanQuery.conjuncts(condition);
        if (inner) narrow(conjuncts, other, candidates, target);
        String whyNot = droppable ? "" : "rows without a match are changed, too";
        consider(conjuncts, other, columns, candidates, target, whyNot);
        boolean isAsked = droppable && target.takesBroadcasts() && !isAboveGroups;
        if (isAsked && RuntimeKeys.consider(join, left, columns, candidates, target)) addFiles(other);
      }
    }
    if (!inner) pending.clear();
    if (!goesOn) return null;
    return isPadded ? columns.padded() : columns;
  }

  /** whyNot: why no row may be dropped; empty if rows may. */
  private void consider(List<Expression> conjuncts, LogicalPlan other, Columns columns, JoinCandidates candidates,
      JoinTarget target, String whyNot) {
    for (Expression conjunct : conjuncts) {
      if (!(conjunct instanceof EqualTo)) continue;
      EqualTo equal = (EqualTo) conjunct;
      String column = columns.key(equal.left());
      Expression key = equal.right();
      if (column == null) {
        column = columns.key(equal.right());
        key = equal.left();
      }
      boolean known = column != null
        && KeyValues.supports(key.dataType())
        && key.references().nonEmpty()
        && key.references().subsetOf(other.outputSet());
      if (!known) continue;
      KeySide side = isChanged ? KeySide.ofSource(other, key) : KeySide.of(other, key);
      KeySide whole = side == null && !isChanged ? KeySide.whole(other, key) : null;
      if (side != null && target.isMerge() && !isMergeSearch) {
        Expression ours = key == equal.right() ? equal.left() : equal.right();
        addRange(columns.over(ours), column, side, candidates, target);
      } else if (side != null) add(column, TableNames.of(side.plan, side.key), side, candidates, target, whyNot);
      else if (whole != null) pending.add(new Object[] {column, whole});
    }
  }

  private void add(
      String column, String name, KeySide side, JoinCandidates candidates, JoinTarget target, String whyNot) {
    long bytes = KeySide.bytes(side.plan);
    String reason = whyNot.isEmpty() && !isRecorded ? settings.whyNot(target.bytes, bytes) : whyNot;
    // Decided with the plan: a scan that may be pruned by its own keys is not shared with others.
    if (reason.isEmpty() && !isRecorded && !settings.whyNot(saved(target, column), bytes).isEmpty()) {
      reason = "most files span most of " + (Columns.isExpression(column) ? "the expression" : column);
    }
    candidates.add(new JoinCandidate(column, name, side, reason));
  }

  /** For a MERGE that reads the files with matches again: leaves out the row groups and pages without any. */
  private void addRange(
      Expression ours, String column, KeySide side, JoinCandidates candidates, JoinTarget target) {
    boolean isColumn = ours instanceof Attribute && ours.dataType().equals(side.key.dataType());
    if (!isColumn || !settings.whyNot(target.bytes, KeySide.bytes(side.plan)).isEmpty()) return;
    JoinCandidate join = new JoinCandidate(column, TableNames.of(side.plan, side.key), side, "");
    KeyValues values = KeyQuery.ask(join, settings.most(target.bytes), settings.seconds).values;
    Expression range = values == null ? null : Merge.within(ours, values);
    if (range != null && !Merge.isFilter(path.get(path.size() - 1), range)) candidates.ranges.add(range);
  }

  /** Bytes of a scan that one key of a column leaves out, on average. */
  private long saved(JoinTarget target, String column) {
    if (settings.always) return target.bytes;
    Object key = Arrays.asList(target.files, column);
    if (!shares.containsKey(key)) shares.put(key, target.share(column));
    Number share = (Number) shares.get(key);
    return share == null ? 0 : (long) (target.bytes * (1 - share.doubleValue()));
  }

  /** Filters pending sides by the tables that are joined to them here. */
  private void narrow(List<Expression> conjuncts, LogicalPlan other, JoinCandidates candidates, JoinTarget target) {
    for (int i = 0; i < pending.size(); i++) {
      Object[] one = (Object[]) pending.get(i);
      KeySide narrower = ((KeySide) one[1]).narrowed(conjuncts, other);
      if (narrower == null) continue;
      pending.set(i, new Object[] {one[0], narrower});
      // A broadcast of that table holds other keys, so the name differs.
      String name = TableNames.of(((KeySide) one[1]).plan, narrower.key) + ", filtered by " + TableNames.first(other);
      add((String) one[0], name, narrower, candidates, target, "");
    }
  }
}
