"""Types that came with Spark 4, as keys and in filters: what zskip reads is what plain Spark reads, of fewer files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyspark
import pytest
from both_ways import Checked, outcome, settings, write_sql
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import zskip

VERSION = tuple(map(int, pyspark.__version__.split(".")[:2]))

TIMES = """
SELECT id, IF(id % 8 = 7, NULL, make_time(CAST(id AS INT), 30, 15.000001)) AS t, concat('n', id) AS s,
  CAST(make_time(CAST(id AS INT), 59, 59.999999) AS TIME(0)) AS t0, INTERVAL '1' DAY * id AS ds,
  named_struct('t', make_time(CAST(id AS INT), 0, 0)) AS st, make_ym_interval(CAST(id AS INT), 1) AS ym
FROM range({low}, {high})
"""
TIMES_WHERE = [
    ("t >= TIME'17:00:00'", 2),
    ("t = TIME'03:30:15.000001'", 2),
    ("t = TIME'03:30:15'", 2),
    ("t IN (TIME'03:30:15.000001', TIME'04:00:00', NULL)", 2),
    ("t NOT BETWEEN TIME'00:30:00' AND TIME'15:00:00'", 2),
    ("t < TIME'00:30:15.000001'", 3),
    ("t IS NULL AND id > 17", 2),
    ("t <=> TIME'22:30:15.000001'", 2),
    ("NOT (t < CAST('16:00:00.5' AS TIME(6)))", 2),
    ("t0 = CAST('03:59:59' AS TIME(0))", 2),
    ("CAST(t0 AS TIME(6)) > TIME'22:59:59.5'", 2),
    ("CAST(t0 AS TIME(6)) < TIME'00:59:59.000001'", 2),
    ("t < CAST(t0 AS TIME(6))", 0),
    ("CAST(t AS TIME(0)) = CAST('03:30:15' AS TIME(0))", 0),
    ("st.t = TIME'05:00:00'", 2),
    ("st.t = TIME'05:00:00' OR t = TIME'09:30:15.000001'", 1),
    ("hour(t) = 3", 0),
]


def skipped(spark: SparkSession, path: Path, wheres: Iterable[str]) -> dict[str, int]:
    """How many files each condition skips; fails where one of them has a matching row."""
    conditions, table = list(wheres), zskip.table(spark, str(path))
    truths = [F.expr(f"bool_or({where})").alias(f"c{i}") for i, where in enumerate(conditions)]
    rows = spark.read.parquet(str(path)).groupBy(F.input_file_name().alias("file")).agg(*truths).collect()
    counts = {}
    for i, where in enumerate(conditions):
        kept = {Path(file).name for file in table.files(where)}
        assert {row.file.rpartition("/")[2] for row in rows if row[f"c{i}"]} <= kept, where
        counts[where] = len(rows) - len(kept)
    return counts


@pytest.mark.slow
@pytest.mark.skipif(VERSION < (4, 1), reason="Spark 4.1 has them")
def test_times_of_day(spark: SparkSession, tmp_path: Path) -> None:
    """Filters, the first rows and rewrites by times and intervals, in scans of zskip's and in every query."""
    with settings(spark, timeType__enabled="true"):
        path = write_sql(spark, tmp_path / "t", [TIMES.format(low=i, high=i + 8) for i in (0, 8, 16)])
        check = Checked(spark, path)
        assert skipped(spark, path, (where for where, _ in TIMES_WHERE)) == dict(TIMES_WHERE)
        for where, count in TIMES_WHERE[3::3]:
            check(where, count)
        plain = spark.read.parquet(str(path))
        times = tmp_path / "times"
        plain.drop("ds", "ym").coalesce(2).write.parquet(str(times))
        for by, source, where in (
            ("t", times, "t = TIME'03:30:15.000001'"),
            ("ds", path, "ds = INTERVAL '5' DAY"),
            ("ym", path, "ym >= INTERVAL '21-1' YEAR TO MONTH"),
            ("st.t", None, "st.t >= TIME'20:00:00'"),
        ):
            out = str(tmp_path / f"by {by}")
            if source is None:
                zskip.write(spark.read.parquet(str(times)), out, by=[by], curve="linear", files=4)
            else:
                result = zskip.table(spark, str(source)).optimize([by], curve="linear", into=out, files=4)
                assert result.writer == ("arrow" if source is times else "spark")
            frame = spark.read.parquet(out)
            assert frame.schema == spark.read.parquet(str(source or times)).schema
            read = []
            with zskip.enabled(spark):
                found = [outcome(frame)]
                for query in (frame.where(where), frame.orderBy(by, "id").limit(2)):
                    found.append(outcome(query))
                    read += [scan.files for scan in zskip.scans(spark)]
            rows = plain.select(*frame.columns)
            assert found == [outcome(rows), outcome(rows.where(where)), outcome(rows.orderBy(by, "id").limit(2))], by
            assert read == [1, 1], by
