"""A scan through zskip gives what plain Spark gives, from the files that are left."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
import scans
from both_ways import QUICK, answers, rows
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from session_settings import settings

from zskip.formats.parquet import ParquetFormat
from zskip.index import bind_without_index
from zskip.records import PruneResult, ScanReport
from zskip.spark.formats import open_reader
from zskip.spark.scan.bridge.filters import Filters
from zskip.spark.scan.relation import Pruning, scan
from zskip.spark.scan.rule import bound_files
from zskip.spark.scan.rule.reports import OnScan
from zskip.spark.schema import ordinal_of, read_schema
from zskip.storage import LocalStorage

ODD_DIRECTORY = "a b%20#é[x]\ny"


def open_scan(spark: SparkSession, path: Path, on_scan: OnScan | None = None) -> DataFrame:
    """Through an index that knows of no file, where somebody is told of scans; else through none."""
    schema = read_schema(spark, ParquetFormat(LocalStorage(str(path))).snapshot())
    if on_scan is None:
        return scan(spark, schema)
    index = bind_without_index(schema.snapshot, case_sensitive=False)
    return scan(spark, schema, Pruning(index=index, case_sensitive=False, on_scan=on_scan))


@pytest.fixture(scope="module")
def partitioned(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Partitions by integer, awkward strings, date and nulls; `Low` is in the files' names and `p` twice."""
    path = tmp_path_factory.mktemp("scan") / "partitioned"
    texts = "array('007', '7', 'a=b/c%', 'é 日本', '1e3', 'A', 'a', cast(null as string))"
    dates = "array(date'2024-01-01', date'2024-02-29', cast(null as date))"
    spark.range(0, 600, 1, 1).withColumn("k", F.expr("id % 24")).selectExpr(
        "id",
        "id * 1.5D as x",
        "concat('n', id % 50) as `na.me`",
        "named_struct('f', id % 10, 'g g', id) as `s t`",
        "cast(if(k % 5 = 4, null, k % 4) as int) as p",
        f"element_at({texts}, cast(k % 8 as int) + 1) as `q``x`",
        f"element_at({dates}, cast(k % 3 as int) + 1) as d",
    ).write.partitionBy("p", "q`x", "d").parquet(str(path))
    return path


PARTITION_FILTERS = [
    "p = 1",
    "p + 1 = 3",
    "p IS NULL",
    "p IS NOT NULL AND p <> 2",
    "NOT (p = 1)",
    "p <=> NULL",
    "p IN (1, 3, 99)",
    "p IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)",
    "p NOT IN (1, NULL)",
    "p % 2 = 0",
    "p > 1.5",
    "P = '2'",
    "cast(p as string) LIKE '%2%'",
    "CASE WHEN p = 1 THEN d IS NULL ELSE p > 2 END",
    "coalesce(p, 7) = 7",
    "`q``x` = '007'",
    "`q``x` = 7",
    "cast(`q``x` as double) = 7",
    "`q``x` LIKE '%b/c%'",
    "`q``x` LIKE 'a%'",
    "upper(`q``x`) = 'A'",
    "length(`q``x`) > 3 OR p = 0",
    "`q``x` rlike '^[0-9]+$'",
    "`q``x` > 'a'",
    "d = date'2024-02-29'",
    "d = '2024-02-29'",
    "d < timestamp'2024-01-01 12:00:00'",
    "year(d) = 2024 AND month(d) = 2",
    "date_format(d, 'E') = 'Mon'",
    "date_add(d, 1) = date'2024-03-01'",
    "d IS NULL OR p = 1",
    "p = 1 OR id < 20",
    "p = 1 AND id < 20",
    "(p = 1 AND id < 100) OR (d IS NULL AND `na.me` = 'n7')",
    "p = id % 4",
    "p = 5",
    "p = (SELECT max(v) FROM VALUES (1), (2) AS t(v))",
    "p IN (SELECT v FROM VALUES (1), (2) AS t(v))",
    "hash(p, d) % 2 = 0",
    "true",
    "false",
    "p = 1 OR NULL",
    "rand(3) < 2 AND p = 1",
    "`s t`.f = 3 AND p < 2",
    "`s t`.`g g` BETWEEN 10 AND 30",
    "named_struct('a', p, 'b', d) = named_struct('a', 1, 'b', date'2024-01-01')",
    "int(`q``x`) = 7",
]


def test_partition_filters_are_exact(spark: SparkSession, partitioned: Path) -> None:
    plain, pruned = spark.read.parquet(str(partitioned)), open_scan(spark, partitioned)
    with settings(spark, ansi__enabled="false", **QUICK):
        for where, expected in zip(PARTITION_FILTERS, answers(plain, PARTITION_FILTERS), strict=True):
            assert rows(pruned.where(where)) == expected, where


def test_partition_filter_that_fails_fails_the_query(spark: SparkSession, partitioned: Path) -> None:
    with settings(spark, ansi__enabled="true"), pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        open_scan(spark, partitioned).where("int(`q``x`) = 7").collect()


def test_partition_filters_skip_files(spark: SparkSession, partitioned: Path) -> None:
    reports: list[ScanReport] = []
    frame = open_scan(spark, partitioned, reports.append)
    frame.where("p = 1 AND d IS NULL").collect()
    scans.report(spark)
    assert 0 < reports[-1].files < reports[-1].files_total
    assert reports[-1].leaves[0].skipped == reports[-1].files_total - reports[-1].files


def test_paths_reach_hadoop_as_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / ODD_DIRECTORY
    spark.range(20).selectExpr("id", "concat('k %20#', id % 2) as k").write.partitionBy("k").parquet(str(path))
    (path / "k=k %2520#0" / "extra").mkdir(parents=True, exist_ok=True)
    (path / "k=k %2520#0" / "extra").rmdir()
    frame = open_scan(spark, path)
    names = frame.selectExpr("_metadata.file_path", "input_file_name()", "_metadata.file_modification_time")
    # Brackets in a path are a pattern to Spark's own reader, so it is asked for the parent's directories.
    escaped = str(path).replace("[", "\\[").replace("]", "\\]")
    plain = spark.read.parquet(escaped)
    assert rows(frame) == rows(plain)
    assert rows(names.distinct()) == rows(
        plain.selectExpr("_metadata.file_path", "input_file_name()", "_metadata.file_modification_time").distinct()
    )
    assert sorted(frame.inputFiles()) == sorted(plain.inputFiles())


def test_files_that_prune_drops_are_not_read(
    spark: SparkSession, partitioned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed: list[Filters] = []
    reports: list[ScanReport] = []

    def nothing(files: bound_files.BoundFiles, filters: Filters) -> tuple[PruneResult, bool]:
        handed.append(filters)
        none = np.zeros(len(files.index.snapshot), np.bool_)
        return PruneResult(kept=none, full=none), True

    monkeypatch.setattr(bound_files.BoundFiles, "_prune", nothing)
    frame = open_scan(spark, partitioned, reports.append)
    assert frame.alias("t").where("t.`na.me` = 'n1' AND t.id > 3").collect() == []
    scans.report(spark)
    assert reports[-1].files == 0
    assert set(handed[-1].columns.values()) == {"na.me", "id"}
    assert any("startswith" in s or "=" in s for s in handed[-1].sql)


def test_ordinals_number_the_partitions(spark: SparkSession, partitioned: Path) -> None:
    storage = LocalStorage(str(partitioned))
    reader = open_reader(spark, ParquetFormat(storage), storage)
    snapshot, frame = reader.snapshot, reader.live_rows(spark)
    directory = "regexp_extract(input_file_name(), '(p=.*)/[^/]*$', 1)"
    found = {r[0]: r[1] for r in frame.selectExpr(ordinal_of(frame), directory).distinct().collect()}
    assert {i: unquote(d) for i, d in found.items()} == {i: p.directory for i, p in enumerate(snapshot.partitions)}
    assert frame.count() == 600


SHAPES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "count": lambda f: f.groupBy().count(),
    "columns": lambda f: f.select("id").where("id > 590"),
    "self join": lambda f: f.alias("a").join(f.alias("b"), "id").where("a.p = 1").select("a.x", "b.x"),
    "union": lambda f: f.where("p = 1").union(f.where("p = 2")),
    "aggregate": lambda f: f.groupBy("d").agg({"x": "sum"}),
    "limit": lambda f: f.orderBy("id").limit(3),
    "cached": lambda f: f.where("p = 1").cache().where("id < 100"),
    "nested": lambda f: f.select("`s t`.f").where("f = 1"),
}


@pytest.mark.parametrize("setting", ["true", "false"])
def test_shapes_of_queries(spark: SparkSession, partitioned: Path, setting: str) -> None:
    plain, pruned = spark.read.parquet(str(partitioned)), open_scan(spark, partitioned)
    with settings(spark, adaptive__enabled=setting, parquet__enableVectorizedReader=setting):
        for shape, query in SHAPES.items():
            assert rows(query(pruned)) == rows(query(plain)), shape
            spark.catalog.clearCache()


def test_values_of_partitions_have_the_forms_of_their_types(spark: SparkSession, tmp_path: Path) -> None:
    values = {
        "i": [3, None],
        "l": [2**40, -1],
        "d": [dt.date(1969, 12, 31), dt.date(2024, 1, 1)],
        "f": [1.5, -2.0],
        "s": ["x y", "é"],
    }
    for i in range(2):
        parts = [f"{k}={'__HIVE_DEFAULT_PARTITION__' if v[i] is None else v[i]}" for k, v in values.items()]
        spark.range(1).coalesce(1).write.parquet(str(tmp_path / "t" / "/".join(parts)))
    snapshot = read_schema(spark, ParquetFormat(LocalStorage(str(tmp_path / "t"))).snapshot()).snapshot
    types = {f.name: f.type.name for f in snapshot.partition_fields}
    assert types == {"i": "integer", "l": "long", "d": "date", "f": "double", "s": "string"}
    assert sorted(p.values for p in snapshot.partitions if p.values[0] is None) == [
        (None, -1, 19723, -2.0, "é".encode())
    ]
    assert [p.values for p in snapshot.partitions if p.values[0] is not None] == [(3, 2**40, -1, 1.5, b"x y")]
