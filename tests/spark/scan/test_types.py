"""Every type, and files of older schemas: what a pruned scan gives is what plain Spark gives."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
import tiers
from both_ways import Checked, answers, files_read, outcome, rows, write_arrow, write_sql
from pyspark.sql import SparkSession
from session_settings import settings

import zskip

SPARK4 = int(pyspark.__version__.split(".")[0]) >= 4


def test_fields_of_structs_under_an_alias_of_their_name(spark: SparkSession, tmp_path: Path) -> None:
    """`s.s` may be a field of the column `s` or the column of the alias."""
    select = "SELECT id, named_struct('a', named_struct('B', id)) AS s FROM range({}, {})"
    check = Checked(spark, write_sql(spark, tmp_path / "t", [select.format(0, 9), select.format(9, 20)]))
    check.table.df().createOrReplaceTempView("s")
    for where in ("s.s.a.B = 5", "s.a.B = 5", "s.id = 5"):
        found = spark.sql(f"SELECT id FROM s WHERE {where}").collect()
        assert [row.id for row in found] == [5]


@pytest.mark.slow
def test_names_that_differ_in_case_alone(spark: SparkSession, tmp_path: Path) -> None:
    """With case sensitivity they are different columns, without it such a file cannot be read."""
    path = write_arrow(
        tmp_path / "t",
        [
            pa.table({"a": [1, 2], "s": [{"x": 1}, {"x": 2}]}),
            pa.table({"A": [1, 2], "s": [{"X": 1}, {"X": 2}]}),
            pa.table({"a": [5, 6], "A": [1, 2], "s": [{"x": 5, "X": 1}] * 2}),
        ],
    )
    for sensitive in ("true", "false"):
        with settings(spark, caseSensitive=sensitive):
            check = Checked(spark, path)
            for where in ("a = 1", "a = 6", "a IS NULL", "a > 1", "s.x = 1", "s.x = 5", "s.x IS NULL"):
                check(where, may_fail=sensitive == "false")
            if sensitive == "true":
                check("a = 1", 2)
                check("a IS NULL", 2)
                check("s.x = 5", 2)
                check("s.x IS NULL", 2)


WIDENED: list[tuple[pa.DataType, Sequence[object], pa.DataType, Sequence[object], list[str]]] = [
    (pa.int64(), [2**40, 5], pa.int32(), [5, -6], ["c = 5", "c = -6", "c > 100", "c < 0"]),
    (pa.int32(), [70_000], pa.int16(), [5, -6], ["c = 5", "c > 100", "c < 0"]),
    (pa.float64(), [1e300, 0.1], pa.float32(), [0.1, -2.0], ["c = 0.1D", "c < 0", "c = 7D", "c = float(0.1)", "c > 1"]),
    (pa.float64(), [1e300, 0.5], pa.int32(), [7, -8], ["c = 7", "c < 0", "c = 8", "c > 100"]),
    (
        pa.decimal128(20, 4),
        [Decimal("1234567.1234")],
        pa.decimal128(9, 2),
        [Decimal("1.25"), Decimal("-9.99")],
        ["c = 1.25", "c < 0", "c > 1000", "c = 1234567.1234"],
    ),
    (
        pa.decimal128(12, 4),
        [Decimal("1234567.1234")],
        pa.decimal128(9, 2),
        [Decimal("1.25"), Decimal("-9.99")],
        ["c = 1.25", "c < 0", "c > 1000"],
    ),
    (pa.decimal128(20, 2), [Decimal("1.25")], pa.int32(), [3, -4], ["c = 3", "c < 0", "c = 2.5", "c = 1.25"]),
    (
        pa.timestamp("us"),
        [dt.datetime(2024, 1, 1, 12)],
        pa.date32(),
        [dt.date(2023, 5, 6), dt.date(1999, 1, 1)],
        ["c = TIMESTAMP_NTZ'2023-05-06'", "c > TIMESTAMP_NTZ'2024-01-01'", "c < TIMESTAMP_NTZ'2000-01-01'"],
    ),
    (pa.int32(), [5], pa.int64(), [2**40, 5], ["c = 5", "c > 100", "c < 0"]),
    (pa.int64(), [5], pa.string(), ["5", "x"], ["c = 5", "c > 100", "c < 0"]),
    (pa.string(), ["5"], pa.int64(), [5, 6], ["c = '5'", "c > '7'"]),
    (pa.string(), ["5"], pa.binary(), [b"5", b"\xff"], ["c = '5'", "c > '7'"]),
    (
        pa.timestamp("us", "UTC"),
        [dt.datetime(2024, 1, 1)],
        pa.timestamp("us"),
        [dt.datetime(2023, 1, 1)],
        ["c IS NULL"],
    ),
    (pa.int64(), [5], pa.uint32(), [2**32 - 1, 6], ["c = 6", "c = 4294967295", "c < 0"]),
]
WIDENING = 8
"""The first so many Spark 4 reads, and the second and third predicate skip a file."""


@pytest.mark.slow
def test_files_of_narrower_types(spark: SparkSession, tmp_path: Path) -> None:
    """Where Spark reads them; where it fails so does zskip, unless it need not read the file."""
    read = set()
    for number, (wide, values, narrow, older, wheres) in enumerate(WIDENED):
        tables = [pa.table({"c": pa.array(values, wide)}), pa.table({"c": pa.array(older, narrow)})]
        check = Checked(spark, write_arrow(tmp_path / str(number), tables))
        for i, where in enumerate(wheres):
            skipped = int(SPARK4 and number < WIDENING and i in (1, 2))
            if check(where, skipped, may_fail=True)[:1] != ["fails"]:
                read.add((str(narrow), str(wide)))
    if SPARK4:
        assert ("int32", "int64") in read
        assert ("decimal128(9, 2)", "decimal128(20, 4)") in read
        assert ("date32[day]", "timestamp[us]") in read


def test_padded_text(spark: SparkSession, tmp_path: Path) -> None:
    """A catalog pads `char` as it writes; files that others wrote are padded as they are read."""
    spark.sql("DROP TABLE IF EXISTS padded")
    path = tmp_path / "padded"
    spark.sql(
        "CREATE TABLE padded (id LONG, c CHAR(4), v VARCHAR(6), st STRUCT<k: CHAR(3)>) USING parquet "
        f"LOCATION '{path.as_uri()}'"
    )
    try:
        spark.sql("INSERT INTO padded VALUES (1, 'ab', 'x ', named_struct('k', 'p')), (2, 'cd  ', 'y', NULL)")
        spark.sql("INSERT INTO padded VALUES (3, 'xy', 'zz', named_struct('k', 'q')), (4, NULL, NULL, NULL)")
        foreign = {"id": [5, 6], "c": ["ab", "q"], "v": ["x ", "zz"], "st": [{"k": "p"}, {"k": "q  "}]}
        pq.write_table(pa.table(foreign), path / "zz.parquet")
        spark.sql("REFRESH TABLE padded")
        zskip.table(spark, str(path)).index()
        for reads, writes in (("true", "true"), ("false", "false")):
            with settings(spark, readSideCharPadding=reads, charAsVarchar="false" if writes == "true" else "true"):
                wheres = PADDED if reads == "true" else PADDED[::3]
                for where, expected in zip(wheres, answers(spark.table("padded"), wheres), strict=True):
                    assert rows(zskip.sql(spark, f"SELECT * FROM padded WHERE {where}")) == expected, (where, reads)
        check = Checked(spark, path)
        check("c = 'ab'")
        check("c = 'xy  '", int(SPARK4))  # Spark 3.5 pads what is read of any file whose footer says char.
        check("v = 'y'", 1)
    finally:
        spark.sql("DROP TABLE padded")


PADDED = [
    "c = 'ab'",
    "c = 'ab  '",
    "c < 'abc'",
    "c > 'q'",
    "c IN ('ab', 'xy')",
    "c LIKE 'ab'",
    "c LIKE 'ab%'",
    "c LIKE '%  '",
    "length(c) = 4",
    "c <=> 'q'",
    "c IS NULL",
    "v = 'x'",
    "v = 'x '",
    "v = 'zz' AND c = 'xy'",
    "st.k = 'p'",
    "st.k = 'q  '",
    "st.k > 'p '",
    "c = v",
    "c = st.k",
]

INTERVALS = """
SELECT id, IF(id = 7, NULL, -INTERVAL '1' DAY * id) AS ds, CAST(INTERVAL '1' HOUR * id AS INTERVAL HOUR) AS hh,
  make_ym_interval(CAST(id AS INT), 1) AS ym, CAST(INTERVAL '-1' MONTH * id AS INTERVAL MONTH) AS mm
FROM range(24)
"""
EXTREMES = "count({0}), CAST(min({0}) AS STRING) AS low, CAST(max({0}) AS STRING) AS high"


@pytest.mark.slow
def test_intervals_as_keys(spark: SparkSession, tmp_path: Path) -> None:
    """Rows lie by intervals, and filters, first rows, joins and extremes of them read few files."""
    spark.sql(INTERVALS).repartition(3).write.parquet(str(tmp_path / "t"))
    spark.conf.set("spark.zskip.joins", "always")
    try:
        for by, broadcast in (("ds", "-1"), ("hh", "10MB"), ("ym", "-1"), ("mm", "10MB")):
            out = str(tmp_path / by)
            zskip.table(spark, str(tmp_path / "t")).optimize([by], curve="linear", files=3, into=out)
            frame = spark.read.parquet(out)
            assert frame.schema == spark.read.parquet(str(tmp_path / "t")).schema
            assert outcome(frame) == outcome(spark.sql(INTERVALS))
            frame.createOrReplaceTempView("intervals")
            one = f"(SELECT {by} AS k FROM intervals WHERE id = 9)"
            assert files_read(spark, f"SELECT id FROM intervals ORDER BY {by} DESC LIMIT 3") == [1]
            assert files_read(spark, f"SELECT {EXTREMES.format(by)} FROM intervals") == [0]
            with settings(spark, autoBroadcastJoinThreshold=broadcast):
                assert set(files_read(spark, f"SELECT id FROM intervals JOIN {one} ON {by} = k")) == {1}
    finally:
        spark.conf.unset("spark.zskip.joins")
        spark.catalog.dropTempView("intervals")


FLOATS = ("0.0", "-0.0", "'NaN'", "'Infinity'", "'-Infinity'", "1.5", "-1.5", "NULL")
FLOATS_WHERE = [
    "{} = 0.0",
    "{} = -0.0",
    "{} < 0",
    "{} <= -0.0",
    "{} >= 0",
    "{} > 0",
    "{} > 1.5",
    "{} >= double('Infinity')",
    "{} > double('Infinity')",
    "{} = double('-Infinity')",
    "{} < double('-Infinity')",
    "{} = double('NaN')",
    "{} <=> double('NaN')",
    "{} <> double('NaN')",
    "{} < double('NaN')",
    "{} <= double('NaN')",
    "NOT ({} > 1.5)",
    "NOT ({} <= 1.5)",
    "{} IN (0.0D, double('NaN'))",
    "{} IN (-0.0D, 7D)",
    "{} NOT IN (0.0D, 1.5D)",
    "isnan({})",
    "NOT isnan({})",
    "{} BETWEEN -0.0 AND 1",
    "-{} = 0.0",
    "{} IS NULL",
]


@pytest.fixture(scope="module")
def floats(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Each pair of odd values in a file of its own, as Spark writes them and as pyarrow does."""
    root = tmp_path_factory.mktemp("floats")
    pairs = [(x, y) for i, x in enumerate(FLOATS) for y in FLOATS[i:]]
    rows = ", ".join(
        f"({i}, float({x}), double({x})), ({i}, float({y}), double({y}))" for i, (x, y) in enumerate(pairs)
    )
    spark.sql(f"SELECT * FROM VALUES {rows} AS t(file, f, d)").coalesce(1).write.partitionBy("file").parquet(
        str(root / "spark")
    )
    for i, (x, y) in enumerate(pairs):
        values = [None if v == "NULL" else float(v.strip("'")) for v in (x, y)]
        (root / "arrow" / f"file={i}").mkdir(parents=True)
        table = pa.table({"f": pa.array(values, pa.float32()), "d": pa.array(values, pa.float64())})
        pq.write_table(table, root / "arrow" / f"file={i}" / "a.parquet")
    return [root / "spark", root / "arrow"]


@pytest.mark.parametrize("writer", tiers.nightly(["arrow", "spark"]))
def test_zeros_infinities_and_nan(spark: SparkSession, floats: list[Path], writer: str) -> None:
    """Spark's own filter of row groups loses NaN in files of pyarrow, so that it is off for the truth."""
    path = next(p for p in floats if p.name == writer)
    with settings(spark, parquet__filterPushdown="false"):
        wheres = (where.format("fd"[(i + (writer == "spark")) % 2]) for i, where in enumerate(FLOATS_WHERE))
        known = {"d < -1.5": 20, "d = 0": 10}
        if writer == "spark":
            known |= {"d > 0 AND d < 1": 10, "d > 1.5": 10, "isnan(f)": 20}
        Checked(spark, path).all(dict.fromkeys(wheres, 0) | known)


@pytest.mark.slow
def test_no_nan_is_known_of_spark_s_files(spark: SparkSession, tmp_path: Path) -> None:
    """Wherever among the values a NaN lies, in whichever row group."""
    for place in (None, 0, 500, 999, 150_000):
        nan = f"IF(id = {place}, double('NaN'), id / 2D)" if place is not None else "id / 2D"
        path = tmp_path / str(place)
        frame = spark.range(0, 200_000, 1, 1).selectExpr(f"{nan} AS d", f"cast({nan} AS float) AS f")
        frame.write.option("parquet.block.size", "200000").parquet(str(path))
        table = zskip.table(spark, str(path))
        table.index()
        assert pq.read_metadata(next(path.glob("*.parquet"))).num_row_groups > 1
        for where in ("isnan(d)", "f > 100000", "f <=> double('NaN')"):
            assert len(table.files(where)) == (0 if place is None else 1), (place, where)
