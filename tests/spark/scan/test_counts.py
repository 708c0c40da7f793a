"""Counts and extremes by the index: the answers are those of a full scan, and whole files are not read."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiers
from pyspark.sql import SparkSession
from typed_tables import random_table, write_files

import zskip
from zskip.errors import ZskipWarning
from zskip.spark.scan.counts import counts
from zskip.spark.scan.rule import notes
from zskip.table.table import Table

FILES = 20


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Table:
    """20 files of 100 ids each in partitions `p` of five; `n` has nulls, `s` one value a file, `x` NaN and zeros."""
    path = tmp_path_factory.mktemp("counts") / "t"
    for i in range(FILES):
        ids = np.arange(100 * i, 100 * i + 100)
        x = ids.astype(np.float64)
        x[3] = [np.nan, 0.0, -0.0, 1.5][i % 4]
        content = {
            "id": ids,
            "n": pa.array(ids % 50, mask=(ids % 3 == 0) | (i == 7)),
            "x": x,
            "s": [f"s{i}"] * 100,
            "r": [f"r{v}" for v in ids],
            "d": pa.array(ids.astype("datetime64[D]")),
        }
        (path / f"p=p{i // 5}").mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(content), path / f"p=p{i // 5}" / f"{i:02d}.parquet")
    found = zskip.table(spark, str(path))
    found.index()
    found.df().createOrReplaceTempView("counted")
    spark.read.parquet(str(path)).createOrReplaceTempView("counted_plain")
    return found


def ask(spark: SparkSession, table: Table, query: str) -> int:
    """How many files a query reads, whose answer is that of plain Spark, names and types included."""
    table.last_scan = None
    found, plain = spark.sql(query.format(t="counted")), spark.sql(query.format(t="counted_plain"))
    assert found.schema == plain.schema
    assert sorted(map(repr, found.collect())) == sorted(map(repr, plain.collect()))
    assert table.last_scan is not None
    return table.last_scan.files


@pytest.mark.parametrize(
    ("query", "files"),
    [
        ("SELECT count(*) FROM {t}", 0),
        ("SELECT count(1) + 1 AS c, count(n), min(n), max(n), min(d), max(d) FROM {t}", 0),
        ("SELECT count(*) FROM {t} WHERE id BETWEEN 250 AND 1420", 2),
        ("SELECT count(*), max(id) - min(id), count(s) FROM {t} WHERE id >= 250", 1),
        ("SELECT count(*), min(id) FROM {t} WHERE id > 10000", 0),
        ("SELECT min(s), max(s) FROM {t}", 0),
        ("SELECT min(r) FROM {t}", 20),
        ("SELECT max(n) FROM {t} WHERE p = 'p1'", 0),
        ("SELECT p, count(*), max(id) FROM {t} GROUP BY p", 20),
        ("SELECT min(p), max(p), count(p) FROM {t}", 0),
        ("SELECT count(DISTINCT id) FROM {t}", 20),
        ("SELECT sum(id), count(*) FROM {t}", 20),
        ("SELECT count(*) FILTER (WHERE id > 3) FROM {t}", 20),
        ("SELECT count(*) FROM {t} WHERE id % 2 = 0", 20),
        ("SELECT count(*) FROM {t} WHERE id > (SELECT min(id) + 5 FROM {t})", 20),
        ("SELECT count(*) FROM {t} WHERE p = 'p1' OR id < 150", 20),
        ("SELECT max(a) FROM (SELECT id AS a FROM {t} WHERE id < 250)", 1),
        ("SELECT count(*) FROM (SELECT id FROM {t} LIMIT 7)", 1),
        ("SELECT (SELECT count(*) FROM {t} WHERE id > 150) a, (SELECT sum(id) FROM {t} WHERE id > 150) b", 19),
        ("SELECT a.c + b.c FROM (SELECT count(*) c FROM {t} WHERE id > 50) a, (SELECT count(*) c FROM {t}) b", 1),
    ],
)
def test_whole_files_are_not_read(spark: SparkSession, table: Table, query: str, files: int) -> None:
    assert ask(spark, table, query) <= files


def test_extremes_of_floats_are_read_where_nan_or_zero_may_be(spark: SparkSession, table: Table) -> None:
    assert 0 < ask(spark, table, "SELECT max(x) FROM {t}") < FILES
    assert ask(spark, table, "SELECT min(x), max(x) FROM {t} WHERE id < 400") > 0


def test_it_says_so_and_plans_read_nothing(spark: SparkSession, table: Table) -> None:
    table.last_scan = None
    frame = spark.sql("SELECT count(*), min(id) FROM counted WHERE id >= 250")
    assert "kept 1 of 20 files" in frame._jdf.queryExecution().toString()
    assert table.last_scan is None
    frame.collect()
    assert table.last_scan is not None
    leaf = table.last_scan.leaves[-1]
    assert (leaf.kind, leaf.sql, leaf.skipped) == ("count", "count(*), min(id)", 17)


@pytest.mark.parametrize(
    ("query", "files"),
    [
        ("SELECT count(*) FROM counted_plain", 0),
        ("SELECT count(*), max(d) FROM counted_plain WHERE id BETWEEN 250 AND 1420", 2),
        ("SELECT count(*), max(n) FROM counted_plain WHERE p = 'p1'", 0),
    ],
)
def test_every_scan_of_a_session(spark: SparkSession, table: Table, query: str, files: int) -> None:
    plain = spark.sql(query).collect()
    with zskip.enabled(spark):
        assert spark.sql(query).collect() == plain
        (scan,) = zskip.scans(spark)
    assert scan.files == files


def test_files_that_are_read_twice_are_counted_twice(spark: SparkSession, table: Table) -> None:
    paths = [f"{table.path}/p=p1", f"{table.path}/p=p1", f"{table.path}/p=p2"]
    plain = spark.read.parquet(*paths)
    expected = plain.count()
    with zskip.enabled(spark):
        assert plain.count() == spark.read.parquet(*paths).count() == expected
        assert sorted(row.id for row in plain.orderBy("id").limit(3).collect()) == [500, 500, 501]


def test_files_that_change_after_a_query_is_planned(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.range(0, 100, 1, 4).write.parquet(path)
    zskip.table(spark, path).index()
    with zskip.enabled(spark):
        frame = spark.read.parquet(path)
        first, second = (frame.groupBy().count() for _ in range(2))
        for planned in (first, second):
            assert "Union" in planned._jdf.queryExecution().optimizedPlan().toString()
        files = frame._jdf.queryExecution().analyzed().collectLeaves().apply(0).relation().location()
        spark.range(7).write.mode("append").parquet(path)
        files.refresh()
        assert first.collect()[0][0] == 107
        spark.range(9).write.mode("overwrite").parquet(path)
        files.refresh()
        with pytest.raises(Exception, match="run the query again"):
            second.collect()
        assert spark.read.parquet(path).count() == 9


def test_counts_of_cached_frames_and_of_threads(spark: SparkSession, table: Table) -> None:
    frame = spark.table("counted").where("id < 730")
    frame.cache()
    try:
        assert frame.count() == frame.count() == 730
    finally:
        frame.unpersist()
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda i: spark.table("counted").where(f"id < {i}").count(), range(100, 900, 33))
        assert list(found) == list(range(100, 900, 33))


def test_files_that_the_index_does_not_know_are_counted_by_reading(spark: SparkSession, tmp_path: Path) -> None:
    for i in range(4):
        pq.write_table(pa.table({"id": np.arange(10 * i, 10 * i + 10)}), tmp_path / f"{i}.parquet")
    table = zskip.table(spark, str(tmp_path))
    table.index()
    pq.write_table(pa.table({"id": [1000, -1000]}), tmp_path / "4.parquet")
    pq.write_table(pa.table({"id": np.arange(500, 511)}), tmp_path / "1.parquet")
    assert table.df().count() == 43
    assert table.last_scan is not None
    assert table.last_scan.files == 2


def broken(*_: object) -> None:
    raise RuntimeError("broken")


def test_a_failure_reads_every_file(spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "_count", broken)
    with pytest.warns(ZskipWarning, match="could not count by its index"):
        assert ask(spark, table, "SELECT count(*) FROM {t}") == FILES
    monkeypatch.undo()
    monkeypatch.setitem(notes.NEEDED, "count", broken)
    assert ask(spark, table, "SELECT max(id), count(*) FROM {t}") == FILES


def test_counted_files_are_never_read(spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = spark.sql("SELECT max(id), count(*), min(id) FROM counted")
    frame._jdf.queryExecution().executedPlan()
    monkeypatch.setitem(notes.NEEDED, "count", broken)
    with pytest.raises(Exception, match="broken"):
        frame.collect()


AGGREGATES = ["count(*)", "count({c})", "min({c})", "max({c})"]
FILTERS = ["", "WHERE i > 5", "WHERE l IS NOT NULL AND i < 30", "WHERE f >= 0", "WHERE s < 'b' OR i = 3", "WHERE p = 1"]
COLUMNS = ["i", "l", "h", "f", "g", "d", "t", "n", "m", "w", "s", "y", "b", "k", "e", "x", "q", "v", "p"]


@pytest.mark.slow
@pytest.mark.scaled
@pytest.mark.parametrize("seed", tiers.nightly(range(3)))
def test_random_queries(spark: SparkSession, old_dates: None, tmp_path: Path, seed: int) -> None:
    rng, draw = np.random.default_rng(100 + seed), random.Random(seed)
    (tmp_path / "t").mkdir()
    for p in ("1", "2", "__HIVE_DEFAULT_PARTITION__"):
        write_files(random_table(rng), tmp_path / "t" / f"p={p}", rng)
    table = zskip.table(spark, str(tmp_path / "t"))
    table.index(collect=draw.choice(["auto", "footers"]))
    table.df().createOrReplaceTempView("counted")
    spark.read.parquet(str(tmp_path / "t")).createOrReplaceTempView("counted_plain")
    read = []
    for _ in range(tiers.count(25, quick=10)):
        chosen = [draw.choice(AGGREGATES).format(c=draw.choice(COLUMNS)) for _ in range(draw.randint(1, 3))]
        group = draw.random() < 0.4
        query = f"SELECT {'p, ' * group}{', '.join(chosen)} FROM {{t}} {draw.choice(FILTERS)} {'GROUP BY p' * group}"
        read.append(ask(spark, table, query))
    assert min(read) == 0
