"""What scans of Spark say of themselves, whoever chose their files."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def report(spark: SparkSession) -> None:
    """Have the scans reported that only the JVM knows, as `last_scan` does."""
    from zskip.spark.jvm.gateway import Jvm
    from zskip.spark.scan.rule.reports import collect_scans

    collect_scans(Jvm.of(spark))


def files_read(frame: DataFrame) -> int:
    """How many files the scan of a frame with one table has chosen, as it counts them itself."""
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    leaves = plan.collectLeaves()
    # A plan that is not compiled may be the scan itself, and so its own leaf.
    scans = [plan] if plan.metrics().contains("numFiles") else [leaves.apply(i) for i in range(leaves.size())]
    return sum(scan.metrics().apply("numFiles").value() for scan in scans if scan.metrics().contains("numFiles"))


def rows_decoded(frame: DataFrame) -> int:
    """How many rows the scan of a frame with one table has decoded, pages left out, as it counts them itself."""
    frame.collect()
    todo = [frame._jdf.queryExecution().executedPlan()]
    while todo:
        node = todo.pop()
        if node.getClass().getSimpleName() == "FileSourceScanExec":
            return int(node.metrics().apply("numOutputRows").value())
        if node.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
            todo.append(node.executedPlan())
        todo += [node.children().apply(i) for i in range(node.children().size())]
    raise AssertionError("no scan of files")
