"""Delta Lake itself reads what zskip has rewritten, and skips files by the statistics that zskip wrote."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import zskip

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def files_read(frame: DataFrame) -> int:
    """How many files the scan of a frame with one table has chosen, as it counts them itself."""
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    scans = [plan] if plan.metrics().contains("numFiles") else []
    leaves = plan.collectLeaves()
    scans += [leaves.apply(i) for i in range(leaves.size())]
    return sum(scan.metrics().apply("numFiles").value() for scan in scans if scan.metrics().contains("numFiles"))


def test_delta_reads_the_rows_and_skips_the_files(engine_spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rows = engine_spark.range(0, 20_000, 1, 4).selectExpr("id", "id * 7919 % 20000 AS a", "id * 104729 % 20000 AS b")
    rows.write.format("delta").save(path)
    zskip.table(engine_spark, path).optimize(["a", "b"], files=16)
    table = engine_spark.read.format("delta").load(path)
    assert table.exceptAll(rows).count() == rows.exceptAll(table).count() == 0
    assert len(table.inputFiles()) == 16
    assert 1 <= files_read(table.where("a < 1000")) <= 8
    assert files_read(table.where("a < 0")) == 0
