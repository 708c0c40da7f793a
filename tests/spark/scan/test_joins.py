"""Joins leave out files without a partner, and never change an answer."""

from __future__ import annotations

import contextlib
import io
import random
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from pyspark.sql import DataFrame, SparkSession

import zskip
from zskip.errors import ZskipWarning
from zskip.spark.scan import joins
from zskip.spark.scan.file_index import PrunedFileIndex

FILES = 20
BROADCAST = "spark.sql.autoBroadcastJoinThreshold"
ADAPTIVE = "spark.sql.adaptive.enabled"
FACT = """
    SELECT /*+ REPARTITION_BY_RANGE(20, id) */ id, CAST(id DIV 100 AS INT) AS k, IF(id % 9 = 0, NULL, id DIV 100) AS n,
           concat('s', lpad(id DIV 100, 3, '0')) AS s, DATE'2020-01-01' + CAST(id DIV 100 AS INT) AS d,
           CASE WHEN id < 200 THEN CAST('NaN' AS DOUBLE) WHEN id < 300 THEN -0.0D ELSE id DIV 100 + 0.5D END AS f,
           CAST(id DIV 100 AS DECIMAL(7, 2)) / 4 AS q, CAST(id DIV 100 AS DECIMAL(9, 2)) AS c,
           CAST(id % 7 AS INT) AS v,
           TIMESTAMP'2020-01-01' + make_dt_interval(id DIV 100) AS ts
    FROM range(4000)
"""
DIM = """
    SELECT id AS dk, CAST(id AS INT) AS di, id % 10 AS m, id DIV 10 AS y, concat('s', lpad(id, 3, '0')) AS ds,
           DATE'2020-01-01' + CAST(id AS INT) AS dd, IF(id % 4 = 0, NULL, id) AS dn, CAST(id AS DECIMAL(12, 4)) AS dc,
           CASE id WHEN 0 THEN CAST('NaN' AS DOUBLE) WHEN 1 THEN 0.0D ELSE id + 0.5D END AS df,
           TIMESTAMP'2020-01-01' + make_dt_interval(CAST(id AS INT)) AS dts, CAST(id AS INT) % 5 AS g
    FROM range(60) UNION ALL SELECT NULL, NULL, 3, 3, NULL, NULL, NULL, NULL, NULL, NULL, NULL
"""


@pytest.fixture(scope="module")
def paths(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fact of 20 files in the order of id, a dimension of which only the half has facts, and one of that."""
    path = tmp_path_factory.mktemp("joins")
    spark.sql(FACT).write.parquet(str(path / "fact"))
    spark.sql(DIM).coalesce(2).write.parquet(str(path / "dim"))
    spark.sql("SELECT CAST(id AS INT) AS gk, id * 11 AS z FROM range(5)").coalesce(1).write.parquet(str(path / "group"))
    parted = spark.sql(FACT).selectExpr("*", "k % 4 AS p")
    parted.write.partitionBy("p").parquet(str(path / "parted"))
    for name in ("fact", "dim", "parted"):
        zskip.table(spark, str(path / name)).index()
    return path


@pytest.fixture(params=[(a, b) for a in ("true", "false") for b in ("-1", "10485760")], ids=lambda p: "-".join(p))
def settings(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """Adaptive or not, with broadcasts (whose keys are there anyway) or without (so that keys are asked for)."""
    values = {ADAPTIVE: request.param[0], BROADCAST: request.param[1], "spark.zskip.joins": "always"}
    yield from _set(spark, values, request.param)


@pytest.fixture
def always(spark: SparkSession) -> Iterator[None]:
    yield from _set(spark, {"spark.zskip.joins": "always"}, None)


@pytest.fixture
def asked(spark: SparkSession) -> Iterator[None]:
    """Keys are asked for, since nothing is broadcast."""
    yield from _set(spark, {"spark.zskip.joins": "always", BROADCAST: "-1"}, None)


def _set(spark: SparkSession, values: dict[str, str], result: Any) -> Iterator[Any]:
    for name, value in values.items():
        spark.conf.set(name, value)
    yield result
    for name in values:
        spark.conf.unset(name)


def views(spark: SparkSession, paths: Path, *ours: str) -> dict[str, zskip.Table]:
    """Views over the tables, those named read through their index."""
    tables = {}
    for name in ("fact", "dim", "group", "parted"):
        frame = spark.read.parquet(str(paths / name))
        if name in ours:
            tables[name] = zskip.table(spark, str(paths / name))
            frame = tables[name].df()
        frame.createOrReplaceTempView("g" if name == "group" else name)
    return tables


def rows(spark: SparkSession, sql: str) -> list[str]:
    return sorted(map(repr, spark.sql(sql).collect()))


SKIPPING = {
    # How many of the 20 files are left: two values of k to a file.
    "SELECT count(*), sum(v) FROM fact JOIN dim ON k = di WHERE y = 3": 5,
    "SELECT fact.id, m FROM dim JOIN fact ON dk = k WHERE y = 2 AND m < 4": 2,
    "SELECT id FROM fact WHERE k IN (SELECT di FROM dim WHERE m = 7)": 4,
    "SELECT id FROM fact WHERE EXISTS (SELECT 1 FROM dim WHERE di = k AND y = 1)": 5,
    "SELECT dim.*, v FROM dim LEFT JOIN fact ON k = di WHERE y = 3 AND m IN (0, 1)": 1,
    "SELECT dim.*, v FROM fact RIGHT JOIN (SELECT * FROM dim WHERE y = 3 AND m < 2) dim ON k = di": 1,
    "SELECT id FROM fact JOIN dim ON s = ds WHERE y = 0": 5,
    "SELECT id FROM fact JOIN dim ON d = dd WHERE dim.m = 1": 4,
    "SELECT id FROM fact JOIN dim ON ts = dts WHERE dim.m = 1": 4,
    "SELECT id FROM fact JOIN dim ON f = df WHERE y = 0 AND m < 2": 2,
    "SELECT id FROM fact JOIN dim ON c = dc WHERE y = 1 AND m > 7": 1,
    "SELECT id FROM fact JOIN dim ON n = dn WHERE y = 1 AND m IN (0, 2, 3, 4)": 3,
    "SELECT id FROM fact JOIN dim ON k = dc WHERE y = 1 AND m > 7": 1,
    "SELECT id FROM fact JOIN dim ON k = di WHERE y = 77": 0,
    "SELECT id FROM fact JOIN dim ON k = di AND s = ds WHERE y = 3 AND m = 5": 1,
    "SELECT id FROM fact JOIN dim ON v = g AND k = di WHERE y = 3": 5,
    "SELECT id FROM fact JOIN dim ON k = di JOIN g ON g = gk WHERE z = 33": 8,
    "SELECT x, count(*) FROM (SELECT id, k AS x FROM fact WHERE v < 5) JOIN dim ON x = di WHERE y = 3 GROUP BY x": 5,
    "SELECT * FROM (SELECT k, sum(v) FROM fact GROUP BY k) JOIN dim ON k = di WHERE y = 3": 5,
    "SELECT DISTINCT k FROM fact JOIN dim ON k = di WHERE rand() < 2 AND y = 3": 5,
}


def test_files_without_a_partner_are_skipped(spark: SparkSession, paths: Path, settings: tuple[str, str]) -> None:
    for sql, kept in SKIPPING.items():
        views(spark, paths)
        expected = rows(spark, sql)
        table = views(spark, paths, "fact")["fact"]
        assert rows(spark, sql) == expected, sql
        if kept == 0 and table.last_scan is None:
            continue  # Spark does not even look at the fact.
        assert table.last_scan.files == kept, (sql, table.last_scan)
        assert {leaf.kind for leaf in table.last_scan.leaves} >= {"join"}, sql


KEEPING = [
    "SELECT id, m FROM fact LEFT JOIN (SELECT * FROM dim WHERE y = 3) ON k = di",
    "SELECT id, m FROM (SELECT * FROM dim WHERE y = 3) RIGHT JOIN fact ON k = di",
    "SELECT id, m FROM fact FULL JOIN (SELECT * FROM dim WHERE y = 3) ON k = di",
    "SELECT id FROM fact WHERE NOT EXISTS (SELECT 1 FROM dim WHERE di = k AND y = 3)",
    "SELECT id FROM fact WHERE k NOT IN (SELECT di FROM dim WHERE y = 3 AND di IS NOT NULL)",
    "SELECT id, k IN (SELECT di FROM dim WHERE y = 3 AND di IS NOT NULL) OR v = 2 FROM fact",
    "SELECT id FROM fact WHERE v = 3 OR k IN (SELECT di FROM dim WHERE y = 3)",
    "SELECT id FROM fact JOIN (SELECT * FROM dim WHERE y = 3) ON n <=> dn",
    "SELECT id FROM fact JOIN (SELECT * FROM dim WHERE y = 3) ON k % 3 = di",
    "SELECT id FROM fact JOIN (SELECT * FROM dim WHERE y = 3) ON k > di AND v = 1",
    "SELECT * FROM (SELECT *, row_number() OVER (ORDER BY id) AS r FROM fact) JOIN dim ON k = di WHERE y = 3",
    "SELECT * FROM (SELECT k, v FROM fact ORDER BY v, id LIMIT 3500) JOIN dim ON k = di WHERE y = 3",
    "SELECT * FROM (SELECT sum(k) AS a, max(k + 0) AS k FROM fact) JOIN dim ON k = di WHERE y = 3",
]


def test_what_must_stay_stays(spark: SparkSession, paths: Path, settings: tuple[str, str]) -> None:
    for sql in KEEPING:
        views(spark, paths)
        expected = rows(spark, sql)
        table = views(spark, paths, "fact")["fact"]
        assert rows(spark, sql) == expected, sql
        assert table.last_scan.files == FILES, (sql, table.last_scan)


def test_tables_of_ours_on_both_sides_and_self_joins(
    spark: SparkSession, paths: Path, settings: tuple[str, str]
) -> None:
    for sql in (
        *SKIPPING,
        *KEEPING,
        "SELECT a.id, b.id FROM fact a JOIN fact b ON a.id = b.id WHERE a.k = 5",
        "SELECT a.id, b.id FROM fact a JOIN fact b ON a.id = b.id + 100 WHERE a.k < 5 AND b.v = 3",
        "SELECT k FROM fact JOIN dim ON k = di WHERE y=1 UNION ALL SELECT v FROM fact JOIN dim ON k = di WHERE y = 2",
        "WITH f AS (SELECT * FROM fact WHERE v < 3) SELECT a.id FROM f a JOIN dim x ON a.k = x.di AND x.y = 1 "
        "WHERE a.id IN (SELECT b.id + 200 FROM f b JOIN dim y ON b.k = y.di AND y.y = 0)",
        "SELECT count(*) FROM (SELECT * FROM fact UNION ALL SELECT * FROM fact) JOIN dim ON k = di WHERE y = 2",
        "SELECT (SELECT max(id) FROM fact JOIN dim ON k = di WHERE y = 2), "
        "(SELECT max(id) FROM fact JOIN dim ON k = di WHERE y = 3)",
    ):
        views(spark, paths)
        expected = rows(spark, sql)
        views(spark, paths, "fact", "dim")
        assert rows(spark, sql) == expected, sql


def test_an_enabled_session_prunes_by_joins(spark: SparkSession, paths: Path, settings: tuple[str, str]) -> None:
    """All answers are those of plain Spark; which scans find their keys depends on how Spark runs the plan."""
    views(spark, paths)
    least = {}
    for sql in [*SKIPPING, *KEEPING]:
        expected = rows(spark, sql)
        with zskip.enabled(spark):
            assert rows(spark, sql) == expected, sql
            found = [scan.files for scan in zskip.scans(spark) if scan.table.endswith("/fact")]
        least[sql] = min(found, default=0)
    assert all(least[sql] == FILES for sql in KEEPING), least
    assert any(least[sql] < FILES for sql in SKIPPING), least


def test_scans_that_differ_in_their_joins_alone_are_not_shared(spark: SparkSession, paths: Path, asked: None) -> None:
    one = "(SELECT /*+ MERGE(dim) */ k, sum(v) AS t FROM fact JOIN dim ON k = di WHERE y = {} GROUP BY k)"
    sql = f"SELECT * FROM {one.format(1)} UNION ALL SELECT * FROM {one.format(2)}"
    views(spark, paths)
    expected = rows(spark, sql)
    views(spark, paths, "fact")
    assert rows(spark, sql) == expected


def test_partitioned_tables_and_dynamic_pruning(spark: SparkSession, paths: Path, settings: tuple[str, str]) -> None:
    for sql in (
        "SELECT id FROM parted JOIN g ON p = gk WHERE z = 22",
        "SELECT id FROM parted JOIN g ON p = gk JOIN dim ON k = di WHERE z = 22 AND y = 3",
        "SELECT id FROM parted WHERE p IN (SELECT gk FROM g WHERE z > 11) AND k < 12",
    ):
        views(spark, paths)
        expected = rows(spark, sql)
        table = views(spark, paths, "parted")["parted"]
        assert rows(spark, sql) == expected, sql
        if "dim" in sql:
            assert table.last_scan.files < table.last_scan.files_total


@pytest.mark.parametrize("mode", ["simple", "extended", "formatted", "cost", "codegen"])
def test_explain_asks_for_no_keys(spark: SparkSession, paths: Path, asked: None, mode: str) -> None:
    table = views(spark, paths, "fact")["fact"]
    frame = spark.sql("SELECT id FROM fact JOIN dim ON k = di WHERE y = 3")
    with mock.patch.object(PrunedFileIndex, "list_planned", side_effect=AssertionError("listed")) as listed:
        with contextlib.redirect_stdout(io.StringIO()):
            frame.explain(mode=mode)
        frame._jdf.queryExecution().optimizedPlan().stats()
    assert not listed.called
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup()
    frame._jdf.queryExecution().executedPlan().toString()
    assert spark.sparkContext.statusTracker().getJobIdsForGroup() == jobs
    frame.collect()
    assert table.last_scan.files == 5


def test_the_report_says_what_each_join_did(spark: SparkSession, paths: Path, settings: tuple[str, str]) -> None:
    table = views(spark, paths, "fact")["fact"]
    spark.sql("SELECT id FROM fact JOIN dim ON k = di WHERE y = 3").collect()
    (leaf,) = [leaf for leaf in table.last_scan.leaves if leaf.kind == "join"]
    assert (leaf.sql, leaf.skipped, leaf.reason) == ("join with dim on di: 10 keys", 15, "")
    assert leaf.seconds is not None
    assert 0 < leaf.seconds < 60


def test_equal_questions_are_asked_once(spark: SparkSession, paths: Path, asked: None) -> None:
    views(spark, paths, "fact")
    sql = " UNION ALL ".join(
        f"SELECT v, count(*) FROM fact JOIN dim ON k = di WHERE y = 3 AND v > {i} GROUP BY v" for i in range(4)
    )
    tracker, group = spark.sparkContext.statusTracker(), "equal-questions"
    spark.sparkContext.setJobGroup(group, "")
    spark.sql(sql).collect()
    with_four = len(tracker.getJobIdsForGroup(group))
    spark.conf.set("spark.zskip.joins", "off")
    spark.sparkContext.setJobGroup(group + "-off", "")
    spark.sql(sql).collect()
    without = len(tracker.getJobIdsForGroup(group + "-off"))
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert with_four == without + 1


def test_the_gate(spark: SparkSession, paths: Path) -> None:
    table = views(spark, paths, "fact")["fact"]
    sql = "SELECT id FROM fact JOIN dim ON k = di WHERE y = 3"
    for mode, broadcast, kept in (
        ("off", "10485760", FILES), ("off", "-1", FILES), ("auto", "-1", FILES), ("always", "-1", 5)
    ):  # fmt: skip
        with contextlib.contextmanager(_set)(spark, {"spark.zskip.joins": mode, BROADCAST: broadcast}, None):
            spark.sql(sql).collect()
            assert table.last_scan.files == kept, mode


def test_a_setting_that_is_none_is_said(spark: SparkSession, paths: Path) -> None:
    views(spark, paths, "fact")
    said = "spark.zskip.joins=sometimes is none of auto, always, off"
    sometimes = contextlib.contextmanager(_set)(spark, {"spark.zskip.joins": "sometimes"}, None)
    with sometimes, pytest.warns(ZskipWarning, match=said):
        assert spark.sql("SELECT id FROM fact JOIN dim ON k = di WHERE y = 3").count() == 1000


def test_too_many_keys_are_no_keys(spark: SparkSession, paths: Path, settings: tuple[str, str]) -> None:
    table = views(spark, paths, "fact")["fact"]
    with contextlib.contextmanager(_set)(spark, {"spark.zskip.joins.keys": "9"}, None):
        spark.sql("SELECT id FROM fact JOIN dim ON k = di WHERE y = 3").collect()
    (leaf,) = [leaf for leaf in table.last_scan.leaves if leaf.kind == "join"]
    assert (leaf.skipped, leaf.reason, table.last_scan.files) == (0, "more than 9 keys", FILES)


def test_a_key_query_that_takes_too_long_is_given_up(spark: SparkSession, paths: Path, asked: None) -> None:
    table = views(spark, paths, "fact")["fact"]
    slow = "aggregate(sequence(1, 1000000 + di), 0L, (a, x) -> a + x) > 0"
    with contextlib.contextmanager(_set)(spark, {"spark.zskip.joins.seconds": "1"}, None):
        assert spark.sql(f"SELECT id FROM fact JOIN dim ON k = di WHERE y < 4 AND {slow}").count() == 4000
    (leaf,) = [leaf for leaf in table.last_scan.leaves if leaf.kind == "join"]
    assert (leaf.skipped, leaf.reason) == (0, "the keys took more than 1 s")


class Broken(Exception):
    pass


@pytest.mark.parametrize("step", ["read", "_narrowed", "keys_of", "meeting", "unpacked"])
def test_a_fault_at_any_step_leaves_the_scan_whole(spark: SparkSession, paths: Path, always: None, step: str) -> None:
    table = views(spark, paths, "fact")["fact"]
    owner: Any = joins.Join if step == "read" else joins
    with mock.patch.object(owner, step, side_effect=Broken("on purpose")), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert spark.sql("SELECT id FROM fact JOIN dim ON k = di WHERE y = 3").count() == 1000
    assert table.last_scan.files == FILES
    assert [str(w.message) for w in seen if "could not prune this scan by its join" in str(w.message)]


def test_a_key_query_that_fails_leaves_the_scan_whole(
    spark: SparkSession, paths: Path, asked: None, tmp_path: Path
) -> None:
    spark.sql(DIM).coalesce(1).write.parquet(str(tmp_path / "gone"))
    table = views(spark, paths, "fact")["fact"]
    frame = spark.read.parquet(str(tmp_path / "gone"))
    frame.createOrReplaceTempView("gone")
    query = spark.sql("SELECT id FROM fact JOIN gone ON k = di WHERE y = 3")
    for file in (tmp_path / "gone").glob("*.parquet"):
        file.unlink()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with pytest.raises(Exception, match=r"(?i)not.exist|FAILED_READ"):
            query.collect()
    assert len([w for w in seen if "a query for the keys of a join failed" in str(w.message)]) == 1
    assert table.last_scan.files == FILES


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_many_threads_with_two_key_queries_each(spark: SparkSession, paths: Path, asked: None, adaptive: str) -> None:
    tables = views(spark, paths, "fact", "dim")
    fact, dim = tables["fact"], tables["dim"]
    spark.conf.set(ADAPTIVE, adaptive)

    def query(fact: DataFrame, dim: DataFrame, i: int) -> DataFrame:
        one = dim.where(f"y = {i % 4}").select("di")
        two = dim.where(f"m = {i % 10}").selectExpr("ds")
        return fact.join(one, fact.k == one.di).join(two, fact.s == two.ds).groupBy().count()

    plain = [spark.read.parquet(str(paths / name)) for name in ("fact", "dim")]
    expected = [query(*plain, i).first() for i in range(20)]
    try:
        with ThreadPoolExecutor(16) as pool:
            found = list(pool.map(lambda i: query(fact.df(), dim.df(), i).first(), range(150), timeout=1200))
    finally:
        spark.conf.unset(ADAPTIVE)
    assert found == [expected[i % 20] for i in range(150)]
    assert fact.last_scan.files == 1


def _random_side(rng: random.Random, key: str) -> tuple[str, str]:
    """A relation with a key of the fact's domain, as SQL, and the name of the key."""
    where = rng.choice(
        [
            "y = 3",
            "m < 2",
            "y = 77",
            "di IN (3, 30, 55)",
            "y BETWEEN 1 AND 2 AND m > 5",
            "dk > 35",
            "true",
            "ds LIKE 's00%'",
        ]
    )
    name = {"k": "di", "s": "ds", "d": "dd", "f": "df", "n": "dn", "c": "dc"}[key]
    shape = rng.choice(["dim", "distinct", "joined", "limited", "union"])
    if shape == "dim":
        return f"(SELECT * FROM dim WHERE {where})", name
    if shape == "distinct":
        return f"(SELECT DISTINCT {name}, y FROM dim WHERE {where})", name
    if shape == "joined":
        return f"(SELECT dim.* FROM dim JOIN g ON g = gk WHERE {where} AND z > {rng.choice([0, 20, 40])})", name
    if shape == "limited":
        return f"(SELECT * FROM dim WHERE {where} ORDER BY dk, m LIMIT {rng.choice([0, 3, 30])})", name
    return f"(SELECT {name}, y FROM dim WHERE {where} UNION ALL SELECT {name}, y FROM dim WHERE y = 5)", name


def random_query(rng: random.Random) -> str:
    """A query with one or two joins of any type over `fact`."""
    source = rng.choice(
        ["fact", "fact", "(SELECT * FROM fact WHERE v < 4)", "(SELECT * FROM fact ORDER BY id LIMIT 2500)",
         "(SELECT * FROM fact UNION ALL SELECT * FROM fact WHERE v = 1)",
         "(SELECT k, s, d, f, n, c, max(v) AS v, min(id) AS id FROM fact GROUP BY k, s, d, f, n, c)",
         "(SELECT * FROM fact WHERE k < 30 OR n IS NULL)"]
    )  # fmt: skip
    for place in range(rng.choice([1, 1, 2])):
        key = rng.choice("kksdfnc")
        side, name = _random_side(rng, key)
        equal = rng.choice(["=", "=", "=", "<=>"])
        kind = rng.choice(
            ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "IN", "NOT"]
        )
        a, b = f"a{place}", f"b{place}"
        columns = f"{a}.id, {a}.k, {a}.s, {a}.d, {a}.f, {a}.n, {a}.c, {a}.v"
        if kind in ("IN", "NOT"):
            test = f"{a}.{key} IN (SELECT {name} FROM {side})"
            source = f"(SELECT {columns} FROM {source} {a} WHERE {'NOT ' if kind == 'NOT' else ''}{test})"
        else:
            more = rng.choice(["", "", f" AND {a}.v < 5"])
            source = f"(SELECT {columns} FROM {source} {a} {kind} {side} {b} ON {a}.{key} {equal} {b}.{name}{more})"
    return f"SELECT count(*), count(id), sum(id), sum(v), min(s), max(d), count(DISTINCT k) FROM {source}"


@pytest.mark.parametrize("seed", range(4))
def test_random_joins_give_the_same_answers(spark: SparkSession, paths: Path, always: None, seed: int) -> None:
    rng = random.Random(seed)
    skipped = 0
    for i in range(25):
        sql = random_query(rng)
        spark.conf.set(BROADCAST, rng.choice(["-1", "10485760"]))
        spark.conf.set(ADAPTIVE, rng.choice(["true", "false"]))
        views(spark, paths)
        expected = rows(spark, sql)
        table = views(spark, paths, "fact", "dim")["fact"]
        assert rows(spark, sql) == expected, (seed, i, sql)
        skipped += table.last_scan is not None and table.last_scan.files < FILES
    spark.conf.unset(BROADCAST)
    spark.conf.unset(ADAPTIVE)
    assert skipped > 3, "hardly any query skipped a file: the test says nothing"
