"""Iceberg tables that Iceberg itself has written."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from iceberg_rows import create, load, same

import zskip
from zskip.errors import UnsupportedError, ZskipWarning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_table_of_a_hadoop_catalog(engine_spark: SparkSession) -> None:
    engine_spark.sql("CREATE TABLE local.db.plain (id BIGINT, region STRING) USING iceberg PARTITIONED BY (region)")
    for start in (0, 100):
        rows = engine_spark.range(start, start + 100).selectExpr("id", "concat('r', id % 2) AS region")
        rows.writeTo("local.db.plain").append()
    warehouse = engine_spark.conf.get("spark.sql.catalog.local.warehouse")
    table = zskip.table(engine_spark, f"{warehouse}/db/plain")
    assert table.df().exceptAll(engine_spark.table("local.db.plain")).count() == 0
    assert table.df().count() == 200
    assert 1 <= len(table.files("id >= 100 AND region = 'r1'")) < len(table.files("true"))


def test_files_with_deletes_lack_different_sketches(engine_spark: SparkSession) -> None:
    name = "local.db.sketched"
    spark = engine_spark
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    modes = "'write.delete.mode' = 'merge-on-read'"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, k BIGINT) USING iceberg TBLPROPERTIES ({modes})")
    table = zskip.table(spark, name)
    spark.sql(f"INSERT INTO {name} SELECT id, id * 7 FROM range(0, 100, 1, 1)")
    spark.sql(f"DELETE FROM {name} WHERE id = 3")
    table.index(sketches=["values:id"])
    spark.sql(f"INSERT INTO {name} SELECT id, id * 7 FROM range(100, 200, 1, 1)")
    table.index(sketches=["values:id", "values:k"])
    assert table.df().where("k = 70").count() == 1
    assert table.prune("k = 70").files == 1


def test_a_file_of_milliseconds_is_read_by_iceberg(engine_spark: SparkSession) -> None:
    """Iceberg's own readers do not agree on such files, so zskip neither skips by them nor rewrites them."""
    spark, name = engine_spark, create(engine_spark, columns="id BIGINT, ts TIMESTAMP")
    times = [dt.datetime(2024, 1, 1) + dt.timedelta(hours=i) for i in range(10)]
    directory = Path(zskip.table(spark, name).path) / "data"
    directory.mkdir(exist_ok=True)
    file = pa.table({"id": pa.array(range(10), pa.int64()), "ts": pa.array(times, pa.timestamp("ms", "UTC"))})
    pq.write_table(file, directory / "a.parquet")
    procedure = f"local.system.add_files(table => '{name.removeprefix('local.')}', source_table => "
    spark.sql(f"CALL {procedure}'`parquet`.`{directory}`')")
    table = zskip.table(spark, name)
    for where in ("true", "ts > timestamp'1990-01-01'", "ts < timestamp'1990-01-01'"):
        with pytest.warns(ZskipWarning, match="holds timestamps in the unit ms"):
            assert same(table.df().where(where), spark.table(name).where(where))
    before = _head(spark, name)
    for call in (table.index, table.files, table.verify, lambda: table.optimize(["id", "ts"]), table.compact):
        with pytest.raises(UnsupportedError, match=r'a\.parquet", whose column "ts" holds timestamps in the unit ms'):
            call()
    assert _head(spark, name) == before


def _head(spark: SparkSession, name: str) -> int:
    return int(load(spark, name).currentSnapshot().snapshotId())
