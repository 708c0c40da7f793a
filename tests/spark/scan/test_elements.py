"""Sketches of the elements of arrays and maps: filters on elements skip files, and answers stay."""

from __future__ import annotations

import datetime as dt
import decimal
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiers
from both_ways import QUICK, answers, rows
from pyspark.sql import DataFrame, SparkSession
from session_settings import settings

import zskip

pytestmark = pytest.mark.spark
FILES = 16
ROWS = """
    SELECT id, file,
           CASE WHEN file % 4 = 3 THEN IF(id % 2 = 0, array(), NULL)
                ELSE array(concat('tag', file), IF(id % 3 = 0, NULL, concat('t', id % 40)), 'all of them') END AS tags,
           IF(id % 5 = 0, NULL, array(CAST(file * 10 + id % 7 AS SMALLINT), NULL)) AS n,
           map(concat('k', file % 5), id % 90, 'z', file) AS m,
           named_struct('d', array(DATE '2024-01-01' + CAST(file AS INT)), 'f', array(file / 2, DOUBLE('NaN'))) AS st
    FROM (SELECT id, CAST(id DIV 25 AS INT) AS file FROM range(0, 400, 1, 16))
"""
SKETCHES = [
    "values(64):explode(tags)",
    "ngram(3):explode(tags)",
    "ranges(8):explode(n)",
    "bloom(0.001):explode(map_keys(m))",
    "values(100):explode(map_values(m))",
    "values(10):explode(st.d)",
    "values(10):explode(st.f)",
]
WHERE = {
    "array_contains(tags, 'tag5')": 1,
    "array_contains(tags, 'tag3')": 0,
    "exists(tags, x -> x = 'tag5')": 1,
    "exists(tags, x -> x IN ('tag5', 'tag6', 'none'))": 2,
    "exists(tags, x -> x LIKE '%ag9')": 1,
    "exists(tags, x -> x > 'tag8')": 1,
    "exists(tags, x -> x >= 'tag4' AND x < 'tag5')": 1,
    "exists(tags, x -> x = 'tag5' OR x = 'tag8')": 2,
    "exists(tags, x -> NOT (x != 'tag5' OR length(x) = 5))": 1,
    "arrays_overlap(tags, array('tag1', 'tag2', NULL))": 2,
    "arrays_overlap(array('tag1', 'none'), tags)": 1,
    "array_contains(tags, 'tag5') AND array_contains(tags, 'tag6')": 0,
    "array_contains(tags, 'tag5') OR array_contains(tags, 'tag6')": 2,
    "array_contains(tags, 'all of them') AND NOT array_contains(tags, 'tag5')": 12,
    "exists(tags, x -> x IS NULL)": 12,
    "array_contains(n, 42)": 1,
    "exists(n, x -> x > 149)": 1,
    "map_contains_key(m, 'k2')": 3,
    "array_contains(map_keys(m), 'none')": 0,
    "array_contains(map_values(m), 89)": 5,
    "m['k2'] = 3": 3,
    "m['none'] IS NOT NULL": 0,
    "array_contains(st.d, DATE '2024-01-04')": 1,
    "exists(st.f, x -> x = 3.5D)": 1,
    "exists(st.f, x -> isnan(x)) AND array_contains(st.f, 1D)": 1,
}
"""Filters, and the most files that they read."""
UNREAD = (
    "NOT array_contains(tags, 'tag5')",
    "array_contains(tags, 'tag5') IS NULL",
    "NOT exists(tags, x -> x = 'none')",
    "exists(tags, x -> lower(x) = 'tag5')",
    "exists(tags, id -> id = CAST(file AS STRING))",
    "exists(tags, x -> exists(n, y -> y > length(x)))",
    "arrays_overlap(tags, array(concat('tag', file)))",
    "array_contains(tags, concat('tag', file))",
    "exists(tags, x -> array_contains(array('tag5'), x))",
    "m['none'] IS NULL",
    "exists(map_entries(m), e -> e.key = 'k2')",
)
"""Filters whose files no sketch may rule out."""


@pytest.fixture(scope="module")
def path(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("elements") / "t"
    rows = spark.sql(ROWS)
    rows.repartitionByRange(FILES, "file").sortWithinPartitions("id").write.parquet(str(path))
    zskip.table(spark, str(path)).index(sketches=SKETCHES)
    return path


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


def test_filters_on_elements_skip_files(spark: SparkSession, path: Path) -> None:
    wheres, table, plain = [*WHERE, *UNREAD], zskip.table(spark, str(path)), spark.read.parquet(str(path))
    pruned, opened = table.df(), zskip.open(str(path))
    with settings(spark, **QUICK):
        for i, (where, expected) in enumerate(zip(wheres, answers(plain, wheres), strict=True)):
            assert rows(pruned.where(where)) == expected, where
            assert table.last_scan is not None
            files = table.last_scan.files
            assert files == FILES if where in UNREAD else files <= WHERE[where], where
            assert len(opened.files(where)) == files, where
            if i % 3 == 0:
                with zskip.enabled(spark):
                    assert rows(plain.where(where)) == expected, where


@pytest.mark.scaled
def test_any_combination_loses_no_row(spark: SparkSession, path: Path) -> None:
    rng = random.Random(7)

    def condition(depth: int) -> str:
        if not depth or rng.random() < 0.3:
            return rng.choice([*WHERE, *UNREAD])
        if rng.random() < 0.25:
            return f"NOT ({condition(depth - 1)})"
        return f"({condition(depth - 1)}) {rng.choice(['AND', 'OR'])} ({condition(depth - 1)})"

    table, plain = zskip.table(spark, str(path)).df(), spark.read.parquet(str(path))
    wheres = [condition(3) for _ in range(tiers.count(60, 8))]
    with settings(spark, **QUICK):
        for where, expected in zip(wheres, answers(plain, wheres), strict=True):
            assert rows(table.where(where)) == expected, where


FOREIGN = {
    "item": (pa.list_(pa.string()), {"use_compliant_nested_type": False}),
    "large": (pa.large_list(pa.large_string()), {}),
    "dictionary": (pa.list_(pa.dictionary(pa.int32(), pa.string())), {}),
    "fixed": (pa.list_(pa.string(), 2), {}),
    "uint8": (pa.list_(pa.uint8()), {}),
    "int16": (pa.list_(pa.int16()), {"use_compliant_nested_type": False}),
    "uint32": (pa.list_(pa.uint32()), {}),
    "uint64": (pa.list_(pa.uint64()), {}),
    "decimal": (pa.list_(pa.decimal128(7, 2)), {"store_decimal_as_integer": True}),
    "date64": (pa.list_(pa.date64()), {}),
    "millis": (pa.list_(pa.timestamp("ms", "UTC")), {}),
    "float": (pa.list_(pa.float32()), {}),
    "binary": (pa.list_(pa.binary(2)), {}),
}
"""Arrays as PyArrow writes them, and how."""


def foreign_value(data_type: pa.DataType, i: int) -> Any:
    """A value of a type, greater for a greater number up to 250, of which the greatest need the whole of a byte."""
    if pa.types.is_date(data_type) or pa.types.is_timestamp(data_type):
        day = dt.datetime(2024, 1, 1) + dt.timedelta(days=i)
        return day.date() if pa.types.is_date(data_type) else day
    if pa.types.is_fixed_size_binary(data_type):
        return bytes([0, i])
    if pa.types.is_decimal(data_type):
        return decimal.Decimal(i) / 4
    return i if pa.types.is_integer(data_type) else i / 8 if pa.types.is_floating(data_type) else f"{i:03d}"


@pytest.mark.slow
@pytest.mark.parametrize("name", tiers.nightly(FOREIGN, daily=4))
def test_arrays_that_spark_did_not_write(spark: SparkSession, tmp_path: Path, name: str) -> None:
    data_type, options = FOREIGN[name]
    for file in range(5):
        arrays = [[foreign_value(data_type.value_type, 50 * file + i), None] for i in range(20)] + [None]
        table = pa.table({"id": range(21), "a": pa.array(arrays, data_type)})
        pq.write_table(table, tmp_path / f"{file}.parquet", **options)
    kind = spark.read.parquet(str(tmp_path)).schema["a"].dataType.elementType.simpleString()  # type: ignore[attr-defined]
    table = zskip.table(spark, str(tmp_path))
    table.index(sketches=["values(64):explode(a)", "bloom(0.001):explode(a)"])
    literal = f"(SELECT first(a[0]) FROM parquet.`{tmp_path}/4.parquet` WHERE id = 3)"
    value = spark.sql(f"SELECT CAST({literal} AS {'string' if kind != 'binary' else kind}) AS v").first().v  # type: ignore[union-attr]
    text = f"X'{value.hex()}'" if kind == "binary" else f"CAST('{value}' AS {kind})"
    for where in (
        f"array_contains(a, {text})",
        f"exists(a, x -> x >= {text})",
        f"arrays_overlap(a, array({text}, NULL))",
        f"NOT array_contains(a, {text})",
    ):
        expected = rows(spark.read.parquet(str(tmp_path)).where(where))
        assert (rows(table.df().where(where)), bool(expected)) == (expected, where[0] != "N")
        assert table.last_scan is not None
        assert table.last_scan.files <= (1 if where[0] != "N" else 5), where
        with zskip.enabled(spark):
            assert rows(spark.read.parquet(str(tmp_path)).where(where)) == expected
        assert set(zskip.open(str(tmp_path)).files(where)) >= set(table.files(where))


TWO_LEVELS = """
    message m {
      required int32 id;
      optional group tags (LIST) { repeated binary array (UTF8); }
      repeated int32 n;
      optional group bag (LIST) { repeated group bag { optional int32 array_element (INTEGER(8, true)); } }
    }
"""
"""Lists as old writers and Protobuf wrote them."""


def test_lists_of_two_levels(spark: SparkSession, tmp_path: Path) -> None:
    jvm: Any = spark._jvm
    schema = jvm.org.apache.parquet.schema.MessageTypeParser.parseMessageType(TWO_LEVELS)
    rows_of_file = jvm.org.apache.parquet.example.data.simple.SimpleGroupFactory(schema)
    for file in range(4):
        path = jvm.org.apache.hadoop.fs.Path(str(tmp_path / f"{file}.parquet"))
        writer = jvm.org.apache.parquet.hadoop.example.ExampleParquetWriter.builder(path).withType(schema).build()
        for i in range(10):
            row = rows_of_file.newGroup().append("id", 10 * file + i)
            if i % 3:
                row.addGroup("tags").append("array", f"t{10 * file + i}")
                row.append("n", 10 * file + i)
                row.addGroup("bag").addGroup("bag").append("array_element", 10 * file + i)
            writer.write(row)
        writer.close()
    table = zskip.table(spark, str(tmp_path))
    table.index(sketches=[f"values(64):explode({name})" for name in ("tags", "n", "bag")])
    for where in ("array_contains(tags, 't21')", "array_contains(n, 21)", "exists(bag, x -> x > 33 AND x < 36)"):
        expected = ids(spark.read.parquet(str(tmp_path)).where(where))
        assert expected
        assert ids(table.df().where(where)) == expected
        assert table.last_scan is not None
        assert table.last_scan.files == 1, where
