"""Queries through `Table.df()`: the same answer as plain Spark, from fewer files."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from pathlib import Path

import manifests
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
import tables
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import zskip
from zskip.errors import IndexFormatError, ZskipWarning

pytestmark = pytest.mark.spark

PREDICATES = [
    "id BETWEEN 10 AND 40",
    "id IN (1, 5, 4000, 99999)",
    "id IN (" + ", ".join(map(str, range(0, 6000, 60))) + ")",
    "NOT (id > 100)",
    "id > 5900.5",
    "user IS NULL AND id < 1000",
    "user IS NOT NULL AND user < 3",
    "user <=> NULL",
    "user = NULL",
    "day = DATE '2024-03-01'",
    "day = '2024-03-01'",
    "day < '2024-01-05' OR day >= DATE '2024-10-20'",
    "at >= TIMESTAMP '2024-01-01 00:00:00' AND at < TIMESTAMP '2024-01-02 00:00:00'",
    "score > 2.5",
    "score < -2.5",
    "score = CAST('NaN' AS DOUBLE)",
    "score > 1e300",
    "NOT (score <= 3)",
    "name LIKE 'name-00%'",
    "name = 'name-0007'",
    "name >= 'name-29' AND NOT name LIKE 'name-299%'",
    "name LIKE '%77'",
    "price BETWEEN 10.5 AND 20",
    "price = 77.00",
    "flag AND id < 300",
    "NOT flag AND id < 300",
    "id % 7 = 3 AND id < 50",
    "id + 1 = 50",
    "array_contains(tags, 'b') AND id > 5990",
    "id < 10 OR id > 5990 OR name = 'name-0100'",
    "CASE WHEN id < 10 THEN true ELSE user = 7 END",
    "id < 0",
    "true",
    "false",
]


@pytest.fixture(scope="module")
def clustered(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tables.make_partitioned(tmp_path_factory.mktemp("query") / "t")
    zskip.table(spark, str(path)).optimize(by=["id", "user", "name"], files=24)
    return path


def rows_by_filter(frame: DataFrame, wheres: list[str]) -> list[str]:
    """The rows that meet each filter, from scans of their own, in one query."""
    parts = (frame.where(where).selectExpr(f"{i} AS i", "id", "xxhash64(*)") for i, where in enumerate(wheres))
    return sorted(map(repr, reduce(DataFrame.unionAll, parts).collect()))


def test_pruned_is_full(spark: SparkSession, clustered: Path) -> None:
    pruned, full = zskip.table(spark, str(clustered)).df(), spark.read.parquet(str(clustered))
    assert pruned.schema == full.schema
    for start in range(0, len(PREDICATES), 12):
        wheres = PREDICATES[start : start + 12]
        assert rows_by_filter(pruned, wheres) == rows_by_filter(full, wheres)


def test_files_hold_every_matching_row(spark: SparkSession, clustered: Path) -> None:
    alone = zskip.open(str(clustered))
    wheres = [w for w in PREDICATES if "array_contains" not in w and "CASE" not in w]
    lists = (f"collect_list(CASE WHEN {where} THEN id END)" for where in wheres)
    matching = spark.read.parquet(str(clustered)).selectExpr(*lists).collect()[0]
    for where, ids in zip(wheres, matching, strict=True):
        files = alone.files(where)
        assert set(ids) <= set(ds.dataset(files).to_table(columns=["id"])["id"].to_pylist() if files else []), where


def test_the_scan_says_what_it_left_out(spark: SparkSession, clustered: Path) -> None:
    table = zskip.table(spark, str(clustered))
    assert table.last_scan is None
    n = len(table.df().where("id < 100 AND y = 2023").collect())
    scan = table.last_scan
    assert scan.files < scan.files_total == 24
    assert scan.bytes < scan.bytes_total
    assert n <= scan.rows < scan.rows_total == tables.ROWS
    assert len(table.files("id < 100 AND y = 2023")) == scan.files


def test_sql_views_joins_caching(spark: SparkSession, clustered: Path) -> None:
    frame, plain = zskip.table(spark, str(clustered)).df(), spark.read.parquet(str(clustered))
    query = """
        SELECT a.region, count(*) AS n, sum(b.price) AS price FROM events a JOIN events b ON a.id = b.user
        WHERE a.id < 200 AND b.day >= DATE '2024-06-01' GROUP BY a.region ORDER BY a.region NULLS FIRST
    """
    answers = []
    for source in (frame, plain, frame.cache()):
        source.createOrReplaceTempView("events")
        answers.append(spark.sql(query).collect())
    frame.unpersist()
    assert answers[0] == answers[1] == answers[2]
    assert len(answers[0]) == 4


def test_dynamic_partition_pruning(spark: SparkSession, clustered: Path) -> None:
    spark.sql("SELECT 2024 AS year, 'x' AS label").createOrReplaceTempView("years")
    answers = []
    for source in (zskip.table(spark, str(clustered)).df(), spark.read.parquet(str(clustered))):
        source.createOrReplaceTempView("events")
        answers.append(
            spark.sql("SELECT sum(id) FROM events JOIN years ON y = year WHERE label = 'x' AND id < 3000").collect()
        )
    assert answers[0] == answers[1]


def test_from_several_threads(spark: SparkSession, clustered: Path) -> None:
    frame = zskip.table(spark, str(clustered)).df()

    def count(i: int) -> int:
        return frame.where(f"id >= {i * 500} AND id < {(i + 1) * 500}").count()

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(count, range(12))) == [500] * 12


def test_a_foreign_append_is_seen_and_read(spark: SparkSession, tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "t")
    table = zskip.table(spark, str(path))
    table.optimize(by=["id", "user"], files=6)
    spark.read.parquet(str(path)).limit(10).selectExpr("-1L AS id", "* EXCEPT (id)").write.mode("append").parquet(
        str(path)
    ) if spark.version >= "4" else spark.read.parquet(str(path)).limit(10).drop("id").selectExpr(
        "-1L AS id", "*"
    ).write.mode("append").parquet(str(path))
    with pytest.warns(ZskipWarning, match="index"):
        assert table.df().where("id = -1").count() == 10
    assert table.df().where("id = 5").count() == 1
    table.index()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ZskipWarning)
        assert table.df().where("id = -1").count() == 10


@pytest.mark.parametrize("damage", ["missing", "garbage", "empty", "version"])
def test_a_damaged_index_costs_speed_not_rows(spark: SparkSession, tmp_path: Path, damage: str) -> None:
    path = tables.make_events(tmp_path / "t")
    table = zskip.table(spark, str(path))
    table.optimize(by=["id", "user"], files=6)
    for file in sorted((path / "_zskip" / "index").rglob("*")):
        if file.is_dir():
            continue
        if damage == "missing" and file.suffix != ".json":
            file.unlink()
        elif damage == "garbage":
            file.write_bytes(b"\x00garbage" * 50)
        elif damage == "empty":
            file.write_bytes(b"")
        elif damage == "version" and file.suffix == ".json":
            file.write_bytes(manifests.with_format(file.read_bytes(), 99))
    with pytest.warns(ZskipWarning):
        assert zskip.table(spark, str(path)).df().where("id < 10").count() == 10
    with pytest.warns(ZskipWarning):
        assert len(zskip.open(str(path)).files("id < 10")) == 6
    if damage == "version":
        for call in (table.index, lambda: table.optimize(by=["id", "user"], files=6)):
            with pytest.raises(IndexFormatError, match="99"):
                call()
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZskipWarning)
        table.index()
        warnings.simplefilter("error", ZskipWarning)
        assert len(zskip.open(str(path)).files("id < 10")) < 6


def test_a_replaced_file_is_not_judged_by_its_old_entry(spark: SparkSession, tmp_path: Path) -> None:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    path = tables.make_events(tmp_path / "t")
    table = zskip.table(spark, str(path))
    table.index()
    victim = path / "part-00002.parquet"
    old = pq.read_table(victim)
    pq.write_table(old.set_column(0, "id", pc.add(old["id"], 1_000_000)), victim)
    with pytest.warns(ZskipWarning, match="index"):
        assert table.df().where("id >= 1000000").count() == 1000


def test_timestamps_are_read_in_the_zone_in_which_spark_writes_them(spark: SparkSession, tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "t")
    zskip.table(spark, str(path)).optimize(by=["at"], curve="linear", files=60)
    elsewhere = spark.newSession()
    elsewhere.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    where = "at >= '2024-01-01 00:00:00' AND at < TIMESTAMP '2024-01-01 09:00:00'"
    for session in (spark, elsewhere):
        found = zskip.table(session, str(path)).df().where(where).count()
        assert found == session.read.parquet(str(path)).where(where).count() > 0


MISFITS = [
    "id = 'abc'",
    "id = '12abc'",
    "id < 99999999999999999999999",
    "id = -9223372036854775808",
    "id = 3.7",
    "id IN ('7', 'x')",
    "id = ' 7 '",
    "user = 1e400",
    "day = '2024-13-45'",
    "day = 'yesterday'",
    "day < '2024'",
    "at > '2024-02-30 00:00:00'",
    "at >= '2024-01-01T00:00:00+02:00'",
    "score = 'NaN'",
    "score > 'much'",
    "price = '77'",
    "price = 77.001",
    "price > 123456789012345678901234567890",
    "flag = 'maybe'",
    "flag = 'true'",
    "flag = 1",
    "name = 7",
    "name > 0",
]


@pytest.mark.slow
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_literals_that_do_not_fit_do_what_spark_does(spark: SparkSession, clustered: Path, ansi: str) -> None:
    """The same rows, or the same error, with zskip and without."""

    def answer(frame: DataFrame, where: str) -> list[int] | str:
        try:
            return sorted(row.id for row in frame.where(where).select("id").collect())
        except PySparkException as error:
            return str(error.getCondition() if hasattr(error, "getCondition") else error.getErrorClass())

    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        pruned, full = zskip.table(spark, str(clustered)).df(), spark.read.parquet(str(clustered))
        found = {where: answer(pruned, where) for where in MISFITS}
        assert found == {where: answer(full, where) for where in MISFITS}
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)
    assert sum(isinstance(value, str) for value in found.values()) > (5 if ansi == "true" else 0)
    for where in MISFITS:
        matching = found[where]
        kept = ds.dataset(zskip.open(str(clustered)).files(where) or [], schema=pa.schema([("id", pa.int64())]))
        held = set(kept.to_table()["id"].to_pylist())
        assert isinstance(matching, str) or set(matching) <= held, where
