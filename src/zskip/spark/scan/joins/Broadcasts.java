import java.util.ArrayList;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.DynamicPruning;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.execution.ColumnarToRowExec;
import org.apache.spark.sql.execution.CommandResultExec;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.UnionExec;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec;
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec;
import org.apache.spark.sql.execution.joins.BroadcastHashJoinExec;
import org.apache.spark.sql.execution.joins.HashJoin;
import org.apache.spark.sql.execution.joins.HashedRelation;
import scala.Option;
import SEQ;

/**
 * Keys that the query already has: those of the tables that its joins broadcast.
 *
 * A scan waits for the broadcasts of its own stage before it starts, and lists its files after the stage was planned.
 * The search stays within the stage, so plans that Spark shares are pruned alike for all who share them.
 */
final class Broadcasts {
  private final ZskipFiles index;
  private final int most;
  /** Ancestors of the node that is visited, the root first. */
  private final List<SparkPlan> path = new ArrayList<>();
  /** The path to the scan. */
  private List<SparkPlan> pathToScan;
  private int scans;
  /** False for files of which a MERGE knows already that they have matches. */
  private boolean isSearch;

  private Broadcasts(ZskipFiles index, int most) {
    this.index = index;
    this.most = most;
    this.isSearch = !Delta.isChange(index.files);
  }

  /** The keys of the joins above a scan; empty if no query is running. */
  static List<JoinKeys> of(ZskipFiles index, int most) {
    Option context = org.apache.spark.SparkContext$.MODULE$.getActive();
    String id = context.isEmpty() ? null : ((SparkContext) context.get()).getLocalProperty("spark.sql.execution.id");
    QueryExecution execution = id == null ? null : SQLExecution.getQueryExecution(Long.parseLong(id));
    if (execution == null) return new ArrayList<>();
    Broadcasts search = new Broadcasts(index, most);
    search.visit(execution.executedPlan());
    // If several scans share an index, it is unknown whose files these are.
    return search.scans == 1 ? search.keys() : new ArrayList<>();
  }

  private void visit(SparkPlan node) {
    if (node instanceof FileSourceScanExec) {
      if (ZskipFiles.of(((FileSourceScanExec) node).relation().location()) == index) {
        scans++;
        pathToScan = new ArrayList<>(path);
        pathToScan.add(node);
      }
    }
    path.add(node);
    for (SparkPlan child : below(node)) visit(child);
    for (Expression expression : Scala.list(node.expressions())) visitSubqueries(expression);
    path.remove(path.size() - 1);
  }

  private void visitSubqueries(Expression expression) {
    if (expression instanceof PlanExpression) {
      Object plan = ((PlanExpression) expression).plan();
      if (plan instanceof SparkPlan) visit((SparkPlan) plan);
    }
    for (Expression child : Scala.list(expression.children())) visitSubqueries(child);
  }

  private static List<SparkPlan> below(SparkPlan node) {
    List<SparkPlan> one = new ArrayList<>();
    if (node instanceof AdaptiveSparkPlanExec) one.add(((AdaptiveSparkPlanExec) node).executedPlan());
    else if (node instanceof QueryStageExec) one.add(((QueryStageExec) node).plan());
    else if (node instanceof InMemoryTableScanExec) one.add(((InMemoryTableScanExec) node).relation().cachedPlan());
    else if (node instanceof CommandResultExec) one.add(((CommandResultExec) node).commandPhysicalPlan());
    // A reused exchange is also elsewhere in the plan.
    else if (!(node instanceof ReusedExchangeExec)) return children(node);
    return one;
  }

  /**
   * The nodes below a node, as its fields hold them.
   *
   * Spark's own `children` and `subqueries` are lazy: asked for the first time, they lock the node, and the thread
   * that runs the node may hold that lock while it waits for the scan that asks.
   */
  static List<SparkPlan> children(SparkPlan node) {
    List<SparkPlan> children = new ArrayList<>();
    scala.collection.Iterator fields = node.productIterator();
    while (fields.hasNext()) {
      Object field = fields.next();
      if (field instanceof SparkPlan) children.add((SparkPlan) field);
      if (!(field instanceof scala.collection.Iterable)) continue;
      scala.collection.Iterator many = ((scala.collection.Iterable) field).iterator();
      while (many.hasNext()) {
        Object one = many.next();
        if (!(one instanceof SparkPlan)) break;
        children.add((SparkPlan) one);
      }
    }
    return children;
  }

  private List<JoinKeys> keys() {
    List<JoinKeys> keys = new ArrayList<>();
    SparkPlan below = (SparkPlan) pathToScan.get(pathToScan.size() - 1);
    Columns columns = Columns.of(below.output()).without(pruned((FileSourceScanExec) below));
    for (int i = pathToScan.size() - 2; i >= 0 && columns != null; i--) {
      SparkPlan node = (SparkPlan) pathToScan.get(i);
      if (node instanceof BroadcastHashJoinExec) {
        BroadcastHashJoinExec join = (BroadcastHashJoinExec) node;
        String type = join.joinType().toString();
        if (isSearch && (type.equals("Inner") || type.equals("LeftSemi"))) add(keys, join, columns, below);
        else if (type.equals("FullOuter")) return keys;
      } else {
        columns = after(node, below, columns);
      }
      below = node;
    }
    return keys;
  }

  /** The columns that Spark's own dynamic partition pruning handles. */
  private static List<Attribute> pruned(FileSourceScanExec scan) {
    List<Attribute> columns = new ArrayList<>();
    for (Expression one : Scala.list(scan.partitionFilters())) {
      if (one instanceof DynamicPruning) columns.addAll(Scala.list(one.references().toSeq()));
    }
    return columns;
  }

  /** The columns above a node; null if the node does not work row by row. */
  private Columns after(SparkPlan node, SparkPlan below, Columns columns) {
    if (node instanceof FilterExec) return ((FilterExec) node).condition().deterministic() ? columns : null;
    if (node instanceof ProjectExec) {
      Seq<NamedExpression> named = ((ProjectExec) node).projectList();
      if (!Delta.isChange(index.files)) return columns.projected(named);
      Seq<NamedExpression> others = Merge.withoutAdded(named);
      isSearch |= others.size() < named.size();
      return columns.projected(others);
    }
    if (node instanceof UnionExec) return columns.renamed(below.output(), node.output());
    boolean same = node instanceof WholeStageCodegenExec
      || node instanceof InputAdapter
      || node instanceof ColumnarToRowExec;
    return same ? columns : null;
  }

  /** Adds the keys of the broadcast side; the scan is on the other side. */
  private void add(List<JoinKeys> keys, BroadcastHashJoinExec join, Columns columns, SparkPlan below) {
    boolean buildsLeft = join.buildSide().toString().equals("BuildLeft");
    SparkPlan build = (SparkPlan) (buildsLeft ? join.left() : join.right());
    Seq<Expression> built = buildsLeft ? join.leftKeys() : join.rightKeys();
    List<Expression> streamed = Scala.list(buildsLeft ? join.rightKeys() : join.leftKeys());
    for (int i = 0; i < streamed.size(); i++) {
      String column = columns.key((Expression) streamed.get(i));
      Expression key = (Expression) Scala.list(built).get(i);
      if (column == null || !KeyValues.supports(key.dataType())) continue;
      // Reading keys costs time, and the index knows few expressions.
      if (Columns.isExpression(column) && index.ask("share", column) == null) continue;
      long started = System.nanoTime();
      JoinKeys joinKeys = new JoinKeys(column, TableNames.of(build, key), "");
      try {
        joinKeys.values = values(build, built, i, key);
      } catch (Exception e) {
        Faults.passOn(e);
        joinKeys.reason = "the keys cannot be read: " + e;
      }
      if (joinKeys.values == null && joinKeys.reason.isEmpty()) joinKeys.reason = "more than " + most + " keys";
      joinKeys.seconds = (System.nanoTime() - started) / 1e9;
      keys.add(joinKeys);
    }
  }

  /** The values of a key of a broadcast table; null if there are too many. */
  private KeyValues values(SparkPlan build, Seq<Expression> keys, int ordinal, Expression key) {
    HashedRelation relation = ((HashedRelation) build.executeBroadcast().value()).asReadOnlyCopy();
    // Whole numbers that fit into 64 bits together are kept as one.
    boolean packed = relation.getClass().getSimpleName().equals("LongHashedRelation");
    Expression read = packed
      ? HashJoin.extractKeyExprAt(keys, ordinal)
      : (Expression) new BoundReference(ordinal, key.dataType(), true);
    KeyValues values = new KeyValues(key.dataType(), most);
    scala.collection.Iterator rows = relation.keys();
    while (rows.hasNext()) {
      if (!values.add(read.eval((InternalRow) rows.next()))) return null;
    }
    return values;
  }
}
