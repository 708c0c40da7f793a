"""Queries on a table as plain Spark answers them and as zskip does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from session_settings import settings

import zskip

QUICK = {"shuffle__partitions": "1", "files__minPartitionNum": "1", "files__openCostInBytes": "0"}
"""Settings for `settings`, under which a query of small files is a single task."""


def outcome(frame: DataFrame) -> list[str]:
    """The rows of a query; of one that fails, that it does."""
    try:
        return sorted(map(repr, _readable(frame).collect()))
    except Exception as error:
        if not isinstance(error, PySparkException) and "Py4J" not in type(error).__name__:
            raise
        return ["fails", str(error)[:300]]


def _readable(frame: DataFrame) -> DataFrame:
    """Intervals of months as texts: Python has no value for them."""
    months = [f.name for f in frame.schema if f.dataType.simpleString().startswith("interval year")]
    return frame.withColumns({name: F.col(name).cast("string") for name in months})


def rows(frame: DataFrame) -> list[str]:
    """The rows of a query, sorted."""
    return sorted(repr(tuple(row)) for row in _readable(frame).collect())


def answers(frame: DataFrame, wheres: Sequence[str]) -> list[list[str]]:
    """For each condition, the rows for which it is true, as Spark evaluates all of them in one query."""
    conditions = [F.expr(where).alias(f"condition {i}") for i, where in enumerate(wheres)]
    found = _readable(frame.select("*", *conditions)).collect()
    width = len(frame.columns)
    return [sorted(repr(tuple(row[:width])) for row in found if row[width + i]) for i in range(len(wheres))]


def files_read(spark: SparkSession, query: str) -> list[int]:
    """The files that each scan of a query reads in an enabled session; fails where the rows are not plain Spark's."""
    expected = outcome(spark.sql(query))
    assert expected[:1] != ["fails"], (query, expected)
    with zskip.enabled(spark):
        assert outcome(spark.sql(query)) == expected, query
    return [scan.files for scan in zskip.scans(spark) if not scan.for_keys]


class Checked:
    """A table read both ways."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self.table = zskip.table(spark, str(path))
        self.table.index()
        self._pruned = self.table.df()
        self._plain = spark.read.parquet(str(path))

    def __call__(self, where: str, skipped: int = 0, *, may_fail: bool = False) -> list[str]:
        """Fail where the ways differ, or fewer files than these are skipped; gives the rows.

        may_fail: Spark may be unable to read some file. Then zskip fails, too, unless it skips that file.
        """
        self.table.last_scan = None
        expected = outcome(self._plain.where(where))
        found = outcome(self._pruned.where(where))
        scan = self.table.last_scan
        if expected[:1] == ["fails"]:
            assert may_fail, (where, expected)
            assert found[:1] == expected[:1] or (scan is not None and scan.files < scan.files_total), where
            return expected
        assert found == expected, where
        if skipped:
            assert scan is not None, where
            assert scan.files_total - scan.files >= skipped, (where, scan)
        return found

    def all(self, skips: Mapping[str, int]) -> None:
        """Fail where the rows of a condition are not plain Spark's, or fewer files than these are skipped."""
        with settings(self._plain.sparkSession, **QUICK):
            for where, expected in zip(skips, answers(self._plain, list(skips)), strict=True):
                self.table.last_scan = None
                assert rows(self._pruned.where(where)) == expected, where
                scan = self.table.last_scan
                if skips[where]:
                    assert scan is not None, where
                    assert scan.files_total - scan.files >= skips[where], (where, scan)


def write_sql(spark: SparkSession, path: Path, selects: Sequence[str]) -> Path:
    """Write one file for each query, named so that the first is Spark's source of the schema."""
    for i, select in enumerate(selects):
        spark.sql(select).coalesce(1).write.parquet(str(path / f"_{i}"))
        (part,) = (path / f"_{i}").glob("*.parquet")
        part.rename(path / f"part-{i:03d}.parquet")
    return path


def write_arrow(path: Path, tables: Sequence[pa.Table]) -> Path:
    """Write one file for each table."""
    path.mkdir(parents=True)
    for i, table in enumerate(tables):
        pq.write_table(table, path / f"part-{i:03d}.parquet")
    return path
