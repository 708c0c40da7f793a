"""`zskip.write` on every format: one pass from rows to a clustered table, whole or not at all, and clear refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiers
from format_tables import FORMATS, Maker, rows_of
from new_rows import frame_of, points
from pyspark.sql import DataFrame, SparkSession

import zskip
from zskip.errors import ColumnError, InputError, UnsupportedError


@pytest.fixture(params=FORMATS, ids=lambda maker: maker.name)
def maker(request: pytest.FixtureRequest) -> Maker:
    """Each format in turn."""
    table_maker: Maker = request.param
    return table_maker


def target_of(maker: Maker, path: Path) -> str:
    """Where a new table is written; an Iceberg catalog decides where it lies."""
    if maker.name != "iceberg":
        return str(path)
    import os

    from pyiceberg.catalog.sql import SqlCatalog

    address = maker.address(path)
    catalog = address.partition(".")[0]
    os.environ[f"PYICEBERG_CATALOG__{catalog.upper()}__WAREHOUSE"] = f"file://{path.parent}/warehouse"
    SqlCatalog(catalog, uri=f"sqlite:///{path}.db").create_namespace_if_not_exists("db")
    return address


@pytest.mark.parametrize("scanned", tiers.nightly([False, True]), ids=["rows", "scan"])
def test_a_new_table(maker: Maker, scanned: bool, tmp_path: Path, spark: SparkSession) -> None:
    target = target_of(maker, tmp_path / "t ä")
    df = frame_of(spark, points(0))
    if scanned:
        df.repartition(3).write.parquet(str(tmp_path / "source"))
        df = spark.read.parquet(str(tmp_path / "source"))
    result = zskip.write(df, target, by=["a", "b"], files=16, format=maker.name)
    assert (result.rows, result.by, result.curve) == (4000, ("a", "b"), "zorder")
    assert 12 <= result.files <= 16
    assert result.predicted_share is not None
    assert 0 < result.predicted_share < 0.6
    assert 2 <= result.jobs <= 12
    assert list(result.seconds)[-2:] == ["commit", "index"]
    table = zskip.table(spark, target)
    assert table.path == result.path
    assert rows_of(maker.read(tmp_path / "t ä")) == rows_of(points(0))
    snapshot = table._handle.format.snapshot()
    assert (len(snapshot), int(snapshot.sizes.sum()), snapshot.version) == (result.files, result.bytes, result.version)
    assert len(table.files("a < 500 AND b < 90")) <= 5
    info = table.info()
    assert info.layout is not None
    assert (info.layout.by, info.layout.files_since) == (("a", "b"), 0)
    assert table.history()[0].operation in ("write", "append")
    with pytest.raises(InputError, match="already exists"):
        zskip.write(df, target, by=["a", "b"], format=maker.name)
    added = zskip.write(frame_of(spark, points(4000)), target, by=["a", "b"], format=maker.name, mode="append")
    assert (added.rows, added.curve) == (4000, "zorder")
    assert rows_of(maker.read(tmp_path / "t ä")) == rows_of(points(0)) + rows_of(points(4000))
    new = zskip.write(
        frame_of(spark, points(9000, 500)), target, by=["b", "a"], curve="hilbert", files=4, format=maker.name,
        mode="overwrite",
    )  # fmt: skip
    assert (new.rows, new.by, new.curve) == (500, ("b", "a"), "hilbert")
    assert rows_of(maker.read(tmp_path / "t ä")) == rows_of(points(9000, 500))
    assert zskip.table(spark, target).df().count() == 500
    assert zskip.table(spark, target).verify(queries=1).ok


@pytest.mark.parametrize("name", tiers.nightly(["delta", "parquet"]))
def test_partitions(name: str, tmp_path: Path, spark: SparkSession) -> None:
    rows = spark.range(400).selectExpr(
        "id AS a", "CASE WHEN id % 3 = 0 THEN NULL ELSE concat('r ', id % 3) END AS region", "id * 7 % 100 AS b"
    )
    result = zskip.write(
        rows, str(tmp_path / "t"), by=["a", "b"], files=6, partition_by="region", format=name, curve="auto"
    )
    assert result.rows == 400
    table = zskip.table(spark, str(tmp_path / "t"))
    back = table.df().select("a", "region", "b")
    assert sorted(back.collect(), key=str) == sorted(rows.collect(), key=str)
    assert len(table.files("region = 'r 1'")) < result.files
    with pytest.raises(InputError, match="is partitioned by region"):
        zskip.write(rows, table.path, by=["a", "b"], partition_by=["b"], format=name, mode="append")
    assert zskip.write(rows, table.path, by=["a", "b"], format=name, mode="append").rows == 400
    assert table.df().count() == 800


def test_a_size_of_files_without_a_number(tmp_path: Path, spark: SparkSession) -> None:
    df = spark.range(200_000).selectExpr("id", "hash(id) AS a", "hash(id, 1) AS b", "cast(hash(id, 2) AS string) AS c")
    result = zskip.write(df, str(tmp_path / "t"), by=["a", "b"], target_file_size="500kB")
    assert 250_000 < result.bytes / result.files < 1_000_000
    assert result.files > 5


@pytest.mark.parametrize("name", tiers.nightly(["delta", "parquet"]))
def test_types_that_few_engines_have(name: str, tmp_path: Path, spark: SparkSession) -> None:
    df = spark.sql(
        "SELECT id AS k, cast(id % 100 AS tinyint) AS tiny, timestamp_micros(id) AS ts, "
        "cast(timestamp_micros(id) AS timestamp_ntz) AS ntz, date_add(DATE '1500-01-01', cast(id AS int)) AS d, "
        "cast(id AS decimal(30, 3)) AS big, array(id) AS xs, map('a', id) AS m, struct(id AS x) AS s, "
        "cast('x' AS binary) AS bin FROM range(300)"
    )
    zskip.write(df, str(tmp_path / "t"), by=["ts", "d"], files=4, format=name)
    back = zskip.table(spark, str(tmp_path / "t")).df()
    assert sorted(map(str, back.collect())) == sorted(map(str, df.collect()))
    assert back.schema.simpleString() == df.schema.simpleString()


def test_a_tree_fitted_to_a_workload(tmp_path: Path, spark: SparkSession) -> None:
    queries = ["a < 100", "b = 3", "a BETWEEN 4000 AND 4100 AND b < 50"]
    df = frame_of(spark, points(0))
    result = zskip.write(df, str(tmp_path / "t"), by=["a", "b"], curve="fitted", files=12, workload=queries, unseen=0.1)
    assert result.curve == "fitted"
    table = zskip.table(spark, str(tmp_path / "t"))
    assert len(table.files("a < 100")) < 12
    assert table.append(frame_of(spark, points(4000, 1000))).curve == "fitted"
    assert table.verify(queries=1).ok


def test_a_table_of_the_sessions_catalog(tmp_path: Path, spark: SparkSession) -> None:
    spark.sql(f"CREATE DATABASE IF NOT EXISTS written LOCATION '{tmp_path}/db'")
    try:
        df = frame_of(spark, points(0))
        result = zskip.write(df, "written.events", by=["a", "b"], files=4)
        assert spark.table("written.events").count() == 4000
        assert zskip.table(spark, "written.events").path == result.path
        with pytest.raises(InputError, match="already exists"):
            zskip.write(df, "written.events", by=["a", "b"])
        with pytest.raises(ColumnError, match='"extra" is not in the table'):
            zskip.write(df.selectExpr("*", "1 AS extra"), "written.events", by=["a", "b"], mode="overwrite")
        zskip.write(df.limit(50), "written.events", by=["a", "b"], mode="overwrite")
        assert spark.table("written.events").count() == 50
        with pytest.raises(UnsupportedError, match="has not loaded Delta Lake"):
            zskip.write(df, "written.other", by=["a", "b"], format="delta")
    finally:
        spark.sql("DROP DATABASE written CASCADE")


def test_what_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    df, path = frame_of(spark, points(0, 100)), str(tmp_path / "t")
    (tmp_path / "file").write_text("x")

    def refused(error: type[Exception], match: str, rows: Any = df, target: Any = path, **options: Any) -> None:
        with pytest.raises(error, match=match):
            zskip.write(rows, target, **{"by": ["a", "b"], **options})
        assert not Path(path).exists()
        assert not list(tmp_path.glob(".*zskip*"))

    refused(InputError, "is a file", target=str(tmp_path / "file"))
    refused(InputError, "neither a path", target=7)
    refused(InputError, "has no rows", df.where("a < 0"))
    refused(InputError, "has no rows", df.where("a < 0"), partition_by=["id"])
    refused(InputError, "has no columns", df.select())
    refused(ColumnError, 'more than one column "a"', df.selectExpr("a", "a AS A", "b"))
    refused(ColumnError, 'no column "x"', by=["a", "x"])
    refused(ColumnError, "has no order", df.selectExpr("a", "array(b) AS b"))
    refused(ColumnError, "is a partition column", partition_by=["a"])
    refused(ColumnError, "is not a column", partition_by=["z"])
    refused(InputError, "leaves none for the files", partition_by=["a", "b", "id"])
    refused(InputError, 'catalog "lake"', target="lake.db.events")
    refused(InputError, "not a name in any Iceberg catalog", format="iceberg")
    refused(UnsupportedError, "optimize", format="hudi")
    refused(InputError, "format='csv'", format="csv")
    refused(InputError, "mode='ignore'", mode="ignore")
    refused(InputError, "foreachBatch", spark.readStream.format("rate").load())
    refused(InputError, "is not a Spark DataFrame", [1, 2])
    refused(InputError, "either files or", files=3, target_file_size=5)
    refused(InputError, 'by="auto"', by="auto")
    refused(ColumnError, "named twice", by=["a", "A"])
    refused(ColumnError, "Delta does not allow", df.withColumnRenamed("id", "an id"), format="delta")
    refused(
        UnsupportedError,
        "of type interval day to Delta",
        df.selectExpr("a", "b", "INTERVAL '1' DAY AS i"),
        format="delta",
    )
    refused(InputError, "needs at least 2 columns", by="a")


def test_columns_that_differ_by_case(tmp_path: Path, spark: SparkSession) -> None:
    from zskip.spark.jvm.compat import private_session

    sensitive = private_session(spark, {"spark.sql.caseSensitive": "true"})
    df = sensitive.sql("SELECT id AS a, 2 * id AS A, id AS b FROM range(50)")
    zskip.write(df, str(tmp_path / "t"), by=["a", "A"], files=2)
    table = zskip.table(sensitive, str(tmp_path / "t"))
    assert table.append(df).rows == 50
    assert table.df().columns == ["a", "A", "b"]


def test_a_table_that_the_rows_come_from_is_not_overwritten(maker: Maker, tmp_path: Path, spark: SparkSession) -> None:
    maker.append(tmp_path / "t", points(0, 200), partitioned=False)
    target = maker.address(tmp_path / "t")
    table = zskip.table(spark, target)
    frames: list[DataFrame] = [table.df()]
    if maker.name == "parquet":
        plain = spark.read.parquet(target)
        frames += [plain, plain.groupBy("b").count().join(frame_of(spark, points(0, 5)), "b")]
        plain.createOrReplaceTempView("own_rows")
        frames.append(spark.sql("SELECT id, id AS a, id AS b FROM range(5) WHERE id IN (SELECT a FROM own_rows)"))
    for df in frames:
        with pytest.raises(InputError, match="would overwrite"):
            zskip.write(df, target, by=["a", "b"], format=maker.name, mode="overwrite")
    assert rows_of(maker.read(tmp_path / "t")) == rows_of(points(0, 200))


def test_files_that_are_no_table_of_zskips(tmp_path: Path, spark: SparkSession) -> None:
    """One file, some of a directory's files, files of several schemas: Spark reads them."""
    (tmp_path / "in").mkdir()
    pq.write_table(points(0, 100), tmp_path / "in" / "a.parquet")
    pq.write_table(points(100, 100).append_column("more", pa.array(range(100))), tmp_path / "in" / "b.parquet")
    sources = [
        (spark.read.parquet(str(tmp_path / "in" / "a.parquet")), 100),
        (spark.read.option("mergeSchema", "true").parquet(str(tmp_path / "in" / "*.parquet")), 200),
    ]
    for number, (df, rows) in enumerate(sources):
        zskip.write(df, str(tmp_path / f"t{number}"), by=["a", "b"], files=2)
        back = zskip.table(spark, str(tmp_path / f"t{number}")).df()
        assert (back.count(), back.columns) == (rows, df.columns)
        assert sorted(map(str, back.collect())) == sorted(map(str, df.collect()))


def test_a_failed_write_leaves_nothing(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark.sql.functions as F

    df = frame_of(spark, points(0, 100))
    bad = df.withColumn("c", F.expr("raise_error('bad row')").cast("int"))
    with pytest.raises(Exception, match="bad row"):
        zskip.write(bad, str(tmp_path / "t"), by=["a", "b"], format="delta")
    assert list(tmp_path.iterdir()) == []
    zskip.write(df, str(tmp_path / "t"), by=["a", "b"])
    with pytest.raises(Exception, match="bad row"):
        zskip.write(bad, str(tmp_path / "t"), by=["a", "b"], mode="overwrite")
    assert rows_of(FORMATS[0].read(tmp_path / "t")) == rows_of(points(0, 100))
    assert not list((tmp_path / "t" / "_zskip" / "staging").glob("*"))
