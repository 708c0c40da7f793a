"""What Spark's own plans say of a scan, and that saying it changes no answer."""

from __future__ import annotations

import contextlib
import io
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from both_ways import rows
from pyspark.sql import DataFrame, SparkSession
from session_settings import settings

import zskip
from zskip.errors import UnsupportedError
from zskip.spark.jvm.compiled import janino
from zskip.spark.jvm.gateway import Jvm

FILES = 24
ROWS = 2400
KEPT = re.compile(r"kept (\d+) of (\d+) files, [\d.]+ k?B of [\d.]+ kB in file:")


@pytest.fixture(scope="module")
def path(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 files of 100 ids each, in two partitions."""
    path = tmp_path_factory.mktemp("plans") / "t"
    frame = spark.range(0, ROWS, 1, FILES).selectExpr("id", "id % 10 AS v", "concat('n', id) AS s", "id DIV 1200 AS p")
    frame.write.partitionBy("p").parquet(str(path))
    zskip.table(spark, str(path)).index()
    return path


@pytest.fixture
def frame(spark: SparkSession, path: Path) -> DataFrame:
    return zskip.table(spark, str(path)).df()


@pytest.fixture
def plain(spark: SparkSession, path: Path) -> DataFrame:
    return spark.read.parquet(str(path))


@pytest.fixture
def no_broadcast(spark: SparkSession) -> Iterator[None]:
    with settings(spark, autoBroadcastJoinThreshold="-1"):
        yield


def explained(frame: DataFrame, mode: str = "simple") -> str:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        frame.explain(mode=mode)
    return text.getvalue()


def kept(frame: DataFrame, mode: str = "simple") -> list[int]:
    """How many files each scan of a plan says it keeps; all of them speak of the 24 files of the table."""
    text = explained(frame, mode)
    assert "Proxy" not in text
    found = KEPT.findall(text)
    assert {total for _, total in found} == {str(FILES)}, text
    return [int(files) for files, _ in found]


@pytest.mark.parametrize("mode", ["simple", "extended", "formatted", "cost"])
def test_each_mode_names_zskip_and_what_is_kept(frame: DataFrame, mode: str) -> None:
    text = explained(frame.where("id < 250"), mode)
    assert re.search(
        r"Location: ZskipFiles ?(\(1 paths\))?\[kept 3 of 24 files, [\d.]+ kB of [\d.]+ kB in file:/", text
    )


def test_a_scan_that_nothing_filters_says_so(frame: DataFrame) -> None:
    assert kept(frame) == kept(frame.where("hash(id) % 7 = 3")) == kept(frame.where("rand() < 2")) == [FILES]


def test_the_cost_of_a_plan_is_that_of_the_kept_files(frame: DataFrame) -> None:
    def size(of: DataFrame) -> int:
        return int(of._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())

    assert 0 < size(frame.where("id < 0")) < size(frame.where("id < 250")) < size(frame) / 4


def test_the_plan_says_what_the_scan_then_reads(spark: SparkSession, path: Path) -> None:
    table = zskip.table(spark, str(path))
    for where in ("id < 250", "p = 1", "p = 1 AND id < 1250", "id IN (3, 2000) OR p IS NULL", "p = 0 OR id > 2350",
                  "(p = 1 AND id < 1500) OR (p = 0 AND s = 'n7')", "s LIKE 'n23%' AND rand(1) < 2"):  # fmt: skip
        query = table.df().where(where)
        said = kept(query)
        query.collect()
        assert said == [table.last_scan.files], where


def test_a_changed_filter_is_planned_anew(frame: DataFrame) -> None:
    first = frame.where("id < 250")
    assert kept(first) == [3]
    assert kept(first.where("id < 50")) == [1]
    assert kept(frame.where("id >= 2000")) == [4]
    assert kept(first) == [3]


def test_joins_unions_and_subqueries(spark: SparkSession, frame: DataFrame, plain: DataFrame, path: Path) -> None:
    other = zskip.table(spark, str(path)).df()
    shapes = {
        "join": lambda a, b: a.where("id < 250").join(b.where("v < 3 AND id > 150"), "id"),
        "self join": lambda a, _: a.alias("x").join(a.alias("y"), "id").where("x.id < 250"),
        "union": lambda a, b: a.where("id < 250").union(b.where("id >= 1000")),
        "same twice": lambda a, _: a.where("id < 250").union(a.where("id < 50")),
        "aggregate": lambda a, _: a.where("id < 250").groupBy("v").count(),
    }
    said = {"join": [3, 3], "self join": [3, 3], "union": [3, 14], "same twice": [3, 1], "aggregate": [3]}
    said["join"] = [2, 2]  # each side takes the other's range
    for name, shape in shapes.items():
        query = shape(frame, other)
        assert kept(query) == said[name], name
        assert rows(query) == rows(shape(plain, plain)), name


def test_views_subqueries_and_common_tables(spark: SparkSession, frame: DataFrame, plain: DataFrame) -> None:
    query = """
        WITH few AS (SELECT * FROM events WHERE id < 250)
        SELECT * FROM few WHERE v = (SELECT min(v) FROM events WHERE id > 2350) AND id IN (SELECT id + 1 FROM few)
    """
    answers = []
    for source in (plain, frame):
        source.createOrReplaceTempView("events")
        answers.append(rows(spark.sql(query)))
    assert answers[0] == answers[1] != []
    assert sorted(kept(spark.sql(query)))[-1] <= 3


def test_cached_queries(frame: DataFrame, plain: DataFrame) -> None:
    cached = frame.where("id < 250").cache()
    try:
        assert kept(cached)[-1] == 3
        assert rows(cached.where("id > 100")) == rows(plain.where("id > 100 AND id < 250"))
        assert "InMemoryTableScan" in explained(frame.where("id < 250"))
        assert "InMemoryTableScan" not in explained(frame.where("id < 251"))
    finally:
        cached.unpersist()


def test_equal_scans_share_an_exchange_and_different_ones_do_not(
    spark: SparkSession, path: Path, frame: DataFrame, plain: DataFrame, no_broadcast: None
) -> None:
    def joined(one: DataFrame, other: DataFrame) -> DataFrame:
        return one.groupBy("v").count().join(other.groupBy("v").count().withColumnRenamed("count", "n"), "v")

    with settings(spark, adaptive__enabled="false"):
        again = zskip.table(spark, str(path)).df()
        assert "ReusedExchange" in explained(joined(frame.where("id < 250"), again.where("id < 250")))
        different = joined(frame.where("id < 250"), again.where("id < 1250"))
        assert "ReusedExchange" not in explained(different)
        assert rows(different) == rows(joined(plain.where("id < 250"), plain.where("id < 1250")))


def test_dynamic_partition_pruning_stays(spark: SparkSession, frame: DataFrame, plain: DataFrame) -> None:
    spark.createDataFrame([(1, "one"), (9, "nine")], "k long, name string").createOrReplaceTempView("dim")
    query = "SELECT f.id, d.name FROM {} f JOIN dim d ON f.p = d.k WHERE d.name = 'one' AND f.id >= 1100"
    frame.createOrReplaceTempView("pruned")
    plain.createOrReplaceTempView("plain")
    text = explained(spark.sql(query.format("pruned")))
    assert "dynamicpruning" in text
    assert "kept 13 of 24 files" in text
    assert rows(spark.sql(query.format("pruned"))) == rows(spark.sql(query.format("plain")))


def test_a_changed_table_is_read_as_it_was_opened(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.range(0, 400, 1, 4).selectExpr("id", "id % 7 AS v").write.parquet(path)
    table = zskip.table(spark, path)
    table.index()
    before = table.df()
    assert before.where("v = 3").count() == 57
    zskip.table(spark, path).optimize(by=["id", "v"], files=6)
    after = table.df()
    assert after.where("v = 3 AND id < 300").count() == 43
    assert re.search(r"kept \d of 6 files", explained(after.where("v = 3")))


def test_many_plans_forget_the_first(frame: DataFrame) -> None:
    first = frame.where("id < 250")
    assert kept(first) == [3]
    for i in range(70):
        frame.where(f"id < {i}")._jdf.queryExecution().optimizedPlan()
    assert first.count() == 250


def test_other_rules_stay_and_ours_is_there_once(spark: SparkSession, path: Path) -> None:
    for _ in range(3):
        zskip.table(spark, str(path)).df()
    rules = spark._jsparkSession.experimental().extraOptimizations()
    assert rules.size() == 1
    getattr(spark._jsparkSession.experimental(), "extraOptimizations_$eq")(rules.drop(1))
    frame = zskip.table(spark, str(path)).df()
    assert kept(frame.where("id < 250")) == [3]


def test_a_query_works_without_the_rule(spark: SparkSession, path: Path, plain: DataFrame) -> None:
    frame = zskip.table(spark, str(path)).df().where("id < 250")
    methods = spark._jsparkSession.experimental()
    rules = methods.extraOptimizations()
    getattr(methods, "extraOptimizations_$eq")(rules.drop(1))
    try:
        assert "Location: ZskipFiles(1 paths)[file:/" in explained(frame)
        assert rows(frame) == rows(plain.where("id < 250"))
    finally:
        getattr(methods, "extraOptimizations_$eq")(rules)


def test_a_spark_that_compiles_nothing_is_refused(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jvm = Jvm.of(spark)
    for name in [name for name in jvm._cache if name.startswith("scan/")]:
        monkeypatch.delitem(jvm._cache, name)
    monkeypatch.setattr(janino, "read_java", lambda: "no Java")
    for read in (zskip.enable, lambda spark: zskip.table(spark, str(path)).df()):
        with pytest.raises(UnsupportedError, match="no Janino"):
            read(spark)
    assert jvm._cache.pop("scan/loader") is None


def test_each_scan_is_one_line_in_the_log(spark: SparkSession, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = zskip.table(spark, str(path))
    assert table.last_scan is None, "scans of other tests are reported"
    with caplog.at_level(logging.INFO, logger="zskip"):
        query = table.df().where("id < 250")
        explained(query)
        assert table.last_scan is None
        query.collect()
    lines = [r.getMessage() for r in caplog.records if r.name == "zskip.scan"]
    assert len(lines) == 1
    assert re.fullmatch(rf"{re.escape(str(path))}: kept 3 of 24 files, [\d.]+ kB of [\d.]+ kB, in \d+\.\d ms", lines[0])
    assert table.last_scan.files == 3
    assert table.last_scan.files_total == FILES
    assert 0 < table.last_scan.bytes < table.last_scan.bytes_total
    assert (table.last_scan.rows, table.last_scan.rows_total) == (300, ROWS)
    assert table.last_scan.seconds > 0
