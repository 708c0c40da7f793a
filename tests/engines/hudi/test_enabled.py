"""Hudi's own reader in a session with `zskip.enable`: its answers, from fewer files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import zskip

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KINDS = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.compact.inline": "false",
    "hoodie.metadata.enable": "false",
}
FILES = 4
QUERIES = {
    "SELECT * FROM t WHERE id = 250": 1,
    "SELECT * FROM t WHERE p = 1 AND id > 390": 1,
    "SELECT id FROM t WHERE u = 77": 1,
    "SELECT a.id FROM t a JOIN keys ON a.id = keys.k": 1,
    "SELECT id FROM t ORDER BY id DESC LIMIT 3": 1,
    "SELECT count(*) FROM t LIMIT 1": 0,
    "SELECT count(*), min(id) FROM t WHERE id < 150": 1,
    "SELECT p, count(*), sum(ts) FROM t GROUP BY p": FILES,
}
"""Queries, and the files that each reads of the new table."""


def write(frame: DataFrame, path: Path, kind: str, operation: str = "upsert", **options: str) -> None:
    named = {"hoodie.datasource.write.operation": operation, "hoodie.datasource.write.table.type": KINDS[kind]}
    frame.write.format("hudi").options(**{**OPTIONS, **named, **options}).mode("append").save(str(path))


def create(spark: SparkSession, path: Path, kind: str) -> None:
    """A table of two partitions with two files each, indexed with a sketch."""
    for start in range(0, 400, 100):
        rows = spark.range(start, start + 100, 1, 1).selectExpr(
            "id", "1L AS ts", "id * 7919 % 400 AS u", "id", "'n' AS s"
        )
        rows = rows.selectExpr("id", "ts", "u", "s", "CAST(id DIV 200 AS INT) AS p")
        write(rows, path, kind, "bulk_insert")
    zskip.table(spark, str(path)).index(sketches=["values:u"])


def change(spark: SparkSession, path: Path, kind: str) -> None:
    """Update a row of one file, delete another of the same file."""
    rows = spark.read.format("hudi").load(str(path)).select("id", "ts", "u", "s", "p")
    write(rows.where("id = 250").selectExpr("id", "2L AS ts", "900L AS u", "'x' AS s", "p"), path, kind)
    write(rows.where("id = 251"), path, kind, "delete")


@contextmanager
def view(spark: SparkSession, path: Path, **options: str) -> Iterator[None]:
    """Hudi's reader of the table as `t`, and a few keys."""
    spark.read.format("hudi").options(**options).load(str(path)).createOrReplaceTempView("t")
    spark.sql("SELECT 77L AS k").createOrReplaceTempView("keys")
    yield
    spark.catalog.dropTempView("t")


def both(spark: SparkSession, query: str) -> tuple[list[str], list[str]]:
    """The rows of a query without zskip and with it."""
    plain = sorted(map(str, spark.sql(query).collect()))
    with zskip.enabled(spark):
        return plain, sorted(map(str, spark.sql(query).collect()))


@pytest.mark.parametrize("kind", KINDS)
def test_its_queries_read_fewer_files(kind: str, engine_spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t ü"
    create(engine_spark, path, kind)
    version = str(zskip.table(engine_spark, str(path)).info().version)
    with view(engine_spark, path):
        for query, files in QUERIES.items():
            plain, pruned = both(engine_spark, query)
            assert pruned == plain, query
            scan = next(scan for scan in zskip.scans(engine_spark) if not scan.for_keys)
            assert scan.files == files, query
    change(engine_spark, path, kind)
    with view(engine_spark, path):
        for query in [*QUERIES, "SELECT id, s FROM t WHERE u = 900", "SELECT id FROM t WHERE id IN (250, 251)"]:
            plain, pruned = both(engine_spark, query)
            assert pruned == plain, query
        both(engine_spark, "SELECT * FROM t WHERE id = 20")
        (scan,) = zskip.scans(engine_spark)
        # Log files may say anything of the rows of their file group, and the new file of a copy is not indexed.
        assert scan.files == 2
        both(engine_spark, "SELECT count(*) FROM t")
        (scan,) = zskip.scans(engine_spark)
        assert scan.files == 1
    with view(engine_spark, path, **{"as.of.instant": version}):
        plain, pruned = both(engine_spark, "SELECT * FROM t WHERE id IN (250, 251)")
        assert pruned == plain
        assert len(plain) == 2
        (scan,) = zskip.scans(engine_spark)
        assert scan.files == 1


def test_parts_of_its_history_are_left_to_hudi(engine_spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    create(engine_spark, path, "mor")
    change(engine_spark, path, "mor")
    incremental = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": "0"}
    with view(engine_spark, path, **incremental):
        plain, pruned = both(engine_spark, "SELECT id, s FROM t WHERE id IN (250, 251)")
        assert pruned == plain
        assert plain
        assert all(scan.table != str(path) for scan in zskip.scans(engine_spark))
    with view(engine_spark, path, **{"hoodie.datasource.query.type": "read_optimized"}):
        plain, pruned = both(engine_spark, "SELECT id, s FROM t WHERE id IN (250, 251)")
        assert pruned == plain
        assert len(plain) == 2
