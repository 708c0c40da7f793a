import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.DynamicPruning;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Function1;

/** Puts a scan of ours over each of Iceberg's whose table has an index, with the filter above it. */
final class ScanRelations extends scala.runtime.AbstractPartialFunction {
  private final IndexedTables tables;
  private final boolean isEnabled = IndexedTables.isEnabled();

  private ScanRelations(IndexedTables tables) { this.tables = tables; }

  /** Subqueries, too: Spark compares those of dynamic pruning with other parts of the plan, to share what they read. */
  static LogicalPlan apply(LogicalPlan plan, IndexedTables tables) {
    return (LogicalPlan) plan.transformDownWithSubqueries(new ScanRelations(tables));
  }

  public boolean isDefinedAt(Object node) { return true; }

  public Object applyOrElse(Object node, Function1 otherwise) {
    if (node instanceof Filter && ((Filter) node).child() instanceof DataSourceV2ScanRelation) {
      Filter filter = (Filter) node;
      DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) filter.child();
      DataSourceV2ScanRelation pruned = guarded(relation, known(filter.condition()));
      return pruned == relation ? filter : new Filter(filter.condition(), pruned);
    }
    return node instanceof DataSourceV2ScanRelation ? guarded((DataSourceV2ScanRelation) node, null) : node;
  }

  /** A condition without what only running the query tells; null if nothing is left. */
  private static Expression known(Expression condition) {
    Expression left = null;
    for (Expression one : ScanQuery.conjuncts(condition)) {
      if (one instanceof DynamicPruning) continue;
      left = left == null ? one : new And(left, one);
    }
    boolean isSame = left != null && left.semanticEquals(condition);
    return isSame ? condition : left;
  }

  /** The same relation before any runtime filter; null where its rows may change. */
  static LogicalPlan fixed(DataSourceV2ScanRelation node) {
    PrunedScan scan = scan(node);
    if (scan != null) return over(node, scan.bare());
    return IcebergScan.isOf(node.scan()) ? node : null;
  }

  /** The scan of a relation, if it is ours; null otherwise. */
  static PrunedScan scan(LogicalPlan node) {
    if (!(node instanceof DataSourceV2ScanRelation)) return null;
    Scan scan = ((DataSourceV2ScanRelation) node).scan();
    return scan instanceof PrunedScan ? (PrunedScan) scan : null;
  }

  private DataSourceV2ScanRelation guarded(DataSourceV2ScanRelation node, Expression condition) {
    try {
      PrunedScan scan = pruned(node, condition);
      return scan == null ? node : over(node, scan);
    } catch (Throwable e) {
      Faults.tell("use the index of Iceberg's table " + node.relation().table().name(), e);
      return node;
    }
  }

  /** The scan to read instead; null where the relation stays as it is. */
  private PrunedScan pruned(DataSourceV2ScanRelation node, Expression condition) throws ReflectiveOperationException {
    long started = System.nanoTime();
    PrunedScan known = scan(node);
    if (known != null) {
      if (condition == null || condition.equals(known.query.condition)) return null;
      ScanQuery query = prepared(new ScanQuery(condition, node.output()), known.listing());
      if (query == null) return null;
      long nanos = System.nanoTime() - started;
      PrunedScan other = new PrunedScan(known.iceberg(), known.listing(), query, nanos);
      return other.with(known.names, known.standIns, known.mostKeys, known.unused);
    }
    String mark = node.relation().options().get(IndexedTables.ENABLED);
    IcebergScan iceberg = isEnabled || mark != null ? IcebergScan.of(node.scan()) : null;
    if (iceberg == null) return null;
    BoundIndex index = tables.named(mark);
    if (index == null) index = tables.find(iceberg, node.relation().output());
    if (index == null) return null;
    ListedTasks listing = new ListedTasks(index, iceberg);
    listing.count();
    ScanQuery query = prepared(new ScanQuery(condition, node.output()), listing);
    return query == null ? null : new PrunedScan(iceberg, listing, query, System.nanoTime() - started);
  }

  /** The query with the files that its filter and its notes leave; null where that is not known. */
  private static ScanQuery prepared(ScanQuery query, ListedTasks listing) {
    Python python = listing.index.python;
    String notes = Json.write(query.notes);
    Map<String, Object> plan =
      python.choose("prepare", listing.text(), query.ofPartitions, query.ofData, notes);
    if (plan == null) return null;
    query.ticket = plan.get("ticket");
    query.text = (String) plan.get("text");
    query.bytes = Math.max(1, (long) (listing.total[1] * ((Number) plan.get("share")).doubleValue()));
    if (!query.notes.isEmpty()) {
      plan = python.choose("list", listing.text(), query.ticket, query.ofPartitions, query.ofData, notes);
      query.ticket = plan.get("ticket");
    }
    query.kept = Json.bits((String) plan.get("kept"));
    return query;
  }

  /** A relation of ours whose query has one note more. */
  static LogicalPlan withNote(LogicalPlan node, String kind, Object value) {
    long started = System.nanoTime();
    PrunedScan scan = scan(node);
    ScanQuery query = prepared(scan.query.with(kind, value), scan.listing());
    if (query == null) return node;
    try {
      PrunedScan noted = new PrunedScan(scan.iceberg(), scan.listing(), query, System.nanoTime() - started);
      return over((DataSourceV2ScanRelation) node, noted);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  /** The same relation over another scan. */
  static DataSourceV2ScanRelation over(DataSourceV2ScanRelation node, Scan scan) {
    return (DataSourceV2ScanRelation) Scala.copy(node, 1, scan);
  }

  /** A table with the name of an index among its options. */
  static LogicalPlan marked(DataSourceV2Relation node, String mark) {
    Map<String, String> options = new HashMap<>(node.options().asCaseSensitiveMap());
    options.put(IndexedTables.ENABLED, mark);
    return Scala.copy(node, 4, new CaseInsensitiveStringMap(options));
  }
}
