"""Iceberg tables that zskip rewrites: through the session's own catalog, or for the session's own Iceberg to read."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from iceberg_rows import create, rows, same

import zskip
from zskip.errors import ConflictError, StorageError, TableNotFoundError
from zskip.formats import StagedFile
from zskip.formats.iceberg import catalog as iceberg_catalog

pytest.importorskip("sqlalchemy")

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def filled(spark: SparkSession, **options: Any) -> str:
    name = create(spark, **options)
    for start in (0, 2000):
        rows(spark, start).writeTo(name).append()
    return name


def snapshots(spark: SparkSession, name: str) -> list[Any]:
    return spark.sql(f"SELECT * FROM {name}.snapshots ORDER BY committed_at").collect()


def files_read(frame: DataFrame) -> int:
    """How many data files Iceberg's own scan of a frame has left, as it counts them itself."""
    frame.collect()
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
    plans = [leaves.apply(i) for i in range(leaves.size())]
    plans = [plan.executedPlan() if plan.metrics().isEmpty() else plan for plan in plans]
    found = [plan.collectLeaves().apply(0).metrics() for plan in plans]
    return sum(metrics.apply("resultDataFiles").value() for metrics in found)


def test_a_table_of_the_sessions_catalog_is_optimized(engine_spark: SparkSession) -> None:
    name = filled(engine_spark, partitioned="days(day), bucket(2, id)")
    before = rows(engine_spark, 0, 4000)
    table = zskip.table(engine_spark, name)
    result = table.optimize(["id", "k"], files=12)
    own = engine_spark.table(name)
    assert same(own, before)
    assert same(table.df(), before)
    assert 12 == result.files_after == engine_spark.table(f"{name}.files").count()
    last = snapshots(engine_spark, name)[-1]
    assert last["operation"] == "replace"
    assert last["summary"]["total-records"] == "4000"
    assert 1 <= files_read(own.where("id < 200 AND k < 1000")) < 12
    assert files_read(own.where("id < 0")) == 0
    assert table.info().layout is not None
    old = snapshots(engine_spark, name)[-2]["snapshot_id"]
    assert same(engine_spark.read.option("versionAsOf", old).table(name), before)
    # What comes later is Iceberg's as ever.
    engine_spark.sql(f"DELETE FROM {name} WHERE id % 10 = 0")
    rows(engine_spark, 5000, 10).writeTo(name).append()
    after = before.where("id % 10 <> 0").unionAll(rows(engine_spark, 5000, 10))
    assert same(engine_spark.table(name), after)
    assert same(table.df(), after)
    assert table.optimize(["id", "k"], files=3).rows == after.count()
    assert same(engine_spark.table(name), after)


@pytest.mark.slow
def test_a_statement_names_a_table_of_the_catalog(engine_spark: SparkSession) -> None:
    name = "local.db.`odd-name`"
    rows(engine_spark, 0, 4000).writeTo(name).create()
    zskip.sql(engine_spark, f"OPTIMIZE {name} ZORDER BY (id, k)")
    assert len(zskip.table(engine_spark, "local.db.odd-name").files("id < 0")) == 0
    assert snapshots(engine_spark, name)[-1]["operation"] == "replace"
    assert same(engine_spark.table(name), rows(engine_spark, 0, 4000))


@pytest.mark.slow
def test_another_writer_meanwhile(engine_spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from zskip.formats import IcebergFormat

    replace = IcebergFormat.replace
    meanwhile: list[str] = []

    def late(self: IcebergFormat, base: Any, removed: Any, added: list[StagedFile], info: Any = None) -> int:
        while meanwhile:
            engine_spark.sql(meanwhile.pop())
        return replace(self, base, removed, added, info)

    monkeypatch.setattr(IcebergFormat, "replace", late)
    name = filled(engine_spark)
    table = zskip.table(engine_spark, name)
    meanwhile.append(f"INSERT INTO {name} SELECT id + 9000, k, name, x, n, day FROM {name} WHERE id < 10")
    table.optimize(["id", "k"], files=4)
    assert engine_spark.table(name).count() == 4010
    for mode in ("copy-on-write", "merge-on-read"):
        engine_spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.delete.mode' = '{mode}')")
        meanwhile.append(f"DELETE FROM {name} WHERE id = (SELECT max(id) FROM {name} WHERE id < 10)")
        with pytest.raises(ConflictError, match=r"call again|another writer changed the table"):
            table.optimize(["id", "k"], files=4)
    assert engine_spark.table(name).count() == 4008
    root = Path(table.path)
    assert not any(path.is_file() for path in (root / "_zskip" / "staging").rglob("*"))
    table.optimize(["id", "k"], files=4)  # Iceberg itself takes the deleted rows out.
    meanwhile.append(f"DROP TABLE {name}")
    with pytest.raises(TableNotFoundError, match="any more"):
        table.optimize(["id", "k"], files=4)


def test_a_name_that_no_catalog_has(engine_spark: SparkSession) -> None:
    with pytest.raises(TableNotFoundError, match=r"local\.db\.nothing"):
        zskip.table(engine_spark, "local.db.nothing")


@pytest.mark.slow
def test_others_read_what_was_committed_without_a_jvm(engine_spark: SparkSession, tmp_path: Path) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/wh")
    catalog.create_namespace("db")
    content = pa.table(
        {"id": range(4000), "k": [i * 7919 % 2003 for i in range(4000)], "s": [f"é{i}" for i in range(4000)]}
    )
    made = catalog.create_table("db.t", content.schema)
    made.append(content)
    zskip.table(engine_spark, made).optimize(["id", "k"], files=8)
    metadata = catalog.load_table("db.t").metadata_location
    expected = content.sort_by("id").to_pylist()
    assert pl.scan_iceberg(metadata).collect().sort("id").to_dicts() == expected
    own = engine_spark.read.format("iceberg").load(metadata)
    assert [row.asDict() for row in own.orderBy("id").collect()] == expected
    assert 1 <= files_read(own.where("id < 200")) < 8
    assert files_read(own.where("s = 'a'")) == 0
    planned = list(made.refresh().scan("id < 200").plan_files())
    assert 1 <= len(planned) < 8
    with duckdb.connect() as connection:
        try:
            connection.execute("LOAD iceberg")
        except duckdb.Error:
            return
        found = connection.sql(f"SELECT * FROM iceberg_scan('{metadata}') ORDER BY id").to_arrow_table()
        assert found.to_pylist() == expected


@pytest.mark.slow
def test_a_catalog_of_the_session_that_is_down(engine_spark: SparkSession) -> None:
    settings = {
        "spark.sql.catalog.down": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.down.type": "rest",
        "spark.sql.catalog.down.uri": "http://127.0.0.1:9",
    }
    spark = engine_spark.newSession()
    for key, value in settings.items():
        spark.conf.set(key, value)
    with pytest.raises(StorageError, match=r"down\.db\.t.*[Cc]onnect.*spark\.sql\.catalog"):
        zskip.table(spark, "down.db.t")
    spark.conf.set("spark.sql.catalog.less", settings["spark.sql.catalog.down"])
    spark.conf.set("spark.sql.catalog.less.type", "rest")
    with pytest.raises(StorageError, match=r"less\.db\.t.*uri.*spark\.sql\.catalog"):
        zskip.table(spark, "less.db.t")


@pytest.mark.slow
def test_a_catalog_of_the_session_that_is_silent(engine_spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iceberg_catalog, "TIMEOUT", 2.0)
    spark = engine_spark.newSession()
    with socket.create_server(("127.0.0.1", 0)) as server:
        spark.conf.set("spark.sql.catalog.silent", "org.apache.iceberg.spark.SparkCatalog")
        spark.conf.set("spark.sql.catalog.silent.type", "rest")
        spark.conf.set("spark.sql.catalog.silent.uri", f"http://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(StorageError, match=r"silent\.db\.t.*no answer within 2 seconds"):
            zskip.table(spark, "silent.db.t")


@pytest.mark.slow
def test_metadata_that_the_session_names_is_gone(engine_spark: SparkSession) -> None:
    name = filled(engine_spark)
    table = zskip.table(engine_spark, name)
    for file in (Path(table.path) / "metadata").glob("*.json"):
        file.unlink()
    with pytest.raises((StorageError, TableNotFoundError), match=r"metadata|local\.db"):
        table.df()
