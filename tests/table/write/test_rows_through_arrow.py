"""The rows of a DataFrame become files through Arrow, as Spark writes them, and by Spark where Arrow lacks a type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiers
import typed_tables
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import zskip
from zskip.spark.write.arrow import dividing, job, placing, spool
from zskip.spark.write.arrow.spool import Spool

pytestmark = pytest.mark.spark
SEED = 11


@pytest.fixture
def rows(spark: SparkSession, tmp_path: Path) -> Iterator[DataFrame]:
    """All types, nested ones too, of a plan that is no scan of files, in a session with a time zone of its own."""
    table = typed_tables.random_table(np.random.default_rng(SEED))
    (tmp_path / "source").mkdir()
    pq.write_table(table, tmp_path / "source" / "0.parquet", row_group_size=100)
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/St_Johns")
    # Spark 3.5 refuses days before 1582 by default.
    modes = [f"spark.sql.parquet.datetimeRebaseModeIn{way}" for way in ("Read", "Write")]
    for mode in modes:
        spark.conf.set(mode, "CORRECTED")
    frame = spark.read.parquet(str(tmp_path / "source")).repartition(3)
    more = (
        "array(i, null, v) AS li",
        "map(id, named_struct('f', f, 's', s)) AS mp",
        "cast(id % 3 AS int) AS p",
        "cast(h AS tinyint) AS z",
    )
    yield frame.selectExpr("*", *more)
    spark.conf.set("spark.sql.session.timeZone", zone)
    for mode in modes:
        spark.conf.unset(mode)


def content(spark: SparkSession, path: str) -> list[str]:
    """Each row as Spark shows it."""
    frame = spark.read.parquet(path)
    return sorted(repr(row) for row in frame.select(*sorted(frame.columns)).collect())


def writers(path: Path) -> set[str]:
    """The programs that wrote the files."""
    files = [file for file in path.rglob("*.parquet") if "_zskip" not in file.parts]
    assert files
    return {pq.read_metadata(file).created_by.split(" version")[0] for file in files}


@pytest.mark.parametrize(("files", "partition_by"), tiers.nightly([(7, ["p"]), (1, []), (7, []), (1, ["p"])]))
def test_every_type_is_as_spark_writes_it(
    spark: SparkSession, tmp_path: Path, rows: DataFrame, files: int, partition_by: list[str]
) -> None:
    rows.write.partitionBy(*partition_by).parquet(str(tmp_path / "spark"))
    result = zskip.write(rows, str(tmp_path / "t"), by=["i", "s"], files=files, partition_by=partition_by)
    assert result.rows == typed_tables.ROWS
    assert writers(tmp_path / "t") == {"parquet-cpp-zskip"}
    assert content(spark, str(tmp_path / "t")) == content(spark, str(tmp_path / "spark"))
    ours, theirs = (spark.read.parquet(str(tmp_path / name)).schema for name in ("t", "spark"))
    assert ours == theirs
    assert zskip.table(spark, str(tmp_path / "t")).verify(queries=1).ok


@pytest.mark.slow
def test_a_table_without_an_order_takes_rows_as_they_come(spark: SparkSession, tmp_path: Path, rows: DataFrame) -> None:
    rows.write.partitionBy("p").parquet(str(tmp_path / "t"))
    before = content(spark, str(tmp_path / "t"))
    result = zskip.table(spark, str(tmp_path / "t")).append(rows)
    assert (result.rows, result.files, result.curve) == (typed_tables.ROWS, 3, "input order")
    assert writers(tmp_path / "t") == {"parquet-mr", "parquet-cpp-zskip"}
    assert content(spark, str(tmp_path / "t")) == sorted(before * 2)


def test_little_memory_changes_nothing(
    spark: SparkSession, tmp_path: Path, rows: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.write.parquet(str(tmp_path / "spark"))
    for module, name, value in (
        (placing, "_PENDING_BYTES", 9_000),
        (dividing, "PENDING_BYTES", 20_000),
        (job, "_ROWS_A_BATCH", 16),
    ):
        monkeypatch.setattr(module, name, value)
    zskip.write(rows, str(tmp_path / "t"), by=["i", "s"], files=5)
    assert writers(tmp_path / "t") == {"parquet-cpp-zskip"}
    assert content(spark, str(tmp_path / "t")) == content(spark, str(tmp_path / "spark"))


def test_a_long_run_of_equal_keys_is_spread_by_what_rows_hold(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(4_000).selectExpr("id", "0 AS a", "0 AS b").repartition(4)
    result = zskip.write(rows, str(tmp_path / "t"), by=["a", "b"], files=4)
    assert result.files > 1
    assert [row.id for row in spark.read.parquet(str(tmp_path / "t")).sort("id").collect()] == list(range(4_000))


def test_a_type_that_arrow_does_not_hold_is_written_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(200).selectExpr("id AS a", "id % 7 AS b", "make_dt_interval(0, 0, 0, id) AS c").repartition(2)
    result = zskip.write(rows, str(tmp_path / "t"), by=["a", "b"], files=3)
    assert result.rows == 200
    assert writers(tmp_path / "t") == {"parquet-mr"}
    assert content(spark, str(tmp_path / "t")) == sorted(repr(row) for row in rows.collect())


def test_other_sessions_stay_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    names = ("spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.adaptive.enabled")
    before = {name: spark.conf.get(name) for name in names}
    active = SparkSession.getActiveSession()
    local = {name: spark.sparkContext.getLocalProperty(name) for name in names}
    zskip.write(spark.range(100).selectExpr("id AS a", "id AS b").repartition(2), str(tmp_path / "t"), by=["a", "b"])
    assert {name: spark.conf.get(name) for name in names} == before
    assert {name: spark.sparkContext.getLocalProperty(name) for name in names} == local
    after = SparkSession.getActiveSession()
    assert active is not None
    assert after is not None
    assert active._jsparkSession.equals(after._jsparkSession)


@pytest.mark.slow
def test_files_are_as_small_as_sparks_own(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(60_000).selectExpr(
        "id * 7919 % 60000 AS a", "id % 97 AS b",
        "element_at(array('AIR', 'RAIL', 'SHIP'), cast(id % 3 + 1 AS int)) AS mode",
        "cast(id % 5000 AS decimal(12, 2)) AS price", "sha(cast(id AS string)) AS text", "id % 1000 / 7 AS ratio",
    )  # fmt: skip
    zskip.write(rows.repartition(2), str(tmp_path / "t"), by=["a", "b"], files=2)
    files = list((tmp_path / "t").glob("*.parquet"))
    for file in files:
        again = tmp_path / "again" / file.name
        spark.read.parquet(str(file)).coalesce(1).write.option("compression", "zstd").parquet(str(again))
        (theirs,) = again.glob("*.parquet")
        assert file.stat().st_size <= 1.03 * theirs.stat().st_size
        assert pq.read_metadata(file).row_group(0).column(2).has_dictionary_page


def test_the_plan_runs_once_and_comes_in_large_batches(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, sizes = spool._record, spark.sparkContext.accumulator(0)

    def counting(common: Any, **values: Any) -> pa.RecordBatch:
        sizes.add("batch" in values)
        return record(common, **values)

    monkeypatch.setattr(spool, "_record", counting)
    read = spark.sparkContext.accumulator(0)

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            read.add(batch.num_rows)
            yield batch

    rows = spark.range(0, 3000, 1, 3).mapInArrow(count, "id bigint").selectExpr("id", "pmod(hash(id), 7) AS a")
    path = str(tmp_path / "t")
    zskip.write(rows, path, by=["id", "a"], files=4)
    assert (read.value, sizes.value) == (3000, 3)
    zskip.table(spark, path).append(rows)
    assert read.value == 6000
    assert sorted(row.id for row in spark.read.parquet(path).collect()) == sorted(2 * list(range(3000)))


def test_rows_of_two_runs_never_come_together(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches, losses = Spool.batches.fget, []
    assert batches is not None

    def lose(spool: Spool) -> DataFrame:
        """What is on disk is lost after the first sample, as with an executor."""
        if not losses:
            context, env = spark.sparkContext._jsc, spark._jvm.org.apache.spark.SparkEnv  # type: ignore[union-attr]
            losses.extend(list(context.getPersistentRDDs().keySet()))
            for number in losses:
                env.get().blockManager().master().removeRdd(number, True)
        return batches(spool)

    monkeypatch.setattr(Spool, "batches", property(lose))
    # Each run puts the rows into another order, and into other partitions.
    rows = spark.range(0, 3000, 1, 3).repartition(3, F.rand()).selectExpr("id", "1 AS a")
    result = zskip.write(rows, str(tmp_path / "t"), by=["a"], curve="linear", files=4)
    assert losses
    assert result.rows == 3000
    assert sorted(row.id for row in spark.read.parquet(str(tmp_path / "t")).collect()) == list(range(3000))
    assert not spark.sparkContext._jsc.getPersistentRDDs()
