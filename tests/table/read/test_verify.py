"""Verify: finds nothing wrong with what is right, and finds statistics and queries that are wrong."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables
from pyspark.sql import SparkSession

import zskip
from zskip.errors import ColumnError, InputError, PredicateError, ZskipWarning
from zskip.index import BoundIndex
from zskip.predicate import Column, to_sql
from zskip.records import Verification
from zskip.table.read.verify import Probe, draw
from zskip.types import DataType

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def clustered(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tables.make_partitioned(tmp_path_factory.mktemp("verify") / "t")
    zskip.table(spark, str(path)).optimize(by=["id", "user"], files=12)
    return path


def test_a_right_table_of_all_types(spark: SparkSession, tmp_path: Path) -> None:
    table = zskip.table(spark, str(tables.make_all_types(tmp_path / "t")))
    table.index()
    result = table.verify(queries=10)
    assert result.mismatches == ()
    assert result.ok
    assert (result.files, result.columns, result.queries) == (4, 16, 10)


@pytest.mark.slow
def test_a_clustered_and_partitioned_table(spark: SparkSession, clustered: Path) -> None:
    table = zskip.table(spark, str(clustered))
    result = table.verify(queries=10, seed=3)
    assert result.mismatches == ()
    assert result.files == table.info().files
    result = table.verify("id < 100 AND region = 'us east' -- a comment")
    assert result.ok
    assert result.queries == 1


def test_a_cached_table(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.range(100).selectExpr("id", "id % 7 AS k").repartition(2).write.parquet(path)
    table = zskip.table(spark, path)
    frames = [frame.cache() for frame in (spark.read.parquet(path), table.df())]
    try:
        for frame in frames:
            frame.count()
        assert table.index(sketches=["bloom(0.01):k"], collect="scan").files == 2
        assert table.verify(queries=2).ok
        spark.range(100, 110).selectExpr("id", "id % 7 AS k").write.mode("append").parquet(path)
        assert table.verify(queries=2).ok, "what the session has cached is not what the files hold"
    finally:
        for frame in frames:
            frame.unpersist(blocking=True)


def test_intervals(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rows = spark.range(60).selectExpr("make_dt_interval(id, 1) AS d", "make_ym_interval(id, 3) AS m")
    rows.repartitionByRange(3, "d").write.parquet(path)
    table = zskip.table(spark, path)
    table.index(collect="scan")
    result = table.verify(queries=3)
    assert result.mismatches == ()
    assert (result.files, result.columns) == (3, 2)
    assert table.prune("d < INTERVAL '10' DAY").files == 1


def test_tables_with_little_in_them(spark: SparkSession, tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "t", files=2, rows=10)
    with pytest.warns(ZskipWarning, match="no index"):
        bare = zskip.table(spark, str(path)).verify(queries=3)
    assert (bare.ok, bare.columns, bare.queries) == (True, 0, 3)
    zskip.table(spark, str(path)).index()
    for file in path.glob("*.parquet"):
        pq.write_table(pq.read_table(file).slice(0, 0), file)
    zskip.table(spark, str(path)).index()
    assert zskip.table(spark, str(path)).verify(queries=1).ok


Stats = Any


def tampered(monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[Stats], None]) -> None:
    """Let the index say something else of a column."""
    honest = BoundIndex.column

    def column(self: BoundIndex, path: tuple[str, ...]) -> Stats:
        stats = honest(self, path)
        if stats is not None and path == (name,):
            change(stats)
        return stats

    monkeypatch.setattr(BoundIndex, "column", column)


def first_file(found: Verification, what: str) -> str | None:
    return next(m.file for m in found.mismatches if m.what == what)


def test_a_bound_that_does_not_hold(spark: SparkSession, clustered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def change(stats: Stats) -> None:
        stats.upper[3] = stats.lower[3]

    tampered(monkeypatch, "id", change)
    found = zskip.table(spark, str(clustered)).verify("id >= 0 AND (id % 2 = 0 OR user = 3)")
    assert not found.ok
    files = sorted(p.relative_to(clustered).as_posix() for p in tables.visible(clustered))
    assert first_file(found, "upper bound of id") in files
    audit = [m for m in found.mismatches if m.what == "upper bound of id"]
    assert len(audit) == 1
    assert int(audit[0].expected.rstrip("L")) > int(audit[0].found.rstrip("L"))


@pytest.mark.slow  # Each smaller predicate is asked of all files.
def test_the_smallest_predicate_that_fails_is_told(
    spark: SparkSession, clustered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(stats: Stats) -> None:
        stats.lower[:] = 10**6
        stats.upper[:] = 10**6

    tampered(monkeypatch, "id", change)
    table = zskip.table(spark, str(clustered))
    given = table.verify("(region IS NOT NULL OR user IS NULL) AND (id < 3000 AND NOT name LIKE '%7')")
    failing = given.mismatches[-1]
    assert failing.what == "id < 3000L"
    assert failing.file is not None
    expected = spark.read.parquet(str(clustered)).where("id < 3000").count()
    assert failing.expected.startswith(f"{expected:,} rows")
    assert failing.found.startswith("0 rows")
    result = table.verify(queries=12, seed=1)
    assert any(" rows, checksum " in m.found and "id" in m.what for m in result.mismatches)


def test_counts_of_nulls_and_hidden_nan(spark: SparkSession, clustered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_nulls(stats: Stats) -> None:
        stats.nulls[:] = 0

    def no_nan(stats: Stats) -> None:
        stats.may_nan[:] = False

    with monkeypatch.context() as patch:
        tampered(patch, "user", no_nulls)
        found = zskip.table(spark, str(clustered)).verify("user IS NULL AND id >= 0")
        assert first_file(found, "nulls of user") is not None
        assert found.mismatches[-1].what == "user IS NULL"
    with monkeypatch.context() as patch:
        tampered(patch, "score", no_nan)
        assert first_file(zskip.table(spark, str(clustered)).verify(queries=0), "NaN of score") is not None


@pytest.mark.slow
def test_a_file_swapped_for_another_of_the_same_size_and_time(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no identity tells that its statistics are old, its content does."""
    monkeypatch.setattr("zskip.storage.local.identity_on_disk", lambda inode, ctime_ns: 0)
    path = tmp_path / "t"
    path.mkdir()
    for i in range(3):
        pq.write_table(pa.table({"a": np.arange(100) + 1000 * i}), path / f"{i}.parquet", compression="none")
    zskip.table(spark, str(path)).index()
    victim = path / "1.parquet"
    before = victim.stat()
    pq.write_table(pa.table({"a": np.arange(100) + 5000}), victim, compression="none")
    assert victim.stat().st_size == before.st_size
    os.utime(victim, ns=(before.st_atime_ns, before.st_mtime_ns))
    spark.catalog.refreshByPath(str(path))
    result = zskip.table(spark, str(path)).verify(queries=12)
    assert first_file(result, "upper bound of a") == "1.parquet"
    assert any("rows, checksum" in m.found and m.file == "1.parquet" for m in result.mismatches)


def test_the_same_seed_draws_the_same_queries() -> None:
    probes = [
        Probe(column=Column(("a",), DataType("integer")), values=[-(2**31), 5, 9]),
        Probe(column=Column(("b",), DataType("string")), values=[b"x%_y", "ä".encode()]),
        Probe(column=Column(("c",), DataType("double")), values=[math.inf, 0.5]),
        Probe(column=Column(("d",), DataType("decimal(38,2)")), values=[]),
    ]
    texts = [to_sql(p) for p in draw(probes, 200, 4)]
    assert texts == [to_sql(p) for p in draw(probes, 200, 4)]
    assert texts != [to_sql(p) for p in draw(probes, 200, 5)]
    assert len(set(texts)) > 150
    for word in ("LIKE", "IN (", "IS NULL", "NaN", "AND", "OR", "NOT"):
        assert any(word in text for text in texts), word


def test_bad_input(spark: SparkSession, clustered: Path) -> None:
    table = zskip.table(spark, str(clustered))
    with pytest.raises(InputError, match="queries=-1"):
        table.verify(queries=-1)
    with pytest.raises(InputError, match="seed='x'"):
        table.verify(seed="x")  # type: ignore[arg-type]
    with pytest.raises(ColumnError, match="nope"):
        table.verify("nope = 1")
    with pytest.raises(PredicateError):
        table.verify("id <")
    with pytest.raises(InputError, match="needs Spark"):
        zskip.open(str(clustered)).verify()
