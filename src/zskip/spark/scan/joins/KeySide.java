import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Range;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.logical.Window;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.storage.RDDInfo;
import scala.Option;

/**
 * The smallest part of one side of a join that gives all of its keys, and is filtered.
 *
 * It may give more keys than the side does, never fewer. It reads only files whose list is fixed with the plan, by
 * deterministic expressions, so it gives the keys that the join will see.
 */
final class KeySide {
  final LogicalPlan plan;
  final Expression key;

  private KeySide(LogicalPlan plan, Expression key) {
    this.plan = plan;
    this.key = key;
  }

  /** Null where there is no such part. */
  static KeySide of(LogicalPlan node, Expression key) { return of(node, key, true); }

  private static KeySide of(LogicalPlan node, Expression key, boolean onlyFiltered) {
    KeySide deeper = below(node, key, onlyFiltered);
    if (deeper != null) return deeper;
    LogicalPlan fixed = Columns.allowed(key) ? fixed(node) : null;
    return fixed != null && (!onlyFiltered || filtered(fixed)) ? new KeySide(fixed, key) : null;
  }

  /**
   * A part of a MERGE's source, filtered or not. Null where there is none, or where its own function computes keys:
   * Delta does not trust either that it gives the same values again.
   */
  static KeySide ofSource(LogicalPlan node, Expression key) {
    KeySide side = of(node, key);
    if (side == null) side = of(node, key, false);
    return side == null || hasFunction(side.key) || hasFunction(side.plan) ? null : side;
  }

  private static boolean hasFunction(TreeNode node) {
    if (node instanceof UserDefinedExpression) return true;
    List<TreeNode> parts = new ArrayList<>(Scala.list((scala.collection.Seq<TreeNode>) node.children()));
    if (node instanceof LogicalPlan) parts.addAll(Scala.list(((LogicalPlan) node).expressions()));
    for (TreeNode part : parts) if (hasFunction(part)) return true;
    return false;
  }

  /** The whole side, filtered or not; null where it may change. */
  static KeySide whole(LogicalPlan node, Expression key) {
    LogicalPlan fixed = Columns.allowed(key) ? fixed(node) : null;
    return fixed == null ? null : new KeySide(fixed, key);
  }

  /** Only the rows with a partner in another plan that is filtered; null where no conjunct joins the two. */
  KeySide narrowed(List<Expression> conjuncts, LogicalPlan other) {
    for (Expression conjunct : conjuncts) {
      if (!(conjunct instanceof EqualTo)) continue;
      EqualTo equal = (EqualTo) conjunct;
      boolean leftIsOurs = within(equal.left(), plan) && within(equal.right(), other);
      boolean rightIsOurs = within(equal.right(), plan) && within(equal.left(), other);
      if (leftIsOurs == rightIsOurs) continue;
      Expression ours = leftIsOurs ? equal.left() : equal.right();
      KeySide partner = Columns.allowed(ours) ? of(other, leftIsOurs ? equal.right() : equal.left()) : null;
      if (partner == null) continue;
      Option condition = Option.apply(new EqualTo(ours, partner.key));
      return new KeySide(new Join(plan, partner.plan, LeftSemi$.MODULE$, condition, JoinHint.NONE()), key);
    }
    return null;
  }

  private static boolean within(Expression expression, LogicalPlan plan) {
    return expression.references().nonEmpty() && expression.references().subsetOf(plan.outputSet());
  }

  /** The part of the node's children that gives the key. */
  private static KeySide below(LogicalPlan node, Expression key, boolean onlyFiltered) {
    if (node instanceof Filter || node instanceof Window || node instanceof Sort) {
      LogicalPlan child = (LogicalPlan) node.children().apply(0);
      return key.references().subsetOf(child.outputSet()) ? of(child, key, onlyFiltered) : null;
    }
    if (node instanceof Project) {
      Expression inner = inside(Scala.list(((Project) node).projectList()), key);
      return inner == null ? null : of(((Project) node).child(), inner, onlyFiltered);
    }
    if (node instanceof Aggregate) {
      Aggregate aggregate = (Aggregate) node;
      List by = Scala.list(aggregate.groupingExpressions());
      Expression inner = by.isEmpty() ? null : inside(Scala.list(aggregate.aggregateExpressions()), key);
      return inner != null && by.contains(inner) ? of(aggregate.child(), inner, onlyFiltered) : null;
    }
    if (!(node instanceof Join)) return null;
    Join join = (Join) node;
    String type = join.joinType().toString();
    boolean both = type.equals("Inner") || type.equals("Cross");
    boolean left = both || type.equals("LeftSemi") || type.equals("LeftAnti") || type.equals("LeftOuter");
    if (left && key.references().subsetOf(join.left().outputSet())) return of(join.left(), key, onlyFiltered);
    boolean right = both || type.equals("RightOuter");
    return right && key.references().subsetOf(join.right().outputSet()) ? of(join.right(), key, onlyFiltered) : null;
  }

  /** The expression that computes an attribute; null for other expressions, which stay above. */
  private static Expression inside(List<NamedExpression> named, Expression key) {
    if (!(key instanceof Attribute)) return null;
    for (NamedExpression one : named) {
      if (!Columns.id(one).equals(Columns.id(key))) continue;
      return one instanceof Alias ? ((Alias) one).child() : (Expression) one;
    }
    return null;
  }

  /** The same plan, or one with more rows, that gives the same rows each time; null if there is none. */
  private static LogicalPlan fixed(LogicalPlan node) {
    if (node instanceof LocalRelation || node instanceof Range || node instanceof OneRowRelation) {
      return node.isStreaming() ? null : node;
    }
    if (node instanceof LogicalRDD) {
      return !node.isStreaming() && ((LogicalRDD) node).rdd().isCheckpointed() ? node : null;
    }
    if (node instanceof LogicalRelation) return fixedFiles((LogicalRelation) node);
    if (node instanceof DataSourceV2ScanRelation) return ScanRelations.fixed((DataSourceV2ScanRelation) node);
    if (node instanceof Filter) return fixedFilter((Filter) node);
    if (node instanceof Aggregate && !isDistinct((Aggregate) node)) return null;
    if (node instanceof Join) {
      Join join = (Join) node;
      String type = join.joinType().toString();
      if (!type.equals("Inner") && !type.equals("LeftSemi")) return null;
      if (join.condition().isDefined() && !Columns.allowed((Expression) join.condition().get())) return null;
    } else if (node instanceof Project) {
      for (NamedExpression one : Scala.list(((Project) node).projectList())) {
        if (!Columns.allowed((Expression) one)) return null;
      }
    } else if (!(node instanceof Union) && !(node instanceof Aggregate)) {
      return null;
    }
    List<LogicalPlan> children = new ArrayList<>();
    for (LogicalPlan child : Scala.list(node.children())) {
      LogicalPlan fixed = fixed(child);
      if (fixed == null) return null;
      children.add(fixed);
    }
    return (LogicalPlan) node.withNewChildren(Scala.seq(children));
  }

  /** Whether an aggregate only removes duplicates. */
  private static boolean isDistinct(Aggregate aggregate) {
    List<Expression> by = Scala.list(aggregate.groupingExpressions());
    for (Expression one : by) if (!Columns.allowed(one)) return false;
    for (NamedExpression one : Scala.list(aggregate.aggregateExpressions())) {
      if (!by.contains(one instanceof Alias ? ((Alias) one).child() : one)) return false;
    }
    return !by.isEmpty();
  }

  /** Without the conjuncts that may change, so that more rows are left. */
  private static LogicalPlan fixedFilter(Filter filter) {
    LogicalPlan child = fixed(filter.child());
    if (child == null) return null;
    Expression kept = null;
    for (Expression one : ScanQuery.conjuncts(filter.condition())) {
      if (Columns.allowed(one)) kept = kept == null ? one : new And(kept, one);
    }
    return kept == null ? child : new Filter(kept, child);
  }

  private static LogicalPlan fixedFiles(LogicalRelation node) {
    BaseRelation relation = node.relation();
    if (node.isStreaming() || !(relation instanceof HadoopFsRelation)) return null;
    FileIndex location = ((HadoopFsRelation) relation).location();
    ZskipFiles index = Relations.index(node);
    if (index != null) {
      if (!index.isFixed()) return null;
      return index.query == null ? node : Relations.over(node, index.query.bare());
    }
    return ZskipFiles.isFixed(location) ? node : null;
  }

  /** Whether a plan has fewer rows than its tables. */
  private static boolean filtered(LogicalPlan node) {
    if (node instanceof LocalRelation || node instanceof LogicalRDD) return true;
    if (node instanceof Join && ((Join) node).joinType().toString().equals("LeftSemi")) return true;
    if (node instanceof Filter) {
      for (Object one : ScanQuery.conjuncts(((Filter) node).condition())) if (!(one instanceof IsNotNull)) return true;
    }
    for (LogicalPlan child : Scala.list(node.children())) if (filtered(child)) return true;
    return false;
  }

  /** Bytes of the files that the plan reads. */
  static long bytes(LogicalPlan node) {
    if (node instanceof LogicalRelation) {
      return ((HadoopFsRelation) ((LogicalRelation) node).relation()).location().sizeInBytes();
    }
    if (node instanceof LogicalRDD) return bytes(((LogicalRDD) node).rdd());
    boolean hasStats = node instanceof DataSourceV2ScanRelation || node instanceof Range;
    if (hasStats) return node.stats().sizeInBytes().longValue();
    long sum = 0;
    for (LogicalPlan child : Scala.list(node.children())) sum += bytes(child);
    return sum;
  }

  /** Bytes of a checkpoint; too many for a key query where the executors do not have it. */
  private static long bytes(RDD<?> rdd) {
    for (RDDInfo info : rdd.sparkContext().getRDDStorageInfo()) {
      if (info.id() == rdd.id()) return info.memSize() + info.diskSize();
    }
    return Long.MAX_VALUE / 8;
  }

  /**
   * Path, size, time and, on a disk, identity of each file that Spark lists for the plan: its file indexes compare
   * directories alone.
   */
  static List<Object> files(LogicalPlan node) {
    List<Object> facts = new ArrayList<>();
    for (Object leaf : Scala.list(node.collectLeaves())) {
      if (!(leaf instanceof LogicalRelation)) continue;
      FileIndex index = ((HadoopFsRelation) ((LogicalRelation) leaf).relation()).location();
      if (ZskipFiles.of(index) != null) index = ZskipFiles.of(index).files;
      if (!(index instanceof InMemoryFileIndex)) continue;
      for (FileStatus file : Scala.list(((InMemoryFileIndex) index).allFiles())) {
        facts.add(file.getPath());
        facts.add(file.getLen());
        facts.add(file.getModificationTime());
        if (DiskFile.isOnDisk(file.getPath())) facts.add(DiskFile.identity(file.getPath()));
      }
    }
    return facts;
  }

  static boolean hasJoin(LogicalPlan node) {
    if (node instanceof Join) return true;
    for (LogicalPlan child : Scala.list(node.children())) if (hasJoin(child)) return true;
    return false;
  }
}
