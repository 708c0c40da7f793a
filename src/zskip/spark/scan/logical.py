"""Logical plans: their leaves, subqueries included, plans with some leaves exchanged, and DataFrames of plans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from zskip.spark.jvm.compat import version
from zskip.spark.jvm.gateway import JavaObject, Jvm

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLAN = "org.apache.spark.sql.catalyst.plans.logical.LogicalPlan"
_COMMAND = "org.apache.spark.sql.catalyst.plans.logical.Command"
_OBJECT = "java.lang.Object"
_MAP = "java.util.Map"
_ARGUMENTS = "java.lang.Object[]"


def analyzed(spark: SparkSession, text: str) -> JavaObject:
    """The analyzed plan of a statement, of which nothing is run, not even if it is a command."""
    state = spark._jsparkSession.sessionState()
    mode = Jvm.of(spark).module("org.apache.spark.sql.execution.CommandExecutionMode").SKIP()
    execution = state.executePlan(state.sqlParser().parsePlan(text), mode)
    execution.assertAnalyzed()
    return execution.analyzed()


def is_command(jvm: Jvm, plan: JavaObject) -> bool:
    """Whether a plan does something other than to give rows."""
    command = jvm.class_of(_COMMAND)
    todo = [plan]
    while todo:
        node = todo.pop()
        if command.isInstance(node):
            return True
        # Only these may stand above a command.
        if node.nodeName() in ("WithCTE", "UnresolvedWith", "CTERelationDef", "Union", "SubqueryAlias"):
            todo += jvm.to_list(node.children())
    return False


def leaves(jvm: Jvm, plan: JavaObject) -> Iterator[JavaObject]:
    """The leaves of a plan and of the subqueries in its expressions."""
    yield from jvm.to_list(plan.collectLeaves())
    for subquery in jvm.to_list(plan.subqueriesAll()):
        yield from jvm.to_list(subquery.collectLeaves())


def exchanged(spark: SparkSession, plan: JavaObject, pairs: Sequence[tuple[JavaObject, JavaObject]]) -> JavaObject:
    """An analyzed plan with other leaves; each must give what the one in its place gave.

    pairs: the leaf that is there, and the one to put in its place.
    """
    jvm = Jvm.of(spark)
    others = jvm.find("java.util.IdentityHashMap")()
    for old, new in pairs:
        others.put(old, new)
    made = plan.transformUpWithSubqueries(_exchange(jvm, others))
    made.setAnalyzed()
    return made


def _exchange(jvm: Jvm, others: JavaObject) -> JavaObject:
    """A `PartialFunction` from a node to what a map has in its place, or to itself.

    Whatever method is called, its first argument is a node: `applyOrElse` is the one that plans call.
    """
    handles = jvm.handles
    found = handles.virtual(_MAP, "getOrDefault", _OBJECT, _OBJECT, _OBJECT).bindTo(others)
    found = handles.permute(found, _OBJECT, [_OBJECT], [0, 0])
    first = handles.bind(handles.element(_ARGUMENTS), 1, 0)
    answer = handles.feed(found, 0, first)
    answer = handles.drop(handles.drop(answer, 0, "java.lang.reflect.Method"), 0, _OBJECT)
    handler = handles.implement(
        "java.lang.reflect.InvocationHandler",
        answer.asType(handles.type(_OBJECT, _OBJECT, "java.lang.reflect.Method", _ARGUMENTS)),
    )
    make = jvm.call("java.lang.reflect.Proxy", "newProxyInstance")
    interface = jvm.class_of("scala.PartialFunction")
    return make(interface.getClassLoader(), jvm.array("java.lang.Class", [interface]), handler)


def frame_of(spark: SparkSession, plan: JavaObject) -> DataFrame:
    """A DataFrame of a plan."""
    from pyspark.sql import DataFrame

    package = "org.apache.spark.sql" if version(spark) < (4, 0) else "org.apache.spark.sql.classic"
    return DataFrame(Jvm.of(spark).module(f"{package}.Dataset").ofRows(spark._jsparkSession, plan), spark)


def list_scans(spark: SparkSession, frame: DataFrame) -> None:
    """Let each scan of files in a query, subqueries included, find its files; nothing of the query runs."""
    jvm = Jvm.of(spark)
    execution = frame._jdf.queryExecution()
    mode = jvm.module("org.apache.spark.sql.execution.CommandExecutionMode").SKIP()
    plans = [execution.sparkPlan()]
    for subquery in jvm.to_list(execution.optimizedPlan().subqueriesAll()):
        subquery.setAnalyzed()
        plans.append(spark._jsparkSession.sessionState().executePlan(subquery, mode).sparkPlan())
    scan = jvm.class_of("org.apache.spark.sql.execution.FileSourceScanExec")
    for plan in plans:
        for leaf in jvm.to_list(plan.collectLeaves()):
            if scan.isInstance(leaf):
                leaf.selectedPartitions()
