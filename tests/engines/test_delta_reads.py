"""Delta Lake itself reads what zskip has rewritten, and skips files by the statistics that zskip wrote."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from deltalake import DeltaTable
from pyspark.sql.functions import col

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


AWKWARD = ("eu", "us east", "é", "a=b/c%'\"[", "日本", "a+b", "x%20y", "a:b", "~t", "a&b@c$d,e;f!g(h)", "ü%C3", None)


def test_partitions_of_awkward_names_are_rewritten(engine_spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t ü")
    values = [(i, i * 7919 % 240, AWKWARD[i % len(AWKWARD)]) for i in range(240)]
    rows = engine_spark.createDataFrame(values, "id long, v long, region string").coalesce(1)
    rows.write.format("delta").partitionBy("region").save(path)
    result = zskip.table(engine_spark, path).optimize(["id", "v"], files=24)
    assert result.files_after == 24
    wanted = sorted(map(str, values))
    read = engine_spark.read.format("delta").load(path).select("id", "v", "region")
    assert sorted(str(tuple(row)) for row in read.collect()) == wanted
    alone = DeltaTable(path).to_pyarrow_table().select(["id", "v", "region"])
    assert sorted(str(tuple(row.values())) for row in alone.to_pylist()) == wanted
    for value in AWKWARD:
        named = read.where(col("region").eqNullSafe(value))
        assert named.count() == 20
        assert files_read(named) == 2
    assert len(read.inputFiles()) == 24
