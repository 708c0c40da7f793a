"""Types that came with Spark 4, as keys and in filters: what zskip reads is what plain Spark reads, of fewer files."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from both_ways import Checked, files_read, outcome, write_arrow, write_sql
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from session_settings import settings

import zskip
from zskip.errors import ColumnError
from zskip.predicate.opaque import lower_case_key
from zskip.spark.jvm import compat

VERSION = tuple(map(int, pyspark.__version__.split(".")[:2]))

TIMES = """
SELECT id, IF(id % 8 = 7, NULL, make_time(CAST(id AS INT), 30, 15.000001)) AS t, concat('n', id) AS s,
  CAST(make_time(CAST(id AS INT), 59, 59.999999) AS TIME(0)) AS t0,
  named_struct('t', make_time(CAST(id AS INT), 0, 0)) AS st
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


TIMES_JOINS = {
    "a.t = b.t": 1,
    "a.t0 = b.t0": 1,
    "a.st.t = b.st.t": 1,
    "CAST(a.t0 AS TIME(6)) = b.t + INTERVAL '00:29:43.999999' HOUR TO SECOND": 1,
    "CAST(a.t AS TIME(0)) = CAST(b.t AS TIME(0))": 3,
}
"""And the files that are read of each side; the rows of the other one are in one file."""
EXTREMES = {"count(t), min(t), max(t), count(t0)": 0, "min(t0)": 2}


@pytest.mark.slow
@pytest.mark.skipif(VERSION < (4, 1), reason="Spark 4.1 has them")
def test_times_of_day(spark: SparkSession, tmp_path: Path) -> None:
    """Filters, first rows, joins, extremes and rewrites by times, in scans of zskip's and in every query."""
    with settings(spark, timeType__enabled="true"):
        path = write_sql(spark, tmp_path / "t", [TIMES.format(low=i, high=i + 8) for i in (0, 8, 16)])
        check = Checked(spark, path)
        assert skipped(spark, path, (where for where, _ in TIMES_WHERE)) == dict(TIMES_WHERE)
        for where, count in TIMES_WHERE[3::3]:
            check(where, count)
        plain = spark.read.parquet(str(path))
        times = tmp_path / "times"
        plain.coalesce(2).write.parquet(str(times))
        for by, source, where in (
            ("t", times, "t = TIME'03:30:15.000001'"),
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
        plain.createOrReplaceTempView("times")
        try:
            spark.conf.set("spark.zskip.joins", "always")
            for (on, files), threshold in itertools.product(TIMES_JOINS.items(), ("-1", "10MB")):
                with settings(spark, autoBroadcastJoinThreshold=threshold):
                    query = f"SELECT a.id, b.id AS k FROM times a JOIN times b ON {on} WHERE b.id IN (9, 10)"
                    assert sorted(files_read(spark, query)) == [1, files], on
            for aggregates, files in EXTREMES.items():
                assert files_read(spark, f"SELECT {aggregates} FROM times WHERE id >= 8") == [files]
            # Spark reads the digits that a file has, whatever its type says.
            path = write_arrow(tmp_path / "f", [pa.table({"t": pa.array([500_000, 1_500_000], pa.time64("us"))})])
            zskip.table(spark, str(path)).index()
            spark.read.schema("t TIME(0)").parquet(str(path)).createOrReplaceTempView("times")
            zero = "SELECT CAST('00:00:00' AS TIME(0)) AS k"
            for query in ("SELECT min(t), max(t) FROM times", f"SELECT t FROM times JOIN ({zero}) ON t = k"):
                files_read(spark, query)
        finally:
            spark.conf.unset("spark.zskip.joins")
            spark.catalog.dropTempView("times")


CASES = ["İstanbul", "i\u0307STANBUL", "istanbul", "ΟΔΟΣ", "οδος", "οδοσ", "STRASSE", "straße", "STRAẞE", "Ǆ", "ǆ", "ſ"]
CASES += ["\u212a", "k", "\u212b", "å", "\U00010400", "\U00010428", "\uffff", "\U0001f600", "Ꭰ", "ꭰ", "", "Z", "z", "~"]


@pytest.mark.slow
@pytest.mark.skipif(VERSION < (4, 0), reason="Spark 4 has them")
def test_keys_without_regard_to_case(spark: SparkSession, tmp_path: Path) -> None:
    """A column with the collation UTF8_LCASE as a key, by characters whose lower case is odd."""
    rows = [(i, ("Name %03d" if i % 2 else "nAME %03d") % i) for i in range(200)]
    rows += [(200 + i, text) for i, text in enumerate([*CASES, None])]
    frame = spark.createDataFrame(rows, "id INT, t STRING").selectExpr("id", "collate(t, 'UTF8_LCASE') AS c", "t")
    frame = frame.selectExpr("*", "named_struct('c', c) AS st", "collate(t, 'UNICODE_CI') AS u")
    frame.coalesce(1).write.parquet(str(tmp_path / "t"))
    table = zskip.table(spark, str(tmp_path / "t"))
    with pytest.raises(ColumnError, match="the collation UTF8_LCASE"):
        table.optimize(by=["u"], curve="linear", files=8)
    path = tmp_path / "by"
    result = table.optimize(by=["c", "st.c"], curve="zorder", files=8, into=str(path))
    assert spark.read.parquet(str(path)).schema == spark.read.parquet(str(tmp_path / "t")).schema
    assert result.by == ("collation_key(c)", "collation_key(st.c)")
    ranges = ["{} = 'NAME 017'", "{} IN ('name 017', 'nAmE 018', NULL)", "{} < 'b'", "{} > 'ζ'", "{} >= 'name 190'"]
    few = [where.format(by) for where in ranges for by in ("c", "st.c")]
    wheres = [f"c {op} '{text}'" for text in CASES for op in ("=", "<", ">=", "<=>")]
    wheres += few + [f"u = '{text}'" for text in CASES[:3]]
    wheres += ["c LIKE 'name 01%'", "startswith(c, 'N')", "c COLLATE UTF8_BINARY = t", "c IS NULL", "c = st.c"]
    wheres += ["NOT (c > 'A')", "c != 'NAME 017'"]
    counts = skipped(spark, path, wheres)
    assert min(counts[where] for where in few) >= 4
    check = Checked(spark, path)
    for where in (*few[:7:2], "c = 'ΟΔΟΣ'", "c = collate(t, 'UTF8_LCASE')", "st.c LIKE 'NAME 01%'"):
        check(where, 4 if where in few else 0)


@pytest.mark.nightly
@pytest.mark.skipif(VERSION < (4, 0), reason="Spark 4 has them")
def test_the_lower_case_of_each_character(spark: SparkSession) -> None:
    """The key of a literal, which Python computes, is that of a row, which Spark computes."""
    known = [chr(point) for point in range(0x110000) if unicodedata.ucd_3_2_0.category(chr(point)) not in ("Cn", "Cs")]
    texts = ["".join(known[i : i + 500]) for i in range(0, len(known), 500)]
    frame = spark.createDataFrame([(text,) for text in texts], "t STRING")
    keys = frame.select(compat.collation_key(spark, F.expr("collate(t, 'UTF8_LCASE')")).alias("k")).collect()
    assert [bytes(row.k) for row in keys] == [lower_case_key(text) for text in texts]
    assert lower_case_key("\U0001f600") is None
