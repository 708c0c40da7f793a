"""`spark.zskip.learn`: a filter that a query found no row for in some files skips them the next time; answers stay."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tiers
from pyspark.sql import DataFrame, SparkSession
from session_settings import settings

import zskip

pytestmark = pytest.mark.spark
FILES = 8
ROWS = """
    SELECT id, CAST(id % 50 AS INT) AS a, id DIV 100 AS file,
           IF(id % 13 = 0, NULL, concat('row ', id, ' of ', IF(id DIV 100 = 3, 'special', 'plain'), ' requests')) AS s,
           DATE '{year}-01-01' + CAST(id AS INT) AS day, CAST(id % 3 AS STRING) AS p
    FROM range(0, 800, 1, 8)
"""
RARE = "s RLIKE 'spec.al'"


@pytest.fixture
def path(spark: SparkSession, tmp_path: Path) -> str:
    return make(spark, tmp_path / "t")


def make(spark: SparkSession, path: Path, columns: str = "*", year: int = 2020) -> str:
    spark.sql(ROWS.format(year=year)).selectExpr(*columns.split(";")).write.parquet(str(path))
    zskip.table(spark, str(path)).index()
    return str(path)


@contextmanager
def learning(spark: SparkSession, path: str, learn: str = "true") -> Iterator[None]:
    """Let queries learn, with one task for each file."""
    largest = max(file.stat().st_size for file in Path(path).rglob("*.parquet"))
    own = {"spark.zskip.learn": learn, "spark.sql.files.maxPartitionBytes": str(largest)}
    with settings(spark, **own), zskip.enabled(spark):
        yield


def settle(spark: SparkSession) -> None:
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()


def files_read(spark: SparkSession, run: Callable[[], Any]) -> int:
    run()
    settle(spark)
    return zskip.scans(spark)[0].files


SHAPES: dict[str, Callable[[DataFrame], Any]] = {
    "rows": lambda frame: frame.collect(),
    "count": lambda frame: frame.count(),
    "groups": lambda frame: frame.groupBy("a").agg({"id": "max"}).collect(),
    "first rows": lambda frame: frame.orderBy("a", "id").limit(3).collect(),
    "distinct": lambda frame: frame.select("a").distinct().collect(),
    "pandas": lambda frame: frame.toPandas(),
}
NO_SHAPES: dict[str, Callable[[DataFrame], Any]] = {
    "a part of the rows": lambda frame: frame.rdd.mapPartitions(lambda rows: [1]).collect(),
    "a union": lambda frame: frame.union(frame.where("id < 0 OR id > 5")).coalesce(1).count(),
    "a join": lambda frame: frame.join(frame.sparkSession.range(0), "id").count(),
    "a cache": lambda frame: (frame.cache().count(), frame.unpersist()),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_filter_that_repeats_skips_what_had_no_row(spark: SparkSession, path: str, shape: str) -> None:
    def query() -> Any:
        return SHAPES[shape](spark.read.parquet(path).where(RARE))

    expected = str(query())
    with learning(spark, path):
        assert files_read(spark, query) == FILES
        assert files_read(spark, query) == 1
        assert str(query()) == expected
        (leaf,) = (leaf for leaf in zskip.scans(spark)[0].leaves if leaf.kind == "matches")
        assert (leaf.sql, leaf.skipped) == ("learned:s IS NOT NULL AND (s RLIKE 'spec.al')", FILES - 1)
        narrower = spark.read.parquet(path).where(f"a > 3 AND {RARE}")
        assert files_read(spark, narrower.count) == 1
    with zskip.enabled(spark):
        assert str(query()) == expected


@pytest.mark.parametrize("shape", NO_SHAPES)
def test_what_may_leave_rows_unread_shows_nothing(spark: SparkSession, path: str, shape: str) -> None:
    with learning(spark, path):
        NO_SHAPES[shape](spark.read.parquet(path).where(RARE))
        settle(spark)
        assert files_read(spark, spark.read.parquet(path).where(RARE).count) == FILES


def test_a_limit_stops_before_other_rows(spark: SparkSession, path: str) -> None:
    where = "s LIKE '%row%of%'"
    expected = spark.read.parquet(path).where(where).count()
    with learning(spark, path):
        for _ in range(3):
            assert len(spark.read.parquet(path).where(where).limit(2).collect()) == 2
            settle(spark)
        assert spark.read.parquet(path).where(where).count() == expected


def test_small_files_share_a_task(spark: SparkSession, path: str) -> None:
    with settings(spark, **{"spark.zskip.learn": "true"}), zskip.enabled(spark):
        query = spark.read.parquet(path).where(RARE).count
        assert files_read(spark, query) == FILES
        kept = files_read(spark, query)
    assert 1 <= kept <= FILES


def test_new_and_replaced_files_are_read(spark: SparkSession, path: str) -> None:
    rare = spark.read.parquet(path).where(RARE).limit(7).collect()
    with learning(spark, path):
        for _ in range(2):
            spark.read.parquet(path).where(RARE).count()
            settle(spark)
        spark.createDataFrame(rare, spark.read.parquet(path).schema).coalesce(1).write.mode("append").parquet(path)
        zskip.table(spark, path).index()
        assert spark.read.parquet(path).where(RARE).count() == expected_count(spark, path)
        assert zskip.scans(spark)[0].files == 2
        zskip.table(spark, path).optimize(by=["a", "id"], files=4, curve="zorder")
        assert spark.read.parquet(path).where(RARE).count() == expected_count(spark, path)


def expected_count(spark: SparkSession, path: str) -> int:
    with settings(spark, **{"spark.zskip.enabled": "false"}):
        return spark.read.parquet(path).where(RARE).count()


def test_it_is_off_by_itself(spark: SparkSession, path: str) -> None:
    with learning(spark, path, learn="false"):
        query = spark.read.parquet(path).where(RARE).count
        assert [files_read(spark, query) for _ in range(2)] == [FILES, FILES]


@pytest.mark.parametrize(
    ("columns", "year", "where"),
    [
        ("id;CAST(s AS CHAR(40)) AS s", 2020, "s LIKE '%special%x'"),
        ("id;s;day", 1700, "s RLIKE 'x' AND month(day) = 7"),
        ("id;struct(s) AS s", 2020, "s.s RLIKE 'x'"),
        ("id;s", 2020, "upper(s) LIKE '%SPEC%X%'"),
        ("id;s", 2020, "s RLIKE 'x' OR rand() < 1e-12"),
        ("id;s", 2020, "s RLIKE 'x' AND id > (SELECT min(id) FROM range(5))"),
    ],
    ids=["CHAR", "ancient days", "inside a struct", "cases of letters", "not deterministic", "a subquery"],
)
def test_what_is_not_certain_is_not_learned(
    spark: SparkSession, tmp_path: Path, columns: str, year: int, where: str
) -> None:
    if "CHAR" in columns:
        spark.sql(f"CREATE TABLE learned_char (id BIGINT, s CHAR(40)) USING parquet LOCATION '{tmp_path / 't'}'")
        spark.sql(ROWS.format(year=year)).selectExpr("id", "s").repartition(8).write.insertInto("learned_char")
        zskip.table(spark, str(tmp_path / "t")).index()
        path, read = str(tmp_path / "t"), lambda: spark.table("learned_char").where(where).count()
    else:
        path = make(spark, tmp_path / "t", columns, year)
        read = spark.read.parquet(path).where(where).count
    try:
        with learning(spark, path):
            before = files_read(spark, read)
            assert files_read(spark, read) == before
    finally:
        spark.sql("DROP TABLE IF EXISTS learned_char")


def test_columns_with_ids_teach_nothing(spark: SparkSession, path: str) -> None:
    schema = spark.read.parquet(path).schema
    for number, field in enumerate(schema):
        field.metadata = {"parquet.field.id": number}
    ids = {"spark.sql.parquet.fieldId.read.ignoreMissing": "true"}
    with settings(spark, **ids), learning(spark, path):
        read = spark.read.schema(schema).parquet(path).where(RARE).count
        assert [files_read(spark, read) for _ in range(2)] == [FILES, FILES]


def test_partitions(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.sql(ROWS.format(year=2020)).write.partitionBy("p").parquet(path)
    zskip.table(spark, path).index()

    def query() -> Any:
        return spark.read.parquet(path).where(f"p = '1' AND {RARE}").orderBy("id").collect()

    expected = query()
    with learning(spark, path):
        first, second = files_read(spark, query), files_read(spark, query)
        assert second < first
        assert query() == expected


PARTS = [
    RARE, "s LIKE '%plain%req%'", "a > 40", "a + id > 700", "length(s) % 7 = 3", "day > DATE '2021-06-01'",
    "CASE WHEN a < 10 THEN id ELSE file END = 5", "s IS NULL", "id % 97 = 5", "a IN (3, 5)", "s RLIKE '9 of'",
]  # fmt: skip
TAILS = ["", "GROUP BY ALL", "ORDER BY id LIMIT 4", "LIMIT 5", "ORDER BY a, id"]


@pytest.mark.parametrize("seed", tiers.nightly(range(20), daily=2))
def test_answers_are_those_of_all_files(spark: SparkSession, path: str, seed: int) -> None:
    chance = random.Random(seed)
    queries = []
    for _ in range(25):
        where = " AND ".join(chance.sample(PARTS, chance.choice((1, 1, 2))))
        where = f"{where} OR {chance.choice(PARTS)}" if chance.random() < 0.2 else where
        queries.append(f"SELECT id, a FROM parquet.`{path}` WHERE {where} {chance.choice(TAILS)}")
    is_sure = [" LIMIT 5" not in f" {query[-8:]}" or "ORDER" in query for query in queries]
    expected = [sorted(map(str, spark.sql(query).collect())) for query in queries]
    with learning(spark, path):
        for _ in range(3):
            for number in chance.sample(range(len(queries)), len(queries)):
                rows = sorted(map(str, spark.sql(queries[number]).collect()))
                assert rows == expected[number] if is_sure[number] else len(rows) == len(expected[number])
            settle(spark)
        assert zskip.scans(spark)
