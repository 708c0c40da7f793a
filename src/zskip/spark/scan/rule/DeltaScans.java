import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Subquery;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.internal.SQLConf;
import scala.collection.JavaConverters;

/**
 * Gives relations over Delta's log the files of their version, with an index, before Delta's own rule
 * (`PrepareDeltaScan`) would look for files by a job of Spark's.
 *
 * Only in queries that read alone: a transaction learns from Delta's rule what it has read. All relations over one log
 * are given their files, or none: they have to read one version.
 */
public final class DeltaScans extends org.apache.spark.sql.catalyst.rules.Rule {
  private static final String SKIPPING = "spark.databricks.delta.stats.skipping";
  private final IndexedTables tables;

  DeltaScans(IndexedTables tables) { this.tables = tables; }

  public TreeNode apply(TreeNode node) {
    LogicalPlan plan = (LogicalPlan) node;
    // Spark optimizes subqueries by themselves first, but what they read is prepared with the whole query.
    if (plan instanceof Subquery || tables == null) return plan;
    try {
      return Query.apply(plan, tables);
    } catch (Throwable e) {
      Faults.tell("read the logs of the Delta tables of a query", e);
      return plan;
    }
  }

  /** Lets the optimizer of a session, and of those that share its extensions, apply the rule before Delta's. */
  static void install(Object session, Object rule, IndexedTables tables) throws ReflectiveOperationException {
    Object extensions = Scala.call(session, "extensions");
    Field field = extensions.getClass().getDeclaredField("preCBORules");
    field.setAccessible(true);
        List<Object> others = new ArrayList<>();
    for (Object one : Scala.list((scala.collection.Seq<Object>) field.get(extensions))) {
      if (one instanceof Builder && ((Builder) one).tables == tables) return;
      // Another rule of ours, of a Python process before this one, would ask that one.
      if (!one.getClass().getName().equals(Builder.class.getName())) others.add(one);
    }
    // Without other rules there is no Delta in the session.
    if (others.isEmpty()) return;
    others.add(0, new Builder(rule, tables));
    // A new list, since another thread may be reading the old one.
    field.set(extensions, JavaConverters.asScalaBuffer(others));
  }

  /** Makes the rule for a query of a session; one where ours is not installed is left alone. */
  static final class Builder extends scala.runtime.AbstractFunction1 {
    private final Object rule;
    final IndexedTables tables;

    Builder(Object rule, IndexedTables tables) {
      this.rule = rule;
      this.tables = tables;
    }

    public Object apply(Object session) {
      boolean isInstalled = false;
      try {
        Object rules = Scala.call(Scala.call(session, "experimental"), "extraOptimizations");
        isInstalled = ((scala.collection.Seq) rules).contains(rule);
      } catch (ReflectiveOperationException e) {
        Faults.tell("find its rule in the session", e);
      }
      return new DeltaScans(isInstalled ? tables : null);
    }
  }

  /** One query. */
  static final class Query {
    private final IndexedTables tables;
    private final DeltaCode delta;
    /** Relations whose rows Delta may count by its log. */
    private final Set<LogicalPlan> counted = Collections.newSetFromMap(new IdentityHashMap<>());
    /** By relation: the same over the files of its version. */
    private final Map<LogicalPlan, LogicalRelation> versions = new IdentityHashMap<>();

    Query(IndexedTables tables, DeltaCode delta) {
      this.tables = tables;
      this.delta = delta;
    }

    static LogicalPlan apply(LogicalPlan plan, IndexedTables tables) throws Exception {
      List<LogicalPlan> nodes = nodes(plan);
      if (!isReading(plan, nodes) || !hasIndexedLog(nodes, tables)) return plan;
      DeltaCode delta = Delta.code();
      if (delta == null || delta.isInTransaction()) return plan;
      Query query = new Query(tables, delta);
      for (List<LogicalRelation> log : query.logs(nodes)) query.versions.putAll(query.versions(log));
      return query.versions.isEmpty() ? plan : Relations.apply(plan, tables, query.versions);
    }

    /** All nodes of a plan and of the subqueries in its expressions. */
    private static List<LogicalPlan> nodes(LogicalPlan plan) {
      List<LogicalPlan> nodes = new ArrayList<>();
      nodes.add(plan);
      nodes.addAll(Scala.list(plan.subqueriesAll()));
      for (int i = 0; i < nodes.size(); i++) nodes.addAll(Scala.list(((LogicalPlan) nodes.get(i)).children()));
      return nodes;
    }

    private static boolean hasIndexedLog(List<LogicalPlan> nodes, IndexedTables tables)
        throws ReflectiveOperationException {
      for (LogicalPlan node : nodes) {
        if (location(node) != null && index((LogicalRelation) node, tables) != null) return true;
      }
      return false;
    }

    /** The index of a relation; null where there is none, or where queries are not pruned. */
    private static BoundIndex index(LogicalRelation node, IndexedTables tables) throws ReflectiveOperationException {
      boolean isOn = IndexedTables.isEnabled() || QueryMark.isOn(node);
      return isOn ? tables.index((HadoopFsRelation) node.relation()) : null;
    }

    /** Where a relation over a log would look for its files; null for other nodes. */
    private static FileIndex location(LogicalPlan node) {
      if (!(node instanceof LogicalRelation)) return null;
      Object relation = ((LogicalRelation) node).relation();
      boolean isFiles = relation instanceof HadoopFsRelation;
      if (!isFiles || !Delta.isFormat(((HadoopFsRelation) relation).fileFormat())) return null;
      FileIndex location = ((HadoopFsRelation) relation).location();
      return Delta.isLog(location) ? location : null;
    }

    private static boolean isReading(LogicalPlan plan, List<LogicalPlan> nodes) {
      if (plan.isStreaming() || !SQLConf.get().getConfString(SKIPPING, "true").equalsIgnoreCase("true")) return false;
      for (LogicalPlan node : nodes) if (node instanceof Command) return false;
      return true;
    }

    /** The relations over logs, in a list for each log. */
    private Collection<List<LogicalRelation>> logs(List<LogicalPlan> nodes) {
      Map<Object, List<LogicalRelation>> logs = new LinkedHashMap<>();
      for (LogicalPlan node : nodes) {
        if (node instanceof Aggregate) count((Aggregate) node);
        FileIndex location = location(node);
        if (location == null) continue;
        Object log = delta.log(location);
        if (!logs.containsKey(log)) logs.put(log, new ArrayList<>());
        ((List<LogicalRelation>) logs.get(log)).add((LogicalRelation) node);
      }
      return logs.values();
    }

    private void count(Aggregate node) {
      if (!node.groupingExpressions().isEmpty()) return;
      LogicalPlan child = node.child();
      while (child instanceof Project) child = ((Project) child).child();
      if (child instanceof LogicalRelation) counted.add(child);
    }

    /** The relations over one log, each with the same over the files of its version; none if one cannot be had. */
    private Map<LogicalPlan, LogicalRelation> versions(List<LogicalRelation> nodes) throws Exception {
      Map<LogicalPlan, LogicalRelation> versions = new IdentityHashMap<>();
      Object latest = null;
      for (LogicalRelation node : nodes) {
        HadoopFsRelation relation = (HadoopFsRelation) node.relation();
        BoundIndex index = index(node, tables);
        if (index == null) return Collections.emptyMap();
        boolean isPinned = delta.isPinned(relation.location());
        Object snapshot = isPinned || latest == null ? delta.snapshot(relation.location()) : latest;
        if (snapshot == null) return Collections.emptyMap();
        if (!isPinned) latest = snapshot;
        LogEntries entries = LogCache.get(delta, relation.location(), snapshot);
        if (entries == null) return Collections.emptyMap();
        boolean isDeltas = counted.contains(node) && !entries.deleted.isEmpty();
        if (isDeltas || !entries.areKnown(index)) return Collections.emptyMap();
        DeltaVersion version = delta.over(relation.location(), snapshot, entries);
        versions.put(node, Relations.over(node, version, relation.options()));
      }
      return versions;
    }
  }
}
