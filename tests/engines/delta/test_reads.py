"""Delta Lake itself reads what zskip has rewritten, and skips files by the statistics that zskip wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from format_tables import opened
from pyspark.sql.functions import col
from scans import files_read

import zskip
from zskip.errors import UnsupportedError, ZskipError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    before = engine_spark.read.format("delta").option("versionAsOf", 0).load(path)
    assert before.exceptAll(rows).count() == 0
    assert len(before.inputFiles()) == 4
    told = engine_spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").collect()[0]
    assert (told["version"], told["readVersion"], told["isBlindAppend"]) == (1, 0, False)
    assert json.loads(told["operationParameters"]["zOrderBy"]) == ["a", "b"]
    alone = DeltaTable(path).to_pyarrow_dataset()
    assert alone.count_rows(filter=pc.field("a") < 1000) == 1000
    assert len(list(alone.get_fragments())) == 16
    assert 1 <= len(list(alone.get_fragments(filter=pc.field("a") < 1000))) <= 8
    assert pl.scan_delta(path).filter(pl.col("a") < 1000).select(pl.len()).collect().item() == 1000


AWKWARD = ("eu", "us east", "é", "a=b/c%'\"[", "日本", "a+b", "x%20y", "a:b", "~t", "a&b@c$d,e;f!g(h)", "ü%C3", None)


@pytest.mark.slow
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
    engine_spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    engine_spark.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS")
    assert sorted(str(tuple(row)) for row in read.collect()) == wanted
    live = {*opened(Path(path)).snapshot().paths}
    assert not live & set(DeltaTable(path).vacuum(retention_hours=0, enforce_retention_duration=False))


def test_partitions_by_a_time_that_depends_on_the_session(engine_spark: SparkSession, tmp_path: Path) -> None:
    """Delta reads the values, in the session's zone; zskip skips by the other columns, and rewrites nothing."""
    spark, path = engine_spark, str(tmp_path / "t")
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        for utc in ("true", "false"):
            spark.conf.set("spark.databricks.delta.write.utcTimestampPartitionValues", utc)
            rows = spark.range(0, 400, 1, 2).selectExpr("id", "id * 7919 % 400 AS k")
            rows = rows.selectExpr("*", "timestamp'2024-01-01 00:00:00' + make_interval(0,0,0,int(id % 2)) AS at")
            rows.write.format("delta").mode("append").partitionBy("at").save(path)
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        table, whole = zskip.table(spark, path), spark.read.format("delta").load(path)
        wheres = ("at = timestamp'2024-01-01 00:00:00'", "at > timestamp'2023-12-31 14:00:00' and k = 7", "k = 7")
        for _ in range(2):
            for where in wheres:
                assert sorted(map(str, table.df().where(where).collect())) == sorted(
                    map(str, whole.where(where).collect())
                )
            table.index()
        with zskip.enabled(spark):
            for where in wheres:
                assert whole.where(where).count() == table.df().where(where).count()
        assert table.verify(queries=1).mismatches == ()
        before = sorted(tmp_path.rglob("*"))
        new = spark.sql("SELECT 1L id, 2L k, timestamp'2024-01-01 00:00:00' at")
        for call in (lambda: table.optimize(["id", "k"]), table.compact, lambda: table.append(new)):
            with pytest.raises(UnsupportedError, match=r'partitions by "at" \(timestamp'):
                call()
        assert sorted(tmp_path.rglob("*")) == before
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
        spark.conf.unset("spark.databricks.delta.write.utcTimestampPartitionValues")


def test_what_delta_refuses_is_no_error_of_java(engine_spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    engine_spark.range(9).write.format("delta").save(path)
    log = tmp_path / "t" / "_delta_log" / f"{0:020d}.json"
    log.write_text(
        log.read_text().replace('"configuration":{', '"configuration":{"delta.columnMapping.mode":"none such"')
    )
    for checksum in log.parent.glob("*.crc"):
        checksum.unlink()
    for checksum in log.parent.glob(".*.crc"):
        checksum.unlink()
    table = zskip.table(engine_spark, path)
    for call in (table.df, table.verify, lambda: table.optimize(["id"], curve="linear")):
        with pytest.raises(ZskipError):
            call()
