"""`Table.append` on every format: new rows in the table's own order, each row once, and clear refusals."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import deltalake
import pyarrow as pa
import pytest
import tiers
from format_tables import FORMATS, Maker, content, opened, rows_of
from new_rows import frame_of, points
from pyspark.sql import DataFrame, SparkSession

import zskip
from zskip.errors import ColumnError, ConflictError, InputError, UnsupportedError


@pytest.fixture(params=FORMATS, ids=lambda maker: maker.name)
def maker(request: pytest.FixtureRequest) -> Maker:
    """Each format in turn."""
    table_maker: Maker = request.param
    return table_maker


one_format = pytest.mark.parametrize("maker", tiers.nightly(FORMATS), ids=lambda maker: maker.name)
"""For what `tests/formats/test_append.py` asks of each format without Spark."""


@one_format
def test_new_rows_lie_in_the_order_of_the_table(maker: Maker, tmp_path: Path, spark: SparkSession) -> None:
    path = tmp_path / "t ä"
    maker.append(path, points(0), partitioned=False)
    table = zskip.table(spark, maker.address(path))
    table.optimize(["a", "b"], files=16)
    before = opened(path).snapshot()
    expected = rows_of(maker.read(path)) + rows_of(points(4000))
    new = frame_of(spark, points(4000))
    result = table.append(new.select("b", "id", "a"))
    assert rows_of(maker.read(path)) == expected
    after = opened(path).snapshot()
    assert set(before.paths) < set(after.paths)
    assert (result.rows, result.files, result.by, result.curve) == (4000, len(after) - 16, ("a", "b"), "zorder")
    assert 12 <= result.files <= 20
    assert result.version == after.version > before.version
    assert result.bytes == int(after.sizes.sum() - before.sizes.sum())
    assert 2 <= result.jobs <= 8
    assert result.predicted_share is not None
    assert 0 < result.predicted_share < 0.6
    assert list(result.seconds) == ["check", "partitions", "write", "commit", "index"]
    # A query of a part of both columns reads few of the new files.
    assert len([f for f in table.files("a < 500 AND b < 90") if Path(f).name not in _names(before)]) <= 5
    assert table.df().count() == 8000
    assert table.verify(queries=1).ok
    info = table.info()
    assert info.layout is not None
    assert (info.layout.files, info.layout.files_since) == (len(after), 0)
    assert table.history()[0].operation == "append"
    table.append(frame_of(spark, points(8000, 100)))
    table.maintain()
    assert rows_of(maker.read(path)) == expected + rows_of(points(8000, 100))


def _names(snapshot: Any) -> set[str]:
    return {path.rpartition("/")[2] for path in snapshot.paths}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("by", "curve", "build"),
    [(["a", "b"], "fitted", "sample"), (["a"], "linear", "direct")],
)
def test_every_kind_of_layout(by: list[str], curve: str, build: str, tmp_path: Path, spark: SparkSession) -> None:
    maker = FORMATS[0]
    maker.append(tmp_path / "t", points(0), partitioned=False)
    table = zskip.table(spark, str(tmp_path / "t"))
    table.optimize(by, curve=curve, build=build, files=8)
    result = table.append(frame_of(spark, points(4000)))
    assert (result.curve, result.by) == (curve, tuple(by))
    assert 4 <= result.files <= 12
    assert rows_of(maker.read(tmp_path / "t")) == rows_of(points(0)) + rows_of(points(4000))
    assert len(table.files("a < 300")) < len(table.files()) / 2
    assert table.verify(queries=1).ok


@pytest.mark.slow
def test_partitions_old_and_new(maker: Maker, tmp_path: Path, spark: SparkSession) -> None:
    path = tmp_path / "t"
    maker.append(path, content(40), partitioned=True)
    table = zskip.table(spark, maker.address(path))
    table.optimize(["id", "v"], files=8)
    kind = "id bigint, v double, name string, region string"
    new = [(100 + i, 0.5 * i, f"n{i}", (None, "eu", "sou/th")[i % 3]) for i in range(30)]
    if maker.name == "iceberg":
        with pytest.raises(UnsupportedError, match="is partitioned"):
            table.append(spark.createDataFrame(new, kind))
        return
    expected = rows_of(maker.read(path))
    result = table.append(spark.createDataFrame(new, kind))
    names = ("id", "v", "name", "region")
    expected += rows_of(pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in new]))
    assert rows_of(maker.read(path)) == expected
    assert result.rows == 30
    assert table.df().where("region = 'sou/th'").count() == 10
    assert table.df().where("region IS NULL").count() == 20
    assert len(table.files("region = 'sou/th'")) < len(table.files())
    with pytest.raises(InputError, match="cannot tell from null"):
        table.append(spark.createDataFrame([(1, 1.0, "x", "")], kind))
    with pytest.raises(ColumnError, match='the partition column "region" is missing'):
        table.append(spark.createDataFrame([(1,)], "id bigint"))
    assert rows_of(maker.read(path)) == expected


@one_format
def test_a_table_that_was_never_clustered(maker: Maker, tmp_path: Path, spark: SparkSession) -> None:
    maker.append(tmp_path / "t", points(0), partitioned=False)
    table = zskip.table(spark, maker.address(tmp_path / "t"))
    result = table.append(frame_of(spark, points(4000)).coalesce(2))
    assert (result.by, result.curve, result.files, result.rows) == ((), "input order", 2, 4000)
    assert rows_of(maker.read(tmp_path / "t")) == rows_of(points(0)) + rows_of(points(4000))
    assert table.info().layout is None


def test_a_key_that_is_gone_or_lost_its_order(
    tmp_path: Path, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, pa.table({"id": range(100), "k": range(100)}))
    table = zskip.table(spark, path)
    table.optimize(by=["k"], curve="linear", files=2)
    for columns, value in (("id bigint", (1,)), ("id bigint, k map<string, int>", (1, {"a": 1}))):
        new = spark.createDataFrame([value], columns)
        deltalake.write_deltalake(path, new.toArrow(), mode="overwrite", schema_mode="overwrite")
        result = table.append(new)
        assert (result.by, result.curve, result.rows) == ((), "input order", 1)
        assert table.df().collect() == [value, value]
        assert "was clustered by k, which is no longer possible" in caplog.text
        caplog.clear()


@one_format
def test_columns_and_types_are_checked(maker: Maker, tmp_path: Path, spark: SparkSession) -> None:
    path = tmp_path / "t"
    maker.append(path, content(40), partitioned=False)
    table = zskip.table(spark, maker.address(path))
    table.optimize(["id", "v"], files=2)
    before, paths = rows_of(maker.read(path)), opened(path).snapshot().paths
    bad = spark.sql("SELECT 1 AS id, 2.0D AS v, 3 AS extra")
    with pytest.raises(ColumnError, match='"id" is of type int, and bigint in the table; "extra" is not in the table'):
        table.append(bad)
    with pytest.raises(ColumnError, match='more than one column "id"'):
        table.append(spark.sql("SELECT 1L AS id, 2L AS ID"))
    with pytest.raises(InputError, match="no columns"):
        table.append(spark.range(3).drop("id"))
    with pytest.raises(InputError, match="foreachBatch"):
        table.append(spark.readStream.format("rate").load())
    with pytest.raises(InputError, match="is not a Spark DataFrame"):
        table.append([1, 2])  # type: ignore[arg-type]
    empty = table.append(spark.range(5).where("id > 9"))
    assert (empty.rows, empty.files, empty.version) == (0, 0, opened(path).snapshot().version)
    with pytest.raises(InputError, match="batch="):
        table.append(spark.range(5), batch="orders")  # type: ignore[arg-type]
    assert opened(path).snapshot().paths == paths
    result = table.append(spark.range(100, 105))
    assert result.rows == 5
    assert rows_of(maker.read(path)) == before + rows_of(pa.table({"id": range(100, 105)}))


def test_columns_that_must_not_be_null(tmp_path: Path, spark: SparkSession) -> None:
    from deltalake import DeltaTable, Field, Schema
    from deltalake.schema import PrimitiveType

    fields = [Field("id", PrimitiveType("long"), nullable=False), Field("a", PrimitiveType("long"))]
    DeltaTable.create(str(tmp_path), Schema(fields))
    table = zskip.table(spark, str(tmp_path))
    with pytest.raises(ColumnError, match='"id", which must not be null, is missing'):
        table.append(spark.range(5).selectExpr("id AS a"))
    with pytest.raises(InputError, match="hold a null"):
        table.append(spark.sql("SELECT cast(NULL AS BIGINT) AS id"))
    assert not list((tmp_path / "_zskip" / "staging").glob("*"))
    assert table.append(spark.range(5)).rows == 5


def test_jobs_are_those_of_the_call(tmp_path: Path, spark: SparkSession) -> None:
    maker, stop = FORMATS[0], Event()
    maker.append(tmp_path / "t", points(0), partitioned=False)
    table = zskip.table(spark, str(tmp_path / "t"))
    table.optimize(["a", "b"], files=4)
    alone = table.append(frame_of(spark, points(4000, 500))).jobs

    def run_others() -> None:
        while not stop.is_set():
            spark.range(10).collect()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(run_others)
        try:
            assert table.append(frame_of(spark, points(5000, 500))).jobs == alone
        finally:
            stop.set()


def test_a_plan_that_gives_other_rows_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    import pyspark.sql.functions as F

    maker, path = FORMATS[0], tmp_path / "t"
    maker.append(path, content(40), partitioned=True)
    counter = spark.sparkContext.accumulator(0)

    def region(i: int) -> str:
        counter.add(1)
        import random

        return f"r{random.random()}"

    rows = spark.range(20).select(F.col("id"), F.udf(region)("id").alias("region"))
    with pytest.raises(Exception, match="persist it"):
        zskip.table(spark, str(path)).append(rows)
    assert rows_of(maker.read(path)) == rows_of(content(40))
    assert not list((path / "_zskip" / "staging").glob("*/*"))


def test_a_failed_commit_leaves_the_table_as_it_was(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zskip.formats import ParquetFormat

    maker, path = FORMATS[0], tmp_path / "t"
    maker.append(path, content(40), partitioned=False)

    def fail(*arguments: object, **options: object) -> None:
        raise ConflictError("refused")

    monkeypatch.setattr(ParquetFormat, "append", fail)
    with pytest.raises(ConflictError, match="refused"):
        zskip.table(spark, str(path)).append(spark.range(5))
    assert rows_of(maker.read(path)) == rows_of(content(40))
    assert not list((path / "_zskip" / "staging").glob("*"))


@pytest.mark.parametrize("name", tiers.nightly(["delta", "parquet"]))
def test_a_stream_killed_after_a_commit_adds_no_row_twice(name: str, tmp_path: Path, spark: SparkSession) -> None:
    from format_tables import maker as maker_of

    maker, path = maker_of(name), tmp_path / "t"
    maker.append(path, points(0, 100), partitioned=False)
    table = zskip.table(spark, maker.address(path))
    (tmp_path / "in").mkdir()
    for i in (1, 2):
        frame_of(spark, points(100 * i, 100)).coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
    failures = [RuntimeError("killed")]

    def write(batch: DataFrame, number: int) -> None:
        table.append(batch, batch=("orders", number))
        if failures:
            raise failures.pop()

    def run() -> None:
        stream = spark.readStream.schema("id bigint, a bigint, b bigint").option("maxFilesPerTrigger", 1)
        query = stream.parquet(str(tmp_path / "in")).writeStream.foreachBatch(write)
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        query.start().awaitTermination()

    with pytest.raises(Exception, match="killed"):
        run()
    assert len(maker.read(path)) == 200
    run()
    assert rows_of(maker.read(path)) == sum((rows_of(points(100 * i, 100)) for i in range(3)), rows_of(points(0, 0)))
