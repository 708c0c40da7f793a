"""Logical plans: what they are, DataFrames of them, and the scans that they become."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from zskip.spark.jvm.gateway import JavaObject, Jvm

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COMMAND = "org.apache.spark.sql.catalyst.plans.logical.Command"
_EXPLAINED = "spark.zskip.explaining"
"""The local property by which `ScanLog.java` knows that a scan only lists its files."""


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
            todo.extend(jvm.items(node.children()))
    return False


def list_scans(spark: SparkSession, frame: DataFrame, name: str) -> None:
    """Let each scan of files in a query, subqueries included, list its files under a name; the query does not run."""
    jvm, context = Jvm.of(spark), spark.sparkContext
    context.setLocalProperty(_EXPLAINED, name)
    try:
        for leaf in _scans(spark, jvm, frame):
            if leaf.getClass().getSimpleName() == "FileSourceScanExec":
                leaf.selectedPartitions()
            elif leaf.getClass().getSimpleName() == "BatchScanExec":
                _list_tasks(leaf.scan())
    finally:
        context.setLocalProperty(_EXPLAINED, None)  # type: ignore[arg-type]


def _list_tasks(scan: JavaObject) -> None:
    """Let a scan of Iceberg's, if it is pruned, tell of its tasks."""
    if scan.getClass().getName() == "PrunedScan":
        scan.reportDriverMetrics()


def _scans(spark: SparkSession, jvm: Jvm, frame: DataFrame) -> Iterator[JavaObject]:
    execution = frame._jdf.queryExecution()
    mode = jvm.module("org.apache.spark.sql.execution.CommandExecutionMode").SKIP()
    plans = [execution.sparkPlan()]
    for subquery in jvm.items(execution.optimizedPlan().subqueriesAll()):
        subquery.setAnalyzed()
        plans.append(spark._jsparkSession.sessionState().executePlan(subquery, mode).sparkPlan())
    for plan in plans:
        yield from jvm.items(plan.collectLeaves())
