"""Sessions whose every query prunes: the answers are plain Spark's, from fewer files."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import tiers
from both_ways import rows
from job_groups import jobs_without_group
from pyspark.sql import DataFrame, SparkSession
from session_settings import settings

import zskip
from zskip.errors import InputError
from zskip.index import BoundIndex
from zskip.spark.scan.rule import bound_files, open_index

SETTING = "spark.zskip.enabled"
FILES = 24


@pytest.fixture(scope="module")
def path(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 files of 100 ids each, in two partitions."""
    path = tmp_path_factory.mktemp("enable") / "t ä"
    write(spark, path)
    zskip.table(spark, str(path)).index()
    return path


def write(spark: SparkSession, path: Path, start: int = 0) -> None:
    frame = spark.range(start, start + 2400, 1, FILES)
    frame = frame.selectExpr("id", "id % 10 AS v", "concat('n', id) AS s", f"(id - {start}) DIV 1200 AS p")
    frame.write.mode("overwrite").partitionBy("p").parquet(str(path))


@pytest.fixture(autouse=True)
def enabled(spark: SparkSession) -> Iterator[None]:
    with zskip.enabled(spark):
        yield


def plain(spark: SparkSession, make: object) -> list[str]:
    """The rows of a query without zskip."""
    zskip.disable(spark)
    try:
        return rows(make())  # type: ignore[operator]
    finally:
        zskip.enable(spark)


def read(spark: SparkSession) -> list[tuple[int, int]]:
    return [(scan.files, scan.files_total) for scan in zskip.scans(spark)]


def same(spark: SparkSession, make: object, files: list[tuple[int, int]] | None) -> None:
    """The same rows as plain Spark's, of so many files."""
    expected = plain(spark, make)
    assert rows(make()) == expected  # type: ignore[operator]
    if files is not None:
        assert read(spark) == files


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("id < 250", (3, 24)),
        ("id < 250 AND p = 0", (3, 24)),
        ("p = 1 AND id < 1250", (1, 24)),
        ("s LIKE 'n23%'", (3, 24)),
        ("id IN (3, 2000) OR p IS NULL", (24, 24)),
        ("id > 5000", (0, 24)),
        ("hash(id) % 7 = 3", (24, 24)),
        ("input_file_name() LIKE '%p=1%' AND id < 1350", (14, 24)),
        ("_metadata.file_size > 10 AND id < 50", (1, 24)),
    ],
)
def test_paths(spark: SparkSession, path: Path, where: str, files: tuple[int, int]) -> None:
    same(spark, lambda: spark.read.parquet(str(path)).where(where).select("*", "_metadata.file_path"), [files])


def test_sql_on_paths_views_and_sub_queries(spark: SparkSession, path: Path) -> None:
    zskip.disable(spark)
    spark.read.parquet(str(path)).createOrReplaceTempView("before")
    zskip.enable(spark)
    spark.read.parquet(str(path)).createOrReplaceTempView("after")
    for name in (f"parquet.`{path}`", "before", "after"):
        same(spark, lambda name=name: spark.sql(f"SELECT * FROM {name} WHERE id < 150"), [(2, 24)])
    nested = "SELECT * FROM before WHERE id = (SELECT max(id) FROM after WHERE id < 120) OR id < 20"
    same(spark, lambda: spark.sql(nested), None)
    assert sorted(read(spark))[0] == (1, 24)


def test_partitions_of_a_table_as_paths(spark: SparkSession, path: Path) -> None:
    same(spark, lambda: spark.read.parquet(str(path / "p=1")).where("id < 1250"), [(1, 12)])
    based = spark.read.option("basePath", str(path))
    same(spark, lambda: based.parquet(str(path / "p=1"), str(path / "p=0")).where("id < 1250"), [(13, 24)])
    one = next((path / "p=0").glob("*.parquet"))
    same(spark, lambda: spark.read.parquet(str(one)).where("id > 9000"), [(0, 1)])


def test_catalog_tables(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("DROP TABLE IF EXISTS enabled_t")
    frame = spark.range(0, 2400, 1, FILES).selectExpr("id", "id DIV 1200 AS p")
    try:
        frame.write.partitionBy("p").format("parquet").option("path", str(tmp_path / "t")).saveAsTable("enabled_t")
        zskip.table(spark, str(tmp_path / "t")).index()
        same(spark, lambda: spark.table("enabled_t").where("p = 0 AND id < 250"), [(3, 12)])
        same(spark, lambda: spark.sql("SELECT count(*) FROM enabled_t WHERE id < 250"), None)
        same(spark, lambda: spark.sql("SELECT * FROM enabled_t WHERE id < 250"), [(3, 24)])
        spark.sql("INSERT INTO enabled_t VALUES (100000, 5)")
        same(spark, lambda: spark.table("enabled_t").where("id > 99999"), [(1, 25)])
        spark.sql("ALTER TABLE enabled_t DROP PARTITION (p = 0)")
        same(spark, lambda: spark.table("enabled_t").where("id < 1250"), [(2, 13)])
    finally:
        spark.sql("DROP TABLE IF EXISTS enabled_t")


def test_bucketed_tables(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("DROP TABLE IF EXISTS enabled_b")
    try:
        frame = spark.range(0, 1000, 1, 4).selectExpr("id", "id % 5 AS b")
        frame.write.bucketBy(5, "b").sortBy("id").option("path", str(tmp_path / "b")).saveAsTable("enabled_b")
        zskip.table(spark, str(tmp_path / "b")).index()
        zskip.enable(spark)
        same(spark, lambda: spark.table("enabled_b").where("id < 100").groupBy("b").count(), None)
        assert read(spark)[0][0] < read(spark)[0][1]
    finally:
        spark.sql("DROP TABLE IF EXISTS enabled_b")


def test_what_a_relation_says_of_itself_stays(spark: SparkSession, path: Path) -> None:
    frame = spark.read.parquet(str(path)).where("id < 250")
    assert len(frame.inputFiles()) in (3, FILES)
    shown = spark.read.parquet(str(path)).where("id < 250")._jdf.queryExecution().toString()
    assert "ZskipFiles" in shown
    assert "kept 3 of 24 files" in shown


def test_plans_of_a_disabled_session_name_nothing(spark: SparkSession, path: Path) -> None:
    spark.sql(f"SET {SETTING} = false")
    frame = spark.read.parquet(str(path)).where("id < 250")
    assert "ZskipFiles" not in frame._jdf.queryExecution().toString()
    spark.sql(f"SET {SETTING} = true")
    assert "ZskipFiles" in frame.where("true")._jdf.queryExecution().toString()


def test_cached_frames(spark: SparkSession, path: Path) -> None:
    cached = spark.read.parquet(str(path)).where("id < 250").cache()
    try:
        assert cached.count() == 250
        assert read(spark) == [(3, 24)]
        assert spark.read.parquet(str(path)).where("id < 250").count() == 250
    finally:
        cached.unpersist()


def test_an_index_that_comes_later_or_goes_is_seen(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(spark, path)
    frame = spark.read.parquet(str(path))
    assert rows(frame.where("id < 100"))
    assert not any(str(path) in scan.table for scan in zskip.scans(spark))
    zskip.table(spark, str(path)).index()
    same(spark, lambda: frame.where("id < 100"), [(1, 24)])
    shutil.rmtree(path / "_zskip")
    assert "ZskipFiles" not in frame.where("id < 101")._jdf.queryExecution().toString()
    same(spark, lambda: frame.where("id < 101"), None)


def test_new_and_changed_files_are_read(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(spark, path)
    zskip.table(spark, str(path)).index()
    spark.range(0, 50).selectExpr("id", "id AS v", "'x' AS s").write.parquet(str(path / "p=7"))
    same(spark, lambda: spark.read.parquet(str(path)).where("id < 50"), None)
    assert read(spark)[0][0] == 1 + len(list((path / "p=7").glob("*.parquet")))
    changed = sorted((path / "p=1").glob("*.parquet"))[0]
    table = pq.read_table(changed)
    pq.write_table(table.set_column(0, "id", [[1] * len(table)]), changed)
    os.utime(changed, (1, 1))
    (path / "p=1" / f".{changed.name}.crc").unlink(missing_ok=True)
    same(spark, lambda: spark.read.parquet(str(path)).where("id = 1"), None)
    assert len(rows(spark.read.parquet(str(path)).where("id = 1"))) == len(table) + 2


def test_a_table_overwritten_after_analysis(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(spark, path)
    zskip.table(spark, str(path)).index()
    frame = spark.read.parquet(str(path)).where("id BETWEEN 90 AND 110")
    before = rows(frame)
    write(spark, path, start=50)
    after = plain(spark, lambda: spark.read.parquet(str(path)).where("id BETWEEN 90 AND 110"))
    try:
        found = rows(frame.where("true"))
    except Exception as error:
        found = ["FileNotFound"] if re.search("FileNotFound|FAILED_READ_FILE", str(error)) else [str(error)]
    assert found in (before, after, ["FileNotFound"])


def test_a_damaged_index_costs_a_warning(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(spark, path)
    zskip.table(spark, str(path)).index()
    for manifest in (path / "_zskip" / "index").glob("manifest-*"):
        manifest.write_bytes(b"nothing")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        same(spark, lambda: spark.read.parquet(str(path)).where("id < 100"), None)
        same(spark, lambda: spark.read.parquet(str(path)).where("id < 101"), None)
    assert [str(w.message) for w in said if "is not used" in str(w.message)] != []
    zskip.table(spark, str(path)).index()
    same(spark, lambda: spark.read.parquet(str(path)).where("id < 100"), [(1, 24)])
    for entries in (path / "_zskip" / "index").glob("*-entries.zskip"):
        entries.write_bytes(b"nothing")
    os.utime(path / "_zskip" / "index", (7, 7))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(spark, lambda: spark.read.parquet(str(path)).where("id < 100"), [(24, 24)])


def test_options_and_formats_that_are_left_alone(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    rebased = spark.read.option("datetimeRebaseMode", "LEGACY").parquet(str(path)).where("id < 100")
    assert "ZskipFiles" not in rebased._jdf.queryExecution().toString()
    spark.range(10).write.json(str(tmp_path / "j"))
    assert spark.read.json(str(tmp_path / "j")).where("id < 5").count() == 5


def test_streams_are_left_alone(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    stream = spark.readStream.schema("id long, v long, s string, p int").parquet(str(path)).where("id < 250")
    query = stream.writeStream.format("memory").queryName("enabled_stream").trigger(availableNow=True)
    running = query.option("checkpointLocation", str(tmp_path / "c")).start()
    running.awaitTermination()
    assert spark.table("enabled_stream").count() == 250
    assert "ZskipFiles" not in str(running.lastProgress)


def test_other_schemas_of_the_same_files(spark: SparkSession, path: Path) -> None:
    for schema in ("id int, p int", "id string", "ID long, x int", "v long"):
        for where in ("id < 250", "ID = '7'", "x IS NULL"):

            def make(schema: str = schema, where: str = where) -> DataFrame:
                return spark.read.schema(schema).parquet(str(path)).where(where)

            try:
                expected = plain(spark, make)
            except Exception:
                continue
            assert rows(make()) == expected, (schema, where)


@pytest.mark.parametrize("adaptive", tiers.first(["true", "false"]))
def test_many_threads(spark: SparkSession, path: Path, adaptive: str) -> None:
    frame, queries = spark.read.parquet(str(path)), tiers.count(48, quick=16)

    def ask(i: int) -> tuple[int, int]:
        small = frame.where(f"id BETWEEN {i * 10} AND {i * 10 + 9}")
        joined = small.join(frame.where(f"v < 5 AND id < {i * 10 + 9}").select("id", "p"), "id")
        return small.count(), joined.count()

    with settings(spark, adaptive__enabled=adaptive), ThreadPoolExecutor(16) as pool:
        found = list(pool.map(ask, range(queries)))
    assert found == [(10, 5)] * queries


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM e WHERE id < 250",
        "SELECT * FROM e WHERE v = 3 ORDER BY id DESC LIMIT 3",
        "SELECT count(*), max(id) FROM e WHERE id < 250",
        "SELECT * FROM e WHERE id = (SELECT max(id) FROM e WHERE v < 3) AND v IN (SELECT v FROM e WHERE id < 9)",
    ],
)
def test_to_explain_a_query_runs_nothing(spark: SparkSession, path: Path, query: str) -> None:
    spark.read.parquet(str(path)).createOrReplaceTempView("e")
    before = jobs_without_group(spark.sparkContext)
    for mode in ("extended", "formatted", "codegen"):
        with contextlib.redirect_stdout(io.StringIO()) as text:
            spark.sql(query).explain(mode=mode)
        assert "ZskipFiles" in text.getvalue() or mode == "codegen"
    for kind in ("", "COST"):
        spark.sql(f"EXPLAIN {kind} {query}").collect()
    assert jobs_without_group(spark.sparkContext) == before
    spark.range(9).count()
    assert jobs_without_group(spark.sparkContext) > before


def test_twice_and_other_sessions(spark: SparkSession, path: Path) -> None:
    zskip.enable(spark)
    zskip.enable(spark)
    assert spark._jsparkSession.experimental().extraOptimizations().size() == 1
    other = spark.newSession()
    frame = other.read.parquet(str(path)).where("id < 100")
    assert "ZskipFiles" not in frame._jdf.queryExecution().toString()
    with zskip.enabled(other) as session:
        assert session is other
        assert "ZskipFiles" in frame.where("true")._jdf.queryExecution().toString()
    assert other.conf.get(SETTING, None) is None


def test_what_is_no_session_is_refused(spark: SparkSession) -> None:
    for call in (zskip.enable, zskip.disable, zskip.scans):
        with pytest.raises(InputError, match="not a SparkSession"):
            call("spark")  # type: ignore[arg-type]


def test_a_report_says_what_each_kind_of_pruning_skipped(spark: SparkSession, path: Path) -> None:
    spark.read.parquet(str(path)).where("p = 1 AND id < 1250").collect()
    (scan,) = zskip.scans(spark)
    assert scan.table == str(path)
    assert scan.bytes < scan.bytes_total
    assert scan.rows == 100
    kinds = {leaf.kind: leaf.skipped for leaf in scan.leaves}
    assert kinds == {"partition": 12, "filter": 11}


def test_frames_of_tables_report_too(spark: SparkSession, path: Path) -> None:
    zskip.table(spark, str(path)).df().where("id < 250").collect()
    assert read(spark) == [(3, 24)]


@pytest.mark.parametrize("step", ["open_index", "BoundFiles.prepare", "BoundFiles.list_files", "BoundIndex.prune"])
def test_whatever_fails_leaves_the_query_to_spark(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("broken for a test")

    owner = {"open_index": open_index, "BoundIndex.prune": BoundIndex}.get(step, bound_files.BoundFiles)
    monkeypatch.setattr(owner, step.rpartition(".")[2], broken)
    # Another schema, so that the index is opened anew.
    schema = f"id long, v long, s string, p int, `{step}` int"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            same(spark, lambda: spark.read.schema(schema).parquet(str(path)).where("id < 250"), None)


def test_a_failure_is_told_once(spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken for a test")

    monkeypatch.setattr(open_index, "open_index", broken)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for name in ("told", "twice"):
            frame = spark.read.schema(f"id long, {name} int").parquet(str(path)).where("id < 250")
            assert frame.count() == 250
    assert len([w for w in said if "broken for a test" in str(w.message)]) <= 1
