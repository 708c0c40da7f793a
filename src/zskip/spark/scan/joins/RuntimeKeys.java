import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import scala.Option;
import scala.Product;
import scala.math.BigInt;
import SEQ;

/**
 * The keys of joins for Iceberg's scans, by Spark's own dynamic pruning: the query waits in a filter for
 * the keys, which Spark takes from a broadcast or runs before the scan, and hands to it.
 *
 * Spark hands over keys of columns alone. It never computes these filters by rows, so a stand-in may be called like a
 * column, where the key is an expression or of another type.
 */
final class RuntimeKeys {
  private RuntimeKeys() {}

  /** Notes the keys of a join that may be broadcast, which cost nothing; false where none of them may prune. */
  static boolean consider(
      Join join, boolean isLeft, Columns columns, JoinCandidates candidates, JoinTarget target) {
    LogicalPlan other = (LogicalPlan) (isLeft ? join.right() : join.left());
    Option keys = ExtractEquiJoinKeys$.MODULE$.unapply(join);
    if (keys.isEmpty() || !mayBeBroadcast(join, isLeft) || new JoinSettings().isSmall(target.bytes)) return false;
    Product parts = (Product) keys.get();
    List<Expression> ours = Scala.list((Seq<Expression>) parts.productElement(isLeft ? 1 : 2));
    Seq<Expression> theirs = (Seq<Expression>) parts.productElement(isLeft ? 2 : 1);
    boolean isAny = false;
    for (int i = 0; i < ours.size(); i++) {
      Expression key = (Expression) Scala.list(theirs).get(i);
      String column = columns.key((Expression) ours.get(i));
      if (column == null || !KeyValues.supports(key.dataType()) || candidates.broadcasts.containsKey(column)) continue;
      // The index knows few expressions.
      if (Columns.isExpression(column) && target.share(column) == null) continue;
      Object[] broadcast = {TableNames.of(other, key), other, theirs, i, key.dataType()};
      candidates.broadcasts.put(column, broadcast);
      isAny = true;
    }
    return isAny;
  }

  /** Whether Spark may broadcast the other side. */
  private static boolean mayBeBroadcast(Join join, boolean isLeft) {
    String type = join.joinType().toString();
    if (!type.equals("Inner") && !type.equals("LeftSemi")) return false;
    BigInt left = ((LogicalPlan) join.left()).stats().sizeInBytes();
    BigInt right = ((LogicalPlan) join.right()).stats().sizeInBytes();
    boolean isRight = type.equals("LeftSemi") || right.compare(left) <= 0;
    BigInt other = isRight ? right : left;
    return isRight == isLeft && other.longValue() <= SQLConf.get().autoBroadcastJoinThreshold();
  }

  /** A relation with its joins; the same one if it has them. */
  static LogicalPlan over(DataSourceV2ScanRelation node, PrunedScan scan, JoinCandidates joins) {
    if (scan.names != null || !SQLConf.get().dynamicPartitionPruningEnabled()) return node;
    int most = new JoinSettings().most(scan.query.bytes);
    Map<String, Object> names = new HashMap<>();
    Map<String, String> standIns = new HashMap<>();
    Expression condition = null;
    for (String column : joins.broadcasts.keySet()) {
      Object[] one = (Object[]) joins.broadcasts.get(column);
      Attribute attribute = attribute(node, column, (DataType) one[4], standIns);
      if (attribute == null) continue;
      Expression keys = subquery(attribute, (LogicalPlan) one[1], (Seq) one[2], (Integer) one[3], true);
      condition = condition == null ? keys : new And(condition, keys);
      names.put(attribute.name(), one[0]);
    }
    for (JoinCandidate join : joins.used) {
      Attribute attribute = attribute(node, join.column, join.type, standIns);
      if (attribute == null) continue;
      Expression keys = query(join, attribute, most);
      condition = condition == null ? keys : new And(condition, keys);
      names.put(attribute.name(), join.name);
    }
    List<Map<String, Object>> unused = new ArrayList<>();
    for (JoinCandidate join : joins.unused) {
      unused.add(new JoinKeys(join.column, join.name, join.reason).described());
    }
    if (condition == null && unused.isEmpty()) return node;
    LogicalPlan other = ScanRelations.over(node, scan.with(names.isEmpty() ? null : names, standIns, most, unused));
    return condition == null ? other : new Filter(condition, other);
  }

  /**
   * The column, if it has the type of the key and Iceberg does not ask for its keys, which may not be all, or else a
   * stand-in; null where there can be none.
   */
  private static Attribute attribute(
      DataSourceV2ScanRelation node, String column, DataType type, Map<String, String> standIns) {
    List<Attribute> output = Scala.list(node.output());
    Set<String> names = new HashSet<>(standIns.keySet());
    for (NamedReference one : ((PrunedScan) node.scan()).filterAttributes()) {
      names.addAll(Arrays.asList(one.fieldNames()));
    }
    boolean isIcebergs = names.contains(column);
    for (Attribute one : output) {
      if (one.name().equals(column) && one.dataType().equals(type) && !isIcebergs) return one;
      names.add(one.name());
    }
    String name = "zskip_key_" + (standIns.size() + 1);
    if (output.isEmpty() || names.contains(name)) return null;
    standIns.put(name, column);
    // A filter is over columns of the relation, which go by their ids.
    Attribute lender = (Attribute) output.get(0);
    return new AttributeReference(name, type, true, Metadata.empty(), lender.exprId(), Scala.NONE);
  }

  /** The filter of a key query. */
  private static Expression query(JoinCandidate join, Attribute column, int most) {
    Attribute key = ((NamedExpression) ((Project) join.plan).projectList().apply(0)).toAttribute();
    Seq keys = Scala.seqOf(key);
    // Grouped, so that the limit counts distinct keys; as many as that are too many.
    Object distinct = Scala.construct(Aggregate.class, keys, keys, JoinSearch.ofKeys(join.plan), Option.empty());
    Literal limit = new Literal(most + 1, DataTypes.IntegerType);
    LogicalPlan plan = new GlobalLimit(limit, new LocalLimit(limit, (LogicalPlan) distinct));
    return subquery(column, plan, keys, 0, false);
  }

  private static Expression subquery(
      Attribute column, LogicalPlan plan, Seq keys, Integer position, boolean onlyInBroadcast) {
    // The position of the key became a list in Spark 4.
    Class<?> type = DynamicPruningSubquery.class;
    boolean isOne = type.getConstructors()[0].getParameterTypes()[3] == Integer.TYPE;
    Object index = isOne ? (Object) position : Scala.seqOf(position);
    return (Expression) Scala.construct(
      type, column, plan, keys, index, onlyInBroadcast, NamedExpression.newExprId(), Option.empty());
  }

  /** The joins of the keys that Spark hands over, for Python; empty where none of them can prune. */
  static List<Map<String, Object>> described(PrunedScan scan, Predicate[] predicates) {
    List<Map<String, Object>> described = new ArrayList<>();
    for (Predicate one : predicates) {
      org.apache.spark.sql.connector.expressions.Expression[] parts = one.children();
      if (!one.name().equals("IN") || parts.length == 0 || !(parts[0] instanceof NamedReference)) continue;
      String[] path = ((NamedReference) parts[0]).fieldNames();
      JoinKeys keys = path.length == 1 ? keys(scan, path[0], parts) : null;
      if (keys != null) described.add(keys.described());
    }
    return described;
  }

  /** Null where the keys are of a type that cannot prune, or of a query that is not known here. */
  private static JoinKeys keys(
      PrunedScan scan, String column, org.apache.spark.sql.connector.expressions.Expression[] parts) {
    if (scan.names == null || !scan.names.containsKey(column)) return null;
    Object standsFor = scan.standIns.get(column);
    JoinKeys keys =
      new JoinKeys(standsFor == null ? column : (String) standsFor, (String) scan.names.get(column), "");
    int most = scan.mostKeys;
    KeyValues values = null;
    for (int i = 1; i < parts.length && parts.length - 1 < most; i++) {
      if (!(parts[i] instanceof org.apache.spark.sql.connector.expressions.Literal)) return null;
      org.apache.spark.sql.connector.expressions.Literal literal =
        (org.apache.spark.sql.connector.expressions.Literal) parts[i];
      if (values == null) values = new KeyValues(literal.dataType(), most);
      if (!literal.dataType().equals(values.type) || !values.add(literal.value())) return null;
    }
    if (parts.length == 1) keys.values = new KeyValues(DataTypes.LongType, 1);
    else if (parts.length - 1 < most) keys.values = values;
    else keys.reason = "more than " + (most - 1) + " keys";
    return keys;
  }
}
