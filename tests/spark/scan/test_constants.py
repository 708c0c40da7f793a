"""In files where the columns of a condition are constant, Spark's own code says whether it holds there."""

import datetime as dt
import decimal
import math
import random
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiers
from pyspark.sql import functions as F

from zskip.predicate import Columns, parse
from zskip.records import ALL_NULL, ColumnStats
from zskip.spark.scan.filters.constants import constant, prune
from zskip.table import table
from zskip.table.index_binding import bind_index
from zskip.table.snapshot import read_snapshot
from zskip.types import DataType

COLUMNS = {
    "i": (pa.int32(), [1, -7, 100_000, None, 40, 0]),
    "l": (pa.int64(), [5, -(2**63), 2**63 - 1, 17, None, 0]),
    "b": (pa.int8(), [1, -128, None, 127, 0, 9]),
    "x": (pa.float64(), [1.5, math.nan, None, -0.0, 0.0, math.inf]),
    "f": (pa.float32(), [0.1, -math.inf, 2.5, None, math.nan, 1e30]),
    "s": (pa.string(), ["abc", "", "Año 2020", None, "z\x00%", "x,y"]),
    "y": (pa.binary(), [b"\xff\x00", b"", None, b"abc", b"1", b"2"]),
    "t": (pa.bool_(), [True, False, None, True, False, True]),
    "d": (pa.date32(), [dt.date(2020, 2, 29), dt.date(1950, 5, 5), None, dt.date(9999, 12, 31), dt.date(1970, 1, 1)]),
    "m": (
        pa.timestamp("us", "UTC"),
        [
            dt.datetime(2020, 2, 29, 23, 59, 59, 999_999, dt.timezone.utc),
            None,
            dt.datetime(1969, 12, 31, 1, tzinfo=dt.timezone.utc),
            dt.datetime(2021, 7, 1, 12, 30, tzinfo=dt.timezone.utc),
        ],
    ),
    "n": (pa.decimal128(7, 2), [decimal.Decimal("1.50"), decimal.Decimal("-99999.99"), None, decimal.Decimal("0.00")]),
    "w": (pa.decimal128(30, 5), [decimal.Decimal("1.50000"), None, decimal.Decimal(10**24).scaleb(0)]),
}
"""Type, and the values of which each file holds one."""
FILES = 24
MIXED = 3
"""Files that hold several values of each column."""
CONDITIONS = [
    "date_format(d, 'yyyy-MM') = '2020-02'",
    "date_format(m, 'yyyyMMddHH') > '20200229'",
    "hour(m) BETWEEN 1 AND 12",
    "weekofyear(d) = 9",
    "dayofweek(d) <> 7",
    "coalesce(i, l, 3) = 3",
    "coalesce(s, 'abc') = 'abc'",
    "ifnull(n, 7) = 7",
    "nvl2(i, l, b) > 0",
    "CAST(i AS string) LIKE '%0'",
    "CAST(l AS string) RLIKE '^-?9'",
    "CAST(n AS string) = '1.50'",
    "CAST(w AS string) LIKE '1.5%'",
    "CAST(x AS string) IN ('NaN', '1.5')",
    "CAST(m AS string) LIKE '%12:30%'",
    "CAST(d AS timestamp) < m",
    "CAST(t AS int) + i > 1",
    "regexp_extract(s, '([0-9]+)', 1) = '2020'",
    "substring_index(s, ',', 1) = 'x'",
    "length(s) % 2 = 1",
    "upper(s) = 'ABC'",
    "reverse(s) = 'cba'",
    "concat_ws('-', s, i) LIKE 'abc-%'",
    "split(s, ',')[0] = 'x'",
    "hex(y) = 'FF00'",
    "octet_length(y) = 0",
    "CASE WHEN t THEN i > 0 WHEN i < 0 THEN true END",
    "if(t, s, 'no') = 'no'",
    "t = (i > 0)",
    "i * 3 - 1 = 2",
    "i % 2 = 1",
    "abs(CAST(b AS int)) = 128",
    "x * 2 > 2",
    "isnan(x) OR isnan(f)",
    "nanvl(x, 1) = 1",
    "round(f, 1) = 0.1",
    "x = f",
    "n + w = 3",
    "hash(i, s) % 2 = 0",
    "greatest(i, b) = 40",
    "array_contains(array(i, 1), 1)",
    "i IN (b, 40)",
    "NOT (coalesce(t, false) AND i = 1)",
    "(date_format(d, 'MM') = '02') IS NULL",
    "(i % 2 = 1) <=> NULL",
    "exists(array(i, b), v -> v = 1)",
]

ANSI = "spark.sql.ansi.enabled"


def rows_of(rng):
    """Rows of each file: one, repeated, or several different ones."""
    files = []
    for i in range(FILES):
        rows = [{name: rng.choice(values) for name, (_, values) in COLUMNS.items()} for _ in range(4)]
        files.append(rows if i < MIXED else rows[:1] * rng.randint(1, 3))
    return files


def write(path, files):
    schema = pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()])
    path.mkdir()
    for i, rows in enumerate(files):
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path / f"part-{i:03d}.parquet")


def conditions(rng):
    """All of the list, and some made of two of it."""
    yield from CONDITIONS
    for _ in range(tiers.count(20, quick=8)):
        one, other = rng.sample(CONDITIONS, 2)
        yield rng.choice(("({}) OR ({})", "NOT (({}) AND ({}))", "(({}) OR ({})) IS NOT TRUE")).format(one, other)


def is_constant(rows, columns):
    """Whether a file is like a partition: floats have two zeros, and of NaN there is more than one."""
    values = [[row[name] for row in rows] for name in columns]
    return all(len(set(map(repr, v))) == 1 and v[0] != 0 and v[0] == v[0] for v in values)


@pytest.mark.scaled
@pytest.mark.parametrize("seed", tiers.nightly(range(2)))
def test_verdicts_are_what_spark_finds_on_the_rows(spark, tmp_path, seed):
    rng = random.Random(seed)
    files = rows_of(rng)
    write(tmp_path / "t", files)
    plain = spark.read.parquet(str(tmp_path / "t"))
    opened = table(spark, str(tmp_path / "t"))
    opened.index()
    frame = opened.df()
    asked = list(conditions(rng))
    place = F.regexp_extract(F.input_file_name(), r"part-(\d+)", 1).cast("int").alias("place")
    answers = plain.select(place, *(F.expr(sql).alias(f"a{j}") for j, sql in enumerate(asked))).collect()
    for j, sql in enumerate(asked):
        opened.last_scan = None
        matching = {row.place for row in answers if row[j + 1] is True}
        rows = len(frame.where(sql).collect())  # A count would not read files of which all rows match.
        assert rows == sum(row[j + 1] is True for row in answers), sql
        if opened.last_scan is None:
            continue  # Spark has seen that no row can match.
        told = {word for word in re.findall(r"(?<!')\b\w\b(?!')", sql) if word in COLUMNS}
        open_ = {
            i for i, rows in enumerate(files) if i < MIXED or not is_constant(rows, [c for c in told if c in "xfwildb"])
        }
        assert len(matching) <= opened.last_scan.files <= len(matching | open_), sql


def test_says_what_constant_files_gave(spark, tmp_path):
    write(tmp_path / "t", rows_of(random.Random(5)))
    opened = table(spark, str(tmp_path / "t"))
    opened.index()
    opened.df().where("date_format(d, 'yyyy-MM') = '2020-02' AND i > -100").collect()
    (leaf,) = [leaf for leaf in opened.last_scan.leaves if leaf.kind == "constant"]
    assert leaf.skipped > 0
    assert "DATE_FORMAT" in leaf.sql.upper()


@pytest.mark.parametrize(
    "sql",
    [
        "rand(1) < 0.5 AND hash(i) = 3",
        "hash(i, rand(2)) % 2 = 5",
        "1 / (i - 1) > 2 OR i > 1000000",
        "odd(i)",
        "i = (SELECT max(i) + 1 FROM other)",
    ],
)
def test_what_only_the_query_decides_keeps_the_answer(spark, tmp_path, sql):
    write(tmp_path / "t", rows_of(random.Random(6)))
    spark.udf.register("odd", F.udf(lambda i: i is not None and i % 2 == 1, "boolean").asNondeterministic())
    spark.range(3).selectExpr("CAST(id AS int) AS i").createOrReplaceTempView("other")
    opened = table(spark, str(tmp_path / "t"))
    opened.index()
    plain = spark.read.parquet(str(tmp_path / "t"))
    if "/" in sql:
        sql = f"NOT ({sql.replace('1 /', 'try_divide(1,').replace(') >', ')) >', 1)})"
    assert sorted(map(repr, opened.df().where(sql).collect())) == sorted(map(repr, plain.where(sql).collect()))


def test_conditions_that_fail_keep_their_files(spark, tmp_path):
    write(tmp_path / "t", rows_of(random.Random(7)))
    opened = table(spark, str(tmp_path / "t"))
    opened.index()
    before = spark.conf.get(ANSI)
    spark.conf.set(ANSI, "true")  # Else a cast that fails is null, as Spark 3.5 has it by default.
    try:
        with pytest.raises(Exception, match=r"CAST_INVALID_INPUT|malformed"):
            opened.df().where("CAST(s AS int) = 3").collect()
    finally:
        spark.conf.set(ANSI, before)
    assert opened.last_scan.files > 0


def stats(name, lower, upper, nulls, *, nan=False, bounded=True):
    """One file of three rows."""
    data_type = DataType(name)
    dtype = object if isinstance(lower, bytes) else np.float64 if isinstance(lower, float) else np.int64
    low, high = np.empty(1, dtype), np.empty(1, dtype)
    low[0], high[0] = lower, upper
    column = ColumnStats(
        type=data_type,
        lower=low,
        upper=high,
        bounded=np.array([bounded]),
        nulls=np.array([nulls]),
        may_nan=np.array([nan]),
    )

    class Stats:
        rows = np.array([3])

        def column(self, path):
            return column

    return constant(Stats(), "c", np.array([True]))


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (("integer", 3, 3, 0), "3"),
        (("integer", 0, 0, 3), None),
        (("integer", 0, 0, ALL_NULL), None),
        (("boolean", 1, 1, 0), "true"),
        (("decimal(7,2)", 150, 150, 0), "150E-2"),
        (("double", -math.inf, -math.inf, 0), "-Infinity"),
        (("string", "é".encode(), "é".encode(), 0), "é"),
        (("binary", b"\xff", b"\xff", 0), "/w=="),
    ],
)
def test_constant_values_as_text(of, text):
    found = stats(*of)
    assert found.files.tolist() == [True]
    assert found.texts[found.codes[0]] == text


@pytest.mark.parametrize(
    "of",
    [
        ("integer", 3, 4, 0),
        ("integer", 3, 3, 1),
        ("integer", 3, 3, -1),
        ("double", 0.0, 0.0, 0),
        ("double", -0.0, 0.0, 0),
        ("string", b"\xff", b"\xff", 0),
        ("string", b"a", b"b", 0),
        ("interval day to second", 1, 1, 0),
    ],
)
def test_what_is_not_constant(of):
    found = stats(*of)
    assert found is None or not found.files.any()


def test_neither_nan_nor_unknown_bounds_are_constant():
    assert stats("double", 1.0, 1.0, 0, nan=True) is None
    assert stats("double", 1.0, 1.0, 0, bounded=False) is None


def test_explain_asks_spark_where_there_is_a_session(spark, tmp_path):
    write(tmp_path / "t", rows_of(random.Random(5)))
    opened = table(spark, str(tmp_path / "t"))
    opened.index()
    where = "date_format(d, 'yyyy-MM') = '2020-02'"
    opened.df().where(where).collect()
    found = opened.explain(where)
    assert found.steps[-1].files == opened.last_scan.files < FILES
    assert [leaf.kind for leaf in found.leaves] == ["constant"]
    assert len(opened.files(where)) == FILES, "text alone says nothing of it"


def test_what_fails_leaves_the_files(spark, tmp_path, monkeypatch):
    write(tmp_path / "t", rows_of(random.Random(5)))
    opened = table(spark, str(tmp_path / "t"))
    opened.index()

    def broken(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr("zskip.spark.scan.filters.constants.singleton", broken)
    where = "date_format(d, 'yyyy-MM') = '2020-02'"
    plain = spark.read.parquet(str(tmp_path / "t")).where(where)
    assert opened.df().where(where).count() == plain.count() > 0
    assert {leaf.kind for leaf in opened.last_scan.leaves} == {"filter"}


def test_full_files_are_known_as_such(spark, tmp_path):
    path = tmp_path / "t"
    path.mkdir()
    for i in range(4):
        pq.write_table(pa.table({"d": [dt.date(2020, 1 + i, 1)] * 5, "v": list(range(5))}), path / f"part-{i}.parquet")
    opened = table(spark, str(path))
    opened.index()
    predicate = parse("date_format(d, 'MM') = '02' AND v < 9", columns_of(opened), lenient=True)
    stats = bind_index(opened._handle, read_snapshot(opened._handle))
    found = prune(stats, predicate, predicate.children, ["d", "v"], lambda rows: answers(rows))
    assert found.full.tolist() == found.kept.tolist() == [False, True, False, False]


def columns_of(opened):
    return Columns(read_snapshot(opened._handle).fields)


def answers(rows):
    """As Spark would: the first condition holds in the second file alone."""
    if rows is None:
        return [[["d", "date"]], [["v", "long"]]]
    assert rows == [[["18262"], ["18293"], ["18322"], ["18353"]], None]
    return ["ftff", None]
