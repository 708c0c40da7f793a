// Compiled in the driver by Janino, which Spark brings along; Java without generics or lambdas, as Janino reads it.

import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.apache.hadoop.fs.Path;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.AttributeSet$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.DataSourceUtils;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileSourceStrategy$;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.Option;
import scala.collection.JavaConverters;
import SEQ;

/**
 * A file index that knows the filter of the query it stands in, so that plans tell what is left of the table.
 *
 * What it knows is for people and for the choice of joins: which files are read is decided when they are listed, by
 * the filters that Spark hands over then.
 */
public final class zskip implements FileIndex {
  /** Set while the rule runs, since a transformation drops a new node that equals the old one. */
  static final ThreadLocal REPLACING = new ThreadLocal();

  final FileIndex files;
  final Function prepare;
  final Function listPrepared;
  /** Null where no query is known. */
  final Query query;

  public zskip(FileIndex files, Function prepare, Function listPrepared, Query query) {
    this.files = files;
    this.prepare = prepare;
    this.listPrepared = listPrepared;
    this.query = query;
  }

  public Seq rootPaths() { return query == null ? files.rootPaths() : query.paths; }
  public long sizeInBytes() { return query == null ? files.sizeInBytes() : query.bytes; }
  public StructType partitionSchema() { return files.partitionSchema(); }
  public String[] inputFiles() { return files.inputFiles(); }
  public void refresh() { files.refresh(); }
  public Option metadataOpsTimeNs() { return files.metadataOpsTimeNs(); }
  public boolean isTimeTravel() { return false; }
  public String toString() { return files.toString(); }
  public int hashCode() { return files.hashCode(); }

  /** Equal where the rows are: a query takes nothing away, so that Spark may still share equal scans. */
  public boolean equals(Object other) { return this == other || REPLACING.get() == null && files.equals(other); }

  public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
    if (query != null && query.ofPartitions.equals(partitionFilters) && query.ofData.equals(dataFilters)) {
      Object found = listPrepared.apply(new Object[] {query.ticket});
      if (found != null) return (Seq) found;
    }
    return files.listFiles(partitionFilters, dataFilters);
  }

  /** What a filter leaves of a table. */
  static final class Query {
    final Expression condition;
    final Seq ofPartitions;
    final Seq ofData;
    Object ticket;
    long bytes;
    Seq paths;

    /** Splits a condition (null: none) as `FileSourceStrategy` does. */
    Query(Expression condition, LogicalRelation node, HadoopFsRelation relation) {
      this.condition = condition;
      List conjuncts = new ArrayList();
      if (condition != null) {
        List all = JavaConverters.seqAsJavaList(FileSourceStrategy$.MODULE$.splitConjunctivePredicates(condition));
        for (int i = 0; i < all.size(); i++) {
          Expression one = (Expression) all.get(i);
          if (one.deterministic() && !SubqueryExpression.hasSubquery(one)) conjuncts.add(one);
        }
      }
      Seq filters = DataSourceStrategy$.MODULE$.normalizeExprs(seq(conjuncts), node.output());
      this.ofPartitions =
        (Seq) DataSourceUtils.getPartitionFiltersAndDataFilters(relation.partitionSchema(), filters)._1();
      this.ofData = ofData(JavaConverters.seqAsJavaList(filters), node, relation.partitionSchema());
    }

    static Seq ofData(List filters, LogicalRelation node, StructType partitionSchema) {
      List names = java.util.Arrays.asList(partitionSchema.fieldNames());
      List output = JavaConverters.seqAsJavaList(node.output());
      List partitions = new ArrayList();
      List others = new ArrayList();
      for (int i = 0; i < output.size(); i++) {
        (names.contains(((AttributeReference) output.get(i)).name()) ? partitions : others).add(output.get(i));
      }
      AttributeSet ofPartitions = AttributeSet$.MODULE$.apply((scala.collection.Iterable) seq(partitions));
      AttributeSet ofOthers = AttributeSet$.MODULE$.apply((scala.collection.Iterable) seq(others));
      List found = new ArrayList();
      for (int i = 0; i < filters.size(); i++) {
        Expression filter = (Expression) filters.get(i);
        if (!filter.references().intersect(ofPartitions).nonEmpty()) {
          found.add(filter);
        } else {
          Option part = FileSourceStrategy$.MODULE$.extractPredicatesWithinOutputSet(filter, ofOthers);
          if (part.isDefined()) found.add(part.get());
        }
      }
      return seq(found);
    }

    static Seq seq(List items) { return PythonUtils.toSeq(items); }

    /** Asks Python, which answers with a ticket, the bytes and a text; or with null. */
    boolean prepare(zskip index) {
      Object[] answer = (Object[]) index.prepare.apply(new Object[] {ofPartitions, ofData});
      if (answer == null) return false;
      ticket = answer[0];
      bytes = ((Number) answer[1]).longValue();
      List named = new ArrayList();
      List roots = JavaConverters.seqAsJavaList(index.files.rootPaths());
      for (int i = 0; i < roots.size(); i++) named.add(new Place((Path) roots.get(i), (String) answer[2]));
      paths = seq(named);
      return true;
    }
  }

  /** The path of a table, shown with what is left of it. */
  static final class Place extends Path {
    private final String text;

    Place(Path path, String text) {
      super(path.toUri());
      this.text = text + " in " + path;
    }

    public String toString() { return text; }
  }

  /** Gives each relation of ours an index that knows the filter above it; any failure leaves the plan as it is. */
  public static final class Rule extends org.apache.spark.sql.catalyst.rules.Rule {
    public TreeNode apply(TreeNode plan) {
      REPLACING.set(plan);
      try {
        return ((LogicalPlan) plan).transformDown(new Relations());
      } catch (Exception e) {
        return plan;
      } catch (LinkageError e) {
        return plan;
      } finally {
        REPLACING.remove();
      }
    }
  }

  static final class Relations extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) { return true; }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (node instanceof Filter && ((Filter) node).child() instanceof LogicalRelation) {
        Filter filter = (Filter) node;
        LogicalRelation relation = (LogicalRelation) filter.child();
        LogicalRelation known = known(relation, filter.condition());
        return known == relation ? filter : new Filter(filter.condition(), known);
      }
      return node instanceof LogicalRelation ? known((LogicalRelation) node, null) : node;
    }

    static LogicalRelation known(LogicalRelation node, Expression condition) {
      if (!(node.relation() instanceof HadoopFsRelation)) return node;
      HadoopFsRelation relation = (HadoopFsRelation) node.relation();
      if (!(relation.location() instanceof zskip)) return node;
      zskip index = (zskip) relation.location();
      if (index.query != null && (condition == null || condition.equals(index.query.condition))) return node;
      Query query = new Query(condition, node, relation);
      if (!query.prepare(index)) return node;
      HadoopFsRelation known = new HadoopFsRelation(
        new zskip(index.files, index.prepare, index.listPrepared, query),
        relation.partitionSchema(),
        relation.dataSchema(),
        relation.bucketSpec(),
        relation.fileFormat(),
        relation.options(),
        relation.sparkSession());
      Object[] parts = new Object[node.productArity()];
      for (int i = 0; i < parts.length; i++) parts[i] = node.productElement(i);
      parts[0] = known;
      return (LogicalRelation) node.makeCopy(parts);
    }
  }
}
