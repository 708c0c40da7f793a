"""Hudi's own column statistics, by which the first query on a table without an index is pruned."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from job_groups import job_group

import zskip

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = """
    SELECT id, CAST(id % 2 AS INT) AS part, CAST(id - 50 AS INT) AS whole, id - 50 AS long, id % 3 = 0 AS flag,
        CAST(id - 50 AS DECIMAL(9, 2)) AS short, CAST(id - 50 AS DECIMAL(38, 2)) AS wide,
        DATE_ADD(DATE'2024-01-01', CAST(id AS INT)) AS day, TIMESTAMP_MICROS(id * 1000001 - 50000000) AS at,
        CAST(id AS DOUBLE) AS real, CONCAT('s', id + 100) AS text, IF(id < 50, NULL, CAST(id AS INT)) AS gaps,
        NAMED_STRUCT('x', id) AS inside
    FROM RANGE(100)
"""
PRUNED = [
    "whole = 3", "long < -40", "short = 3", "short = CAST(-48 AS DECIMAL(9, 2))", "wide > 45", "wide = -50",
    "day = DATE'2024-01-03'", "at < TIMESTAMP'1969-12-31 23:59:20'", "at = TIMESTAMP'1970-01-01 00:00:48.000098'",
    "gaps = 60", "gaps IS NOT NULL",
]  # fmt: skip
KEPT = ["real = 3", "text = 's103'", "inside.x = 3", "flag"]
"""Predicates on columns whose statistics are not believed, or say nothing."""
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "long",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.parquet.small.file.limit": "0",
}


def write(frame: DataFrame, path: Path, operation: str, **options: str) -> None:
    given = {**OPTIONS, **options, "hoodie.datasource.write.operation": operation}
    frame.write.format("hudi").options(**given).mode("append").save(str(path))


def pieces(spark: SparkSession, path: Path, **options: str) -> None:
    """A table of four commits, the first of which holds the least ids."""
    for start in range(0, 100, 25):
        write(spark.sql(ROWS).where(f"id >= {start} AND id < {start + 25}").coalesce(1), path, "bulk_insert", **options)


def test_the_first_query_is_pruned_by_them(engine_spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    pieces(engine_spark, path)
    table = zskip.table(engine_spark, str(path))
    frame, files = table.df(), len(table.files())
    everything = engine_spark.sql(ROWS)
    for where in PRUNED + KEPT:
        kept = len(table.files(where))
        assert kept <= files // 2 if where in PRUNED else kept == files, where
        found = sorted(row.id for row in frame.where(where).collect())
        assert found == sorted(row.id for row in everything.where(where).collect()), where
        assert found, where
    assert len(table.files("whole > 1000")) == 0


@pytest.mark.slow
def test_they_follow_the_files_and_give_way_to_the_index(engine_spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    path = tmp_path / "t"
    pieces(engine_spark, path)
    changed = engine_spark.sql(ROWS).where("id = 4").withColumns({"whole": F.lit(999), "long": F.lit(9).cast("long")})
    write(changed, path, "upsert")
    table = zskip.table(engine_spark, str(path))
    assert [row.id for row in table.df().where("whole > 500").collect()] == [4]
    assert len(table.files("whole > 500")) == 1
    assert table.df().where("whole = -46").count() == 0
    table.index()
    calls = engine_spark.sparkContext.statusTracker()
    with job_group(engine_spark.sparkContext, "indexed"):
        assert len(zskip.table(engine_spark, str(path)).files("whole > 500")) == 1
    assert not calls.getJobIdsForGroup("indexed")


@pytest.mark.slow
def test_without_them_every_file_is_kept(engine_spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    pieces(engine_spark, path, **{"hoodie.metadata.index.column.stats.enable": "false"})
    table = zskip.table(engine_spark, str(path))
    assert len(table.files("whole = 3")) == len(table.files())
    assert table.df().where("whole = 3").count() == 1


@pytest.mark.slow
def test_a_metadata_table_that_is_gone_costs_the_pruning_alone(engine_spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    pieces(engine_spark, path)
    shutil.rmtree(path / ".hoodie" / "metadata")
    table = zskip.table(engine_spark, str(path))
    assert len(table.files("whole = 3")) == len(table.files())
