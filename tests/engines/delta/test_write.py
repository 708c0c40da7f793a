"""Delta tables that zskip wrote without a jar, as Delta Lake itself sees them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import zskip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def test_delta_lake_reads_and_writes_it(engine_spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    df = engine_spark.range(1000).selectExpr("id", "id * 7919 % 1009 AS a", "concat('p ', id % 3) AS p")
    zskip.write(df, path, by=["id", "a"], files=6, partition_by="p", format="delta")
    delta = engine_spark.read.format("delta")
    assert sorted(delta.load(path).collect()) == sorted(df.collect())
    more = df.selectExpr("id + 1000 AS id", "a", "p")
    more.write.format("delta").mode("append").save(path)
    zskip.table(engine_spark, path).append(more.selectExpr("id + 1000 AS id", "a", "p"))
    assert delta.load(path).count() == 3000
    assert delta.option("versionAsOf", 0).load(path).count() == 1000
    zskip.write(more, path, by=["a", "id"], format="delta", mode="overwrite")
    assert sorted(engine_spark.read.format("delta").load(path).collect()) == sorted(more.collect())
    history = engine_spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()
    assert [row.operation for row in history] == ["WRITE", "WRITE", "WRITE", "CREATE TABLE AS SELECT"]
    assert history[0].operationParameters["mode"] == "Overwrite"
    engine_spark.sql(f"VACUUM delta.`{path}`")
    assert engine_spark.read.format("delta").load(path).count() == 1000


def test_a_name_of_the_sessions_catalog(engine_spark: SparkSession, tmp_path: Path) -> None:
    engine_spark.sql(f"CREATE DATABASE IF NOT EXISTS written_delta LOCATION '{tmp_path}/db'")
    try:
        zskip.sql(
            engine_spark,
            "CREATE TABLE written_delta.t USING delta CLUSTER BY (id, a) AS SELECT id, id * 7 % 31 a FROM range(100)",
        )
        assert engine_spark.table("written_delta.t").count() == 100
        engine_spark.sql("INSERT INTO written_delta.t VALUES (1000, 1)")
        zskip.sql(engine_spark, "INSERT INTO written_delta.t SELECT 2000, 2")
        assert engine_spark.table("written_delta.t").count() == 102
    finally:
        engine_spark.sql("DROP DATABASE written_delta CASCADE")
