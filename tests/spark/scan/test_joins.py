"""Joins leave out files without a partner, and never change an answer."""

from __future__ import annotations

import contextlib
import io
import shutil
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiers
from job_groups import job_group, jobs_without_group
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from session_settings import settings

import zskip
from zskip.errors import ZskipWarning
from zskip.records import LeafReport, ScanReport
from zskip.spark.scan.joins import keys as joins
from zskip.spark.scan.rule.bound_files import BoundFiles

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


COMBINED = [(a, b) for a in ("true", "false") for b in ("-1", "10485760")]
"""Adaptive or not, with broadcasts (whose keys are there anyway) or without (so that keys are asked for)."""
QUICK = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Under which queries of a few rows take least; every tenth or so is compiled."""


class Star:
    """The tables, opened once: as plain Spark reads them, and through their indexes."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self.spark = spark
        self.path = path
        self.plain = {name: spark.read.parquet(str(path / name)) for name in ("fact", "dim", "group", "parted")}
        self.tables = {name: zskip.table(spark, str(path / name)) for name in ("fact", "dim", "parted")}
        self.ours = {name: table.df() for name, table in self.tables.items()}
        self._answers: dict[str, list[str]] = {}

    def views(self, *ours: str) -> None:
        """Views over the tables, those named read through their index."""
        for name, frame in self.plain.items():
            shown = self.ours[name] if name in ours else frame
            shown.createOrReplaceTempView("g" if name == "group" else name)

    def plainly(self, sql: str) -> list[str]:
        """The rows that Spark alone gives, asked once."""
        if sql not in self._answers:
            self.views()
            self._answers[sql] = self.rows(sql)
        return self._answers[sql]

    def rows(self, sql: str) -> list[str]:
        return sorted(map(repr, self.spark.sql(sql).collect()))

    def scan(self, sql: str, name: str = "fact") -> ScanReport | None:
        """The right rows, and what the scan of a table read through its index alone; None where nobody looked at it."""
        expected = self.plainly(sql)
        self.views(name)
        self.tables[name].last_scan = None
        assert self.rows(sql) == expected, sql
        return self.tables[name].last_scan

    def scan_enabled(self, sql: str) -> ScanReport | None:
        """The right rows in an enabled session, and what its one scan of the fact read.

        Key queries of the other way round, which ask the fact for the keys of a dimension, are told apart.
        """
        expected = self.plainly(sql)
        self.views()
        with zskip.enabled(self.spark):
            assert self.rows(sql) == expected, sql
            reports = zskip.scans(self.spark)
        facts = [scan for scan in reports if scan.table.endswith("/fact") and not scan.for_keys]
        assert len(facts) <= 1, (sql, reports)
        return facts[0] if facts else None


@pytest.fixture(scope="module")
def star(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Star]:
    """A fact of 20 files in the order of id, a dimension of which only the half has facts, and one of that."""
    path = tmp_path_factory.mktemp("joins")
    with settings(spark, **QUICK):
        spark.sql(FACT).write.parquet(str(path / "fact"))
        spark.sql(DIM).coalesce(2).write.parquet(str(path / "dim"))
        groups = spark.sql("SELECT CAST(id AS INT) AS gk, id * 11 AS z FROM range(5)")
        groups.coalesce(1).write.parquet(str(path / "group"))
        parted = spark.read.parquet(str(path / "fact")).selectExpr("*", "k % 4 AS p")
        parted.coalesce(2).write.partitionBy("p").parquet(str(path / "parted"))
        for name in ("fact", "dim", "parted"):
            zskip.table(spark, str(path / name)).index()
        yield Star(spark, path)


def joined(combined: tuple[str, str] = COMBINED[0]) -> dict[str, str]:
    """Settings by which all scans are pruned by their joins."""
    return {ADAPTIVE: combined[0], BROADCAST: combined[1], "spark.zskip.joins": "always"}


def in_turn(queries: Iterable[str], first: int = 0) -> Iterator[tuple[str, dict[str, str]]]:
    """Each query with one of the combined settings."""
    for i, sql in enumerate(queries):
        yield sql, joined(COMBINED[(i + first) % 4]) | ({"spark.sql.codegen.wholeStage": "true"} if i % 9 == 0 else {})


@pytest.fixture(params=COMBINED, ids=lambda p: "-".join(p))
def combined(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    with settings(spark, **joined(request.param)):
        yield


@pytest.fixture
def asked(spark: SparkSession) -> Iterator[None]:
    """Keys are asked for, since nothing is broadcast."""
    with settings(spark, **joined(COMBINED[0])):
        yield


GROUPED = "SELECT x, count(*) FROM (SELECT id, k AS x FROM fact WHERE v < 5) JOIN dim ON x = di WHERE y = 3 GROUP BY x"
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
    GROUPED: 5,
    "SELECT * FROM (SELECT k, sum(v) FROM fact GROUP BY k) JOIN dim ON k = di WHERE y = 3": 5,
    "SELECT DISTINCT k FROM fact JOIN dim ON k = di WHERE rand() < 2 AND y = 3": 5,
    # Rows of a subquery that match nothing outside of it change nothing.
    "SELECT di FROM dim WHERE y = 3 AND NOT EXISTS (SELECT 1 FROM fact WHERE k = di AND v = 2)": 5,
    "SELECT di FROM dim WHERE y = 3 AND (m = 1 OR EXISTS (SELECT 1 FROM fact WHERE k = di AND v = 2))": 5,
}


KEEPING = [
    "SELECT id, m FROM fact LEFT JOIN (SELECT * FROM dim WHERE y = 3) ON k = di",
    "SELECT id, m FROM (SELECT * FROM dim WHERE y = 3) RIGHT JOIN fact ON k = di",
    "SELECT id, m FROM fact FULL JOIN (SELECT * FROM dim WHERE y = 3) ON k = di",
    "SELECT id FROM fact WHERE NOT EXISTS (SELECT 1 FROM dim WHERE di = k AND y = 3)",
    "SELECT id FROM fact WHERE k NOT IN (SELECT di FROM dim WHERE y = 3 AND di IS NOT NULL)",
    "SELECT id, k IN (SELECT di FROM dim WHERE y = 3 AND di IS NOT NULL) OR v = 2 FROM fact",
    "SELECT id FROM fact WHERE v = 3 OR k IN (SELECT di FROM dim WHERE y = 3)",
    # One null in the subquery makes NOT IN null for all rows outside.
    "SELECT dn FROM dim WHERE y = 3 AND dn NOT IN (SELECT n FROM fact)",
    "SELECT id FROM fact JOIN (SELECT * FROM dim WHERE y = 3) ON n <=> dn",
    "SELECT id FROM fact JOIN (SELECT * FROM dim WHERE y = 3) ON k % 3 = di",
    "SELECT id FROM fact JOIN (SELECT * FROM dim WHERE y = 3) ON k > di AND v = 1",
    "SELECT * FROM (SELECT *, row_number() OVER (ORDER BY id) AS r FROM fact) JOIN dim ON k = di WHERE y = 3",
    "SELECT * FROM (SELECT k, v FROM fact ORDER BY v, id LIMIT 3500) JOIN dim ON k = di WHERE y = 3",
    "SELECT * FROM (SELECT sum(k) AS a, max(k + 0) AS k FROM fact) JOIN dim ON k = di WHERE y = 3",
]


QUERIES = SKIPPING | dict.fromkeys(KEEPING, FILES)


@pytest.mark.parametrize("first", tiers.first([0, 1]))
def test_files_without_a_partner_are_skipped(spark: SparkSession, star: Star, first: int) -> None:
    """Each query through a table of ours or in an enabled session; `--rest` asks it in the other way."""
    for i, (sql, values) in enumerate(in_turn(QUERIES, 2 * first)):
        with settings(spark, **values):
            scan = star.scan(sql) if i // 4 % 2 == first else star.scan_enabled(sql)
        if scan is None:
            assert QUERIES[sql] == 0  # Spark does not even look at the fact.
            continue
        assert scan.files == QUERIES[sql], (sql, values, scan)
        assert sql in KEEPING or "join" in {leaf.kind for leaf in scan.leaves}, sql


BOTH = [
    "SELECT a.id, b.id FROM fact a JOIN fact b ON a.id = b.id WHERE a.k = 5",
    "SELECT a.id, b.id FROM fact a JOIN fact b ON a.id = b.id + 100 WHERE a.k < 5 AND b.v = 3",
    "SELECT k FROM fact JOIN dim ON k = di WHERE y=1 UNION ALL SELECT v FROM fact JOIN dim ON k = di WHERE y = 2",
    "WITH f AS (SELECT * FROM fact WHERE v < 3) SELECT a.id FROM f a JOIN dim x ON a.k = x.di AND x.y = 1 "
    "WHERE a.id IN (SELECT b.id + 200 FROM f b JOIN dim y ON b.k = y.di AND y.y = 0)",
    "SELECT count(*) FROM (SELECT * FROM fact UNION ALL SELECT * FROM fact) JOIN dim ON k = di WHERE y = 2",
    # Run by four threads, each of which looks at the plans of the others.
    f"SELECT {', '.join(f'(SELECT max(id) FROM fact JOIN dim ON k = di WHERE y = {i})' for i in range(4))}",
]


@pytest.mark.slow
def test_tables_of_ours_on_both_sides_and_self_joins(spark: SparkSession, star: Star) -> None:
    # Of the queries that the tests above ask of one side, a third.
    check_both_sides(spark, star, in_turn([*BOTH, *[*SKIPPING, *KEEPING][::3]], 1))


@pytest.mark.nightly
def test_both_sides_under_every_setting(spark: SparkSession, star: Star) -> None:
    check_both_sides(spark, star, ((sql, joined(combined)) for sql in BOTH for combined in COMBINED))


def check_both_sides(spark: SparkSession, star: Star, queries: Iterable[tuple[str, dict[str, str]]]) -> None:
    for sql, values in queries:
        expected = star.plainly(sql)
        star.views("fact", "dim")
        with settings(spark, **values):
            assert star.rows(sql) == expected, (sql, values)


@pytest.mark.slow
def test_an_enabled_session_under_every_setting(spark: SparkSession, star: Star) -> None:
    for combined in COMBINED:
        with settings(spark, **joined(combined)):
            scan = star.scan_enabled(GROUPED)
        assert scan is not None
        assert scan.files == 5, combined


def test_scans_that_differ_in_their_joins_alone_are_not_shared(star: Star, asked: None) -> None:
    one = "(SELECT /*+ MERGE(dim) */ k, sum(v) AS t FROM fact JOIN dim ON k = di WHERE y = {} GROUP BY k)"
    star.scan(f"SELECT * FROM {one.format(1)} UNION ALL SELECT * FROM {one.format(2)}")


def test_partitioned_tables_and_dynamic_pruning(star: Star, combined: None) -> None:
    for sql in (
        "SELECT id FROM parted JOIN g ON p = gk WHERE z = 22",
        "SELECT id FROM parted JOIN g ON p = gk JOIN dim ON k = di WHERE z = 22 AND y = 3",
        "SELECT id FROM parted WHERE p IN (SELECT gk FROM g WHERE z > 11) AND k < 12",
    ):
        scan = star.scan(sql, "parted")
        assert scan is not None
        if "dim" in sql:
            assert scan.files < scan.files_total


ONE = "SELECT id FROM fact JOIN dim ON k = di WHERE y = 3"


def test_explain_asks_for_no_keys(spark: SparkSession, star: Star, asked: None) -> None:
    star.views("fact")
    before = jobs_without_group(spark.sparkContext)
    with mock.patch.object(BoundFiles, "list_files", side_effect=AssertionError("listed")) as listed:
        for mode in ("simple", "extended", "formatted", "cost", "codegen"):
            with contextlib.redirect_stdout(io.StringIO()):
                spark.sql(ONE).explain(mode=mode)
        frame = spark.sql(ONE)
        frame._jdf.queryExecution().optimizedPlan().stats()
        frame._jdf.queryExecution().executedPlan().toString()
    assert not listed.called
    assert jobs_without_group(spark.sparkContext) == before
    frame.collect()
    assert last(star).files == 5


def last(star: Star) -> ScanReport:
    scan = star.tables["fact"].last_scan
    assert scan is not None
    return scan


def join_leaf(scan: ScanReport) -> LeafReport:
    (leaf,) = [leaf for leaf in scan.leaves if leaf.kind == "join"]
    return leaf


def test_the_report_says_what_each_join_did(spark: SparkSession, star: Star, combined: None) -> None:
    star.views("fact")
    spark.sql(ONE).collect()
    leaf = join_leaf(last(star))
    assert (leaf.sql, leaf.skipped, leaf.reason) == ("join with dim on di: 10 keys", 15, "")
    assert leaf.seconds is not None
    assert 0 < leaf.seconds < 60
    with settings(spark, **{"spark.zskip.joins.keys": "9"}):
        spark.sql(ONE).collect()
    leaf = join_leaf(last(star))
    assert (leaf.skipped, leaf.reason, last(star).files) == (0, "more than 9 keys", FILES)


def test_nulls_of_an_outer_join_may_have_a_partner(spark: SparkSession, tmp_path: Path, combined: None) -> None:
    """`hash` of null is 42: were the rows with other hashes missing, their partners would get nulls, and match."""
    spark.range(1000, 1006, 1, 6).toDF("k").write.parquet(str(tmp_path / "f"))
    zskip.table(spark, str(tmp_path / "f")).index(sketches=["ranges(1):hash(k)"])
    spark.sql("SELECT 1000L AS x UNION ALL SELECT 5L").write.parquet(str(tmp_path / "a"))
    spark.sql("SELECT 42 AS h, 1 AS z UNION ALL SELECT hash(1003L), 1").write.parquet(str(tmp_path / "b"))
    for name in "fab":
        spark.read.parquet(str(tmp_path / name)).createOrReplaceTempView(name)
    joins = [
        "a LEFT JOIN f ON x = k JOIN b ON hash(k) = h",
        "f RIGHT JOIN a ON x = k JOIN b ON hash(k) = h",
        "(SELECT x, k, hash(k) AS hk FROM a LEFT JOIN f ON x = k) JOIN b ON hk = h",
        "f JOIN b ON hash(k) = h LEFT JOIN a ON x = k",
    ]
    for query in [f"SELECT k FROM {join} WHERE z = 1" for join in joins]:
        expected = spark.sql(query).collect()
        with zskip.enabled(spark):
            assert spark.sql(query).collect() == expected, query
    (scan,) = [scan for scan in zskip.scans(spark) if scan.table.endswith("/f")]
    assert scan.files < 6


def test_equal_questions_are_asked_once(spark: SparkSession, star: Star, asked: None) -> None:
    star.views("fact")
    sql = " UNION ALL ".join(
        f"SELECT v, count(*) FROM fact JOIN dim ON k = di WHERE y = 3 AND v > {i} GROUP BY v" for i in range(4)
    )
    tracker, group = spark.sparkContext.statusTracker(), "equal-questions"
    with job_group(spark.sparkContext, group):
        spark.sql(sql).collect()
    with_four = len(tracker.getJobIdsForGroup(group))
    spark.conf.set("spark.zskip.joins", "off")
    with job_group(spark.sparkContext, group + "-off"):
        spark.sql(sql).collect()
    without = len(tracker.getJobIdsForGroup(group + "-off"))
    assert with_four == without + 1


def test_equal_questions_of_changed_files_are_asked_again(spark: SparkSession, star: Star, tmp_path: Path) -> None:
    keys, counted = str(tmp_path / "keys"), []
    spark.range(1).write.parquet(str(tmp_path / "batch"))

    def count_twice(batch: DataFrame, _: int) -> None:
        session = batch.sparkSession
        with settings(session, **joined(COMBINED[0])), zskip.enabled(session):
            for first in (1, 31):
                made = session.range(first, first + 3).selectExpr("id AS key", "true AS ok")
                made.write.parquet(keys, mode="overwrite")
                fact = session.read.parquet(str(star.path / "fact"))
                counted.append(fact.join(session.read.parquet(keys).where("ok"), fact.k == F.col("key")).count())

    stream = spark.readStream.schema("id LONG").parquet(str(tmp_path / "batch"))
    stream.writeStream.foreachBatch(count_twice).trigger(availableNow=True).start().awaitTermination()
    assert counted == [300, 300]


def test_the_gate(spark: SparkSession, star: Star) -> None:
    star.views("fact")
    for mode, broadcast, kept in (
        ("off", "10485760", FILES), ("Off", "-1", FILES), ("auto", "-1", FILES), ("ALWAYS", "-1", 5)
    ):  # fmt: skip
        with settings(spark, **{"spark.zskip.joins": mode, BROADCAST: broadcast}):
            spark.sql(ONE).collect()
        assert last(star).files == kept, mode


def test_a_key_query_that_is_not_worth_it_costs_no_question(spark: SparkSession, star: Star, tmp_path: Path) -> None:
    spark.range(300_000).selectExpr("id % 40 AS k", "xxhash64(id) AS h").coalesce(2).write.parquet(
        str(tmp_path / "big")
    )
    zskip.table(spark, str(tmp_path / "big")).index()
    star.views()
    spark.read.parquet(str(tmp_path / "big")).createOrReplaceTempView("big")
    with settings(spark, **{"spark.zskip.joins": "auto", BROADCAST: "-1"}), zskip.enabled(spark):
        with mock.patch.object(BoundFiles, "list_files", side_effect=AssertionError("asked")) as listed:
            assert spark.sql("SELECT sum(h) FROM big JOIN dim ON k = di WHERE y = 3").count() == 1
        (scan,) = [scan for scan in zskip.scans(spark) if scan.table.endswith("/big")]
    assert not listed.called
    assert join_leaf(scan).reason == "key query not worth it: 2 MB to scan"


@pytest.mark.slow
def test_scans_that_no_key_would_prune_are_shared(spark: SparkSession, star: Star, tmp_path: Path) -> None:
    (tmp_path / "big").mkdir()
    for name in "ab":
        rows = pa.table({"k": np.arange(2_000) % 40, "pad": [np.random.default_rng(0).bytes(40_000)] * 2_000})
        pq.write_table(rows, tmp_path / "big" / f"{name}.parquet", compression="none", use_dictionary=["k"])
    zskip.table(spark, str(tmp_path / "big")).index()
    star.views()
    spark.read.parquet(str(tmp_path / "big")).createOrReplaceTempView("big")
    one = "SELECT w.* FROM (SELECT k, count(*) AS n FROM big GROUP BY k) w JOIN dim ON k = di WHERE y = {}"
    with settings(spark, **{"spark.zskip.joins": "auto", BROADCAST: "-1"}), zskip.enabled(spark):
        spark.sql(f"{one.format(1)} UNION ALL {one.format(2)}").collect()
        (scan,) = [scan for scan in zskip.scans(spark) if scan.table.endswith("/big")]
    assert join_leaf(scan).reason == "most files span most of k"


@pytest.mark.parametrize(
    ("name", "value", "ways"),
    [
        ("spark.zskip.joins", "sometimes", "auto, always or off"),
        ("spark.zskip.joins.seconds", "soon", "a whole number from 1 to 2147483647"),
        ("spark.zskip.joins.keys", "0", "a whole number from 1 to 2147483647"),
    ],
)
def test_a_bad_setting_is_the_users_to_mend(
    spark: SparkSession, star: Star, asked: None, name: str, value: str, ways: str
) -> None:
    star.views("fact")
    said = f'^{name} is "{value}": set it to {ways}, or unset it; until then no scan is pruned by its joins$'
    with settings(spark, **{name: value}), pytest.warns(ZskipWarning, match=said):
        assert spark.sql(ONE).count() == 1000
    assert last(star).files == FILES


def test_a_key_query_reads_no_more_than_the_most_keys(spark: SparkSession, star: Star, asked: None) -> None:
    sql = "SELECT m, id FROM dim JOIN fact ON di = k WHERE id >= 100 AND m = 3"
    expected = star.plainly(sql)
    star.views()
    with settings(spark, **{"spark.zskip.joins.keys": "9"}), zskip.enabled(spark):
        assert star.rows(sql) == expected
        (scan,) = [scan for scan in zskip.scans(spark) if scan.for_keys and scan.table.endswith("/fact")]
    assert scan.files == 1
    assert scan.leaves[-1].sql == "limit 10"


def test_the_most_keys_may_be_any_number(spark: SparkSession, star: Star, asked: None) -> None:
    with settings(spark, **{"spark.zskip.joins.keys": str(2**31 - 1)}):
        scan = star.scan("SELECT count(*), sum(v) FROM fact JOIN dim ON k = di WHERE y = 3")
    assert scan is not None
    assert scan.files == 5


@pytest.mark.slow
def test_a_key_query_that_takes_too_long_is_given_up(spark: SparkSession, star: Star, asked: None) -> None:
    star.views("fact")
    # Of a column that is no key: Spark would evaluate it for each row of the fact as well.
    slow = "aggregate(sequence(1, 1000000 + m), 0L, (a, x) -> a + x) > 0"
    with settings(spark, **{"spark.zskip.joins.seconds": "1"}):
        assert spark.sql(f"SELECT id FROM fact JOIN dim ON k = di WHERE y < 4 AND {slow}").count() == 4000
    leaf = join_leaf(last(star))
    assert (leaf.skipped, leaf.reason) == (0, "the keys took more than 1 s")


def test_a_query_that_is_canceled_while_it_asks_for_keys_is_canceled(spark: SparkSession, star: Star) -> None:
    star.views("fact")
    star.tables["fact"].last_scan = None
    slow = "aggregate(sequence(1, 1000000 + m), 0L, (a, x) -> a + x) > 0"
    context, group = spark.sparkContext, "canceled-meanwhile"

    def cancel() -> None:
        while not context.statusTracker().getJobIdsForGroup(group):
            time.sleep(0.05)
        context.cancelJobGroup(group)

    asking = settings(spark, **joined(("false", "-1")))
    with job_group(context, group), asking, ThreadPoolExecutor(1) as pool:
        canceled = pool.submit(cancel)
        with pytest.raises(Exception, match="cancelled"):
            spark.sql(f"SELECT id FROM fact JOIN dim ON k = di WHERE y < 4 AND {slow}").collect()
        canceled.result(60)
    assert star.tables["fact"].last_scan is None


class Broken(Exception):
    pass


@pytest.mark.parametrize("step", ["read", "_narrow", "keys_of", "may_contain_keys", "unpack_keys"])
def test_a_fault_at_any_step_leaves_the_scan_whole(spark: SparkSession, star: Star, asked: None, step: str) -> None:
    star.views("fact")
    owner: Any = joins.Join if step == "read" else joins
    with mock.patch.object(owner, step, side_effect=Broken("on purpose")), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert spark.sql(ONE).count() == 1000
    assert last(star).files == FILES
    assert [str(w.message) for w in seen if "could not prune this scan by its join" in str(w.message)]


def test_a_key_query_that_fails_leaves_the_scan_whole(
    spark: SparkSession, star: Star, asked: None, tmp_path: Path
) -> None:
    shutil.copytree(star.path / "dim", tmp_path / "gone")
    star.views("fact")
    spark.read.parquet(str(tmp_path / "gone")).createOrReplaceTempView("gone")
    query = spark.sql("SELECT id FROM fact JOIN gone ON k = di WHERE y = 3")
    for file in (tmp_path / "gone").glob("*.parquet"):
        file.unlink()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with pytest.raises(Exception, match=r"(?i)not.exist|FAILED_READ"):
            query.collect()
    assert len([w for w in seen if "could not query the keys of a join" in str(w.message)]) == 1
    assert last(star).files == FILES


def many_threads(star: Star, queries: int, values: Mapping[str, str]) -> list[tuple[ScanReport, ...]]:
    """Sixteen threads with two key queries each have the right answers; what the first of each kind read."""
    sql = (
        "SELECT count(*), sum(id) FROM fact JOIN (SELECT di FROM dim WHERE y = {}) one ON k = one.di "
        "JOIN (SELECT ds FROM dim WHERE m = {}) two ON s = two.ds"
    )

    def ask(i: int) -> tuple[tuple[int, int], tuple[ScanReport, ...]]:
        (row,) = star.spark.sql(sql.format(i % 4, i % 10)).collect()
        return tuple(row), zskip.scans(star.spark) if i < 20 else ()

    with settings(star.spark, **values), ThreadPoolExecutor(16) as pool:
        found = list(pool.map(ask, range(queries), timeout=1200))
    for i, (row, _) in enumerate(found):
        ids = [id for id in range(4000) if id // 100 == 10 * (i % 4) + i % 10]
        assert row == (len(ids), sum(ids))
    return [scans for _, scans in found[:20]]


@pytest.mark.nightly
def test_many_threads_with_two_key_queries_each(star: Star) -> None:
    star.views("fact", "dim")
    many_threads(star, 32, joined(COMBINED[0]))
    assert last(star).files == 1


@pytest.mark.slow  # Races show up in many queries only.
@pytest.mark.parametrize(
    ("combined", "queries"), tiers.nightly([(COMBINED[0], 32), (COMBINED[2], 32), (COMBINED[3], 32)])
)
def test_many_threads_of_an_enabled_session(star: Star, combined: tuple[str, str], queries: int) -> None:
    star.views()
    with zskip.enabled(star.spark):
        reports = many_threads(star, queries, joined(combined))
    # The latest query's scans are those of whichever thread listed files last, but always of one query.
    facts = [[scan.files for scan in scans if scan.table.endswith("/fact") and not scan.for_keys] for scans in reports]
    assert all(found in ([], [1]) for found in facts), facts
    assert [1] in facts
