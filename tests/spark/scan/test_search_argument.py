"""Hive's SearchArguments mean to zskip what they say, and what is in doubt is Unknown."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import arrow_tables
import pytest
import random_tables
import tiers
from fuzz import possible
from pyspark.sql import SparkSession
from search_arguments import Building
from session_settings import settings

from zskip.errors import InputError
from zskip.predicate import (
    And,
    Column,
    Columns,
    Compare,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    Unknown,
    nodes,
    to_sql,
)
from zskip.prune import outcomes
from zskip.records import Field
from zskip.spark.jvm.compat import version
from zskip.spark.jvm.gateway import Jvm
from zskip.spark.scan.search_argument import from_search_argument
from zskip.types import DataType, read_type

pytestmark = pytest.mark.spark

MAYBE = ["YES_NO", "YES_NULL", "NO_NULL", "YES_NO_NULL"]
NAN, INF = float("nan"), float("inf")
TYPES = {
    "by": "byte",
    "i": "integer",
    "l": "long",
    "f": "float",
    "d": "double",
    "s": "string",
    "c": "char(3)",
    "b": "boolean",
    "day": "date",
    "at": "timestamp",
    "ntz": "timestamp_ntz",
    "n": "decimal(9,2)",
    "data": "binary",
    "many": "nested",
    "x.y": "integer",
    "`": "integer",
    "z": "integer",
    "z.w": "long",
}
STRUCTS = {
    "st": {"type": "struct", "fields": [{"name": "In.ner", "type": "long"}, {"name": "v", "type": "integer"}]},
    "x": {"type": "struct", "fields": [{"name": "q", "type": "long"}]},
    "dup": {"type": "struct", "fields": [{"name": "e", "type": "long"}]},
    "dup.e": "long",
}
COLUMNS = Columns(
    [Field(name=name, type=DataType(data_type)) for name, data_type in TYPES.items()]
    + [Field(name=name, type=read_type(described)) for name, described in STRUCTS.items()]
)


@pytest.fixture
def building(spark: SparkSession) -> Building:
    return Building(Jvm.of(spark))


def read(building: Building, columns: Columns = COLUMNS) -> Predicate:
    return from_search_argument(SparkSession.active(), building.build(), columns)


def java(building: Building, kind: str, literal: Any) -> Any:
    """A literal of Python as the object of Java that a leaf of a type takes."""
    jvm = building.jvm
    if isinstance(literal, str) and kind == "DECIMAL":
        return jvm.find("org.apache.hadoop.hive.serde2.io.HiveDecimalWritable")(literal)
    if isinstance(literal, str) and kind == "TIMESTAMP":
        return jvm.call("java.sql.Timestamp", "valueOf")(literal)
    return (
        jvm.find("java.sql.Date")(literal)
        if kind == "DATE" and isinstance(literal, int)
        else (jvm.call("java.sql.Date", "valueOf")(str(literal)) if isinstance(literal, dt.date) else literal)
    )


MEANINGS = [
    ("lessThan", "i", "LONG", [5], "i < 5"),
    ("lessThanEquals", "by", "LONG", [5000], "by >= -9223372036854775808"),
    ("equals", "by", "LONG", [5000], "by != by"),
    ("equals", "l", "LONG", [-(2**63)], "l = -9223372036854775808L"),
    ("between", "l", "LONG", [1, 2], "l >= 1L AND l <= 2L"),
    ("nullSafeEquals", "l", "LONG", [1], "l IS NOT NULL AND l = 1L"),
    ("in", "i", "LONG", [3, 1, 3, 2**40], "i IN (1, 3)"),
    ("in", "i", "LONG", [3, None], "i IN (3) OR NULL"),
    ("isNull", "i", "LONG", [], "i IS NULL"),
    ("isNull", "data", "STRING", [], "data IS NULL"),
    ("lessThan", "i", "FLOAT", [2.5], "i <= 2"),
    ("lessThan", "i", "FLOAT", [INF], "i >= -9223372036854775808"),
    ("lessThan", "i", "DECIMAL", ["2.5"], "i <= 2"),
    ("lessThan", "n", "DECIMAL", ["2.505"], "n <= 2.50BD"),
    ("equals", "n", "DECIMAL", ["2.50"], "n = 2.50BD"),
    ("equals", "n", "LONG", [2], "n = 2.00BD"),
    ("equals", "d", "FLOAT", [0.1], "d = 0.1D"),
    ("lessThan", "d", "FLOAT", [-INF], "d < CAST('-Infinity' AS DOUBLE)"),
    ("equals", "d", "LONG", [2**53], "d = 9007199254740992.0D"),
    ("equals", "f", "FLOAT", [0.5], "f = 0.5D"),
    ("equals", "s", "STRING", ["é😀'\n"], "s = 'é😀\\'\n'"),
    ("equals", "b", "BOOLEAN", [True], "b = true"),
    ("lessThan", "b", "BOOLEAN", [True], "b < true"),
    ("equals", "day", "DATE", [dt.date(2024, 2, 29)], "day = DATE '2024-02-29'"),
    ("equals", "day", "DATE", [dt.date(9999, 12, 31)], "day = DATE '9999-12-31'"),
    ("lessThan", "at", "TIMESTAMP", ["2024-02-29 01:02:03.000004"], "at < TIMESTAMP '2024-02-29 01:02:03.000004'"),
    ("equals", "day", "DATE", [dt.date(1900, 1, 1)], "day = DATE '1900-01-01'"),
    ("equals", "at", "TIMESTAMP", ["1900-01-01 00:00:00.000001"], "at = TIMESTAMP '1900-01-01 00:00:00.000001'"),
    ("equals", "I", "LONG", [5], "i = 5"),
    ("equals", "x.y", "LONG", [5], "`x.y` = 5"),
    ("equals", "`x.y`", "LONG", [5], "`x.y` = 5"),
    ("equals", "`", "LONG", [5], "```` = 5"),
    ("equals", "````", "LONG", [5], "```` = 5"),
    ("equals", "z.w", "LONG", [5], "`z.w` = 5L"),
    ("equals", "st.v", "LONG", [5], "st.v = 5"),
    ("equals", "ST.`in.ner`", "LONG", [5], "st.`In.ner` = 5L"),
]


@pytest.mark.parametrize(("method", "name", "kind", "literals", "sql"), MEANINGS, ids=str)
def test_meanings(building: Building, method: str, name: str, kind: str, literals: list[Any], sql: str) -> None:
    found = read(building.leaf(method, name, kind, *[java(building, kind, value) for value in literals]))
    assert to_sql(found) == sql


DOUBTS = [
    ("equals", "nothing", "LONG", [5]),
    ("isNull", "nothing", "LONG", []),
    ("equals", "t.i", "LONG", [5]),
    ("equals", "i.i", "LONG", [5]),
    ("equals", "st..v", "LONG", [5]),
    ("equals", "st.nothing", "LONG", [5]),
    ("equals", "many.v", "LONG", [5]),
    ("equals", "dup.e", "LONG", [5]),
    ("equals", "", "LONG", [5]),
    ("equals", "b", "LONG", [1]),
    ("equals", "day", "LONG", [1]),
    ("equals", "at", "LONG", [1]),
    ("equals", "s", "LONG", [1]),
    ("equals", "st", "LONG", [1]),
    ("equals", "data", "STRING", ["a"]),
    ("equals", "c", "STRING", ["a"]),
    ("equals", "i", "STRING", ["1"]),
    ("equals", "day", "STRING", ["2024-01-01"]),
    ("equals", "at", "STRING", ["2024-01-01"]),
    ("equals", "s", "STRING", ["\ud800"]),
    ("in", "s", "STRING", ["a", "\ud800"]),
    ("equals", "d", "FLOAT", [NAN]),
    ("in", "d", "FLOAT", [1.0, NAN]),
    ("lessThan", "i", "FLOAT", [NAN]),
    ("lessThan", "l", "FLOAT", [1e300]),
    ("equals", "f", "FLOAT", [0.1]),
    ("equals", "f", "LONG", [2**24 + 1]),
    ("equals", "d", "LONG", [2**53 + 1]),
    ("equals", "n", "FLOAT", [0.5]),
    ("equals", "d", "DECIMAL", ["0.5"]),
    ("equals", "i", "BOOLEAN", [True]),
    ("equals", "i", "DATE", [dt.date(2024, 1, 1)]),
    ("equals", "at", "DATE", [dt.date(2024, 1, 1)]),
    ("equals", "day", "TIMESTAMP", ["2024-01-01 00:00:00"]),
    ("equals", "ntz", "TIMESTAMP", ["2024-01-01 00:00:00"]),
    ("equals", "at", "TIMESTAMP", ["2024-01-01 00:00:00.0000001"]),
    ("equals", "at", "TIMESTAMP", ["1899-12-31 23:59:59"]),
    ("equals", "day", "DATE", [dt.date(1899, 12, 31)]),
    ("equals", "day", "DATE", [400_000_000_000_000]),
    ("between", "day", "DATE", [dt.date(2024, 1, 1), 400_000_000_000_000]),
]


@pytest.mark.parametrize(("method", "name", "kind", "literals"), DOUBTS, ids=ascii)
def test_what_is_in_doubt_is_unknown(
    building: Building, method: str, name: str, kind: str, literals: list[Any]
) -> None:
    values = [java(building, kind, value) for value in literals]
    building.builder.startAnd()
    building.leaf(method, name, kind, *values).leaf("equals", "i", "LONG", 7)
    building.builder.end()
    found = read(building)
    assert isinstance(found, And)
    assert isinstance(found.children[0], Unknown)
    assert found.children[0].reason != "not supported"
    assert found.children[1] == Compare("=", Column(("i",), DataType("integer")), 7)


def test_constants(building: Building) -> None:
    truths: dict[str, bool | None] = {"YES": True, "NO": False, "NULL": None}
    for name, value in truths.items():
        assert read(Building(building.jvm).constant(name)) == Constant(value)
    for name in MAYBE:
        assert read(Building(building.jvm).constant(name)) == Unknown(name)


@pytest.mark.nightly  # Each part is a call to the JVM.
def test_many_parts_and_deep_ones(building: Building) -> None:
    building.builder.startOr()
    for i in range(3_000):
        building.leaf("equals", "i", "LONG", i)
    building.builder.end()
    found = read(building)
    assert isinstance(found, Or)
    assert len(found.children) == 3_000
    for depth in (300, 5_000):
        deep = Building(building.jvm)
        for i in range(depth):
            (deep.builder.startAnd if i % 2 else deep.builder.startOr)()
            deep.leaf("equals", "i", "LONG", i)
        for _ in range(depth):
            deep.builder.end()
        try:
            deep.build()
        except Exception:
            continue  # Hive itself overflows the stack.
        assert any(isinstance(node, Unknown) for node in nodes(read(deep)))


def test_more_combinations_than_hive_writes_out(building: Building) -> None:
    """Hive gives up its normal form, whose leaves alone it numbers; what was asked is still there."""
    building.builder.startOr()
    for i in range(10):
        building.builder.startAnd()
        building.leaf("equals", "i", "LONG", i).leaf("equals", "l", "LONG", i)
        building.builder.end()
    building.builder.end()
    found = read(building)
    assert isinstance(found, Or)
    assert len(found.children) == 10
    assert not any(isinstance(node, Unknown) for node in nodes(found))


def test_anything_else(spark: SparkSession) -> None:
    with pytest.raises(InputError, match="'i < 1' is not a SearchArgument"):
        from_search_argument(spark, "i < 1", COLUMNS)
    assert isinstance(from_search_argument(spark, Jvm.of(spark).list_of(1), COLUMNS), Unknown)


def leaf(rng: random.Random, table: random_tables.Table) -> Predicate:
    """One that a SearchArgument can say of a column."""
    column = rng.choice(table.columns)
    kind = rng.random()
    if kind < 0.1 or column.type.name in ("binary", "timestamp_ntz"):
        return IsNull(column)
    if kind < 0.15:
        return Unknown(rng.choice(MAYBE)) if rng.random() < 0.3 else Constant(rng.choice([True, False, None]))
    values = sorted({random_tables.literal(rng, table, column) for _ in range(rng.choice([1, 2, 8]))})
    if kind < 0.3:
        return In(column, tuple(values))
    if kind < 0.4:
        return And((Compare(">=", column, values[0]), Compare("<=", column, values[-1])))
    if kind < 0.5:
        return And((Not(IsNull(column)), Compare("=", column, values[0])))
    return Compare(rng.choice(random_tables.OPERATORS), column, values[0])


def tree(rng: random.Random, table: random_tables.Table, depth: int = 3) -> Predicate:
    kind = rng.random()
    if not depth or kind < 0.4:
        return leaf(rng, table)
    if kind < 0.55:
        return Not(tree(rng, table, depth - 1))
    children = tuple(tree(rng, table, depth - 1) for _ in range(rng.randint(2, 3)))
    return And(children) if kind < 0.8 else Or(children)


def has_unknown(predicate: Predicate) -> bool:
    return any(isinstance(node, Unknown) for node in nodes(predicate))


@pytest.fixture(params=["UTC", "America/Los_Angeles"])
def jvm_in_a_zone(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[Jvm]:
    """Days and times of Java are in the time zone of the JVM, which need not be the session's."""
    jvm = Jvm.of(spark)
    get, put = (jvm.call("java.util.TimeZone", name) for name in ("getTimeZone", "setDefault"))
    before = jvm.call("java.util.TimeZone", "getDefault")()
    put(get(request.param))
    yield jvm
    put(before)


SCHEMA = "i INT, l LONG, f FLOAT, d DOUBLE, s STRING, b BOOLEAN, day DATE, at TIMESTAMP, n DECIMAL(9, 2), `x.y` INT"
ASKED = [
    ("i = 5", "i IS NOT NULL AND i = 5"),
    ("l > 5", "l IS NOT NULL AND NOT (l <= 5L)"),
    ("l < -9223372036854775807", "l IS NOT NULL AND l < -9223372036854775807L"),
    ("f >= float(0.1)", "f IS NOT NULL AND NOT (f < 0.10000000149011612D)"),
    ("d <=> 0.1D", "d IS NOT NULL AND d = 0.1D"),
    ("s = 'é\t😀'", "s IS NOT NULL AND s = 'é\t😀'"),
    ("b = false", "b IS NOT NULL AND NOT (b = true)"),
    ("n < 12.5", "n IS NOT NULL AND n < 12.50BD"),
    ("day <= DATE '1900-01-01'", "day IS NOT NULL AND day <= DATE '1900-01-01'"),
    ("day <= DATE '2024-02-29'", "day IS NOT NULL AND day <= DATE '2024-02-29'"),
    ("at < TIMESTAMP '1900-01-01 00:00:00Z'", "at IS NOT NULL AND at < TIMESTAMP '1900-01-01 00:00:00'"),
    ("at < TIMESTAMP '1905-02-03 04:05:06.789Z'", "at IS NOT NULL AND at < TIMESTAMP '1905-02-03 04:05:06.789000'"),
    ("at < TIMESTAMP '2024-02-29 01:02:03.000004Z'", "at IS NOT NULL AND at < TIMESTAMP '2024-02-29 01:02:03.000004'"),
    ("day IN (DATE '2024-02-29', DATE '1969-12-31')", "day IN (DATE '1969-12-31', DATE '2024-02-29')"),
    ("s IS NULL", "s IS NULL"),
    ("`x.y` = 5", "`x.y` IS NOT NULL AND `x.y` = 5"),
    ("i < 1 OR NOT (s < 'a' OR l = 3)", "i < 1 OR (NOT (s < 'a') AND NOT (l = 3L))"),
]


@pytest.mark.parametrize("java8", ["false", "true"])
def test_what_spark_asks_of_orc(spark: SparkSession, jvm_in_a_zone: Jvm, tmp_path: Path, java8: str) -> None:
    """The arguments that Spark itself makes of its filters, with both kinds of days and times that it may use."""
    columns = Columns([Field(name=f["name"], type=read_type(f["type"])) for f in orc_schema(spark)])
    jvm, sources = jvm_in_a_zone, "org.apache.spark.sql.execution.datasources"
    make = jvm.call(f"{sources}.orc.OrcFilters", "createFilter")
    file_schema = [jvm.none] if version(spark) >= (4, 3) else []
    with settings(spark, datetime__java8API__enabled=java8):
        for where, sql in ASKED:
            frame = spark.read.schema(SCHEMA).orc(str(tmp_path)).where(where)
            condition = frame._jdf.queryExecution().optimizedPlan().condition()
            asked = jvm.module(f"{sources}.DataSourceStrategy").translateFilter(condition, True).get()
            argument = make(frame._jdf.schema(), jvm.seq_of(asked), *file_schema)
            found = from_search_argument(spark, argument.get(), columns)
            assert to_sql(found) == sql, where


def orc_schema(spark: SparkSession) -> list[dict[str, Any]]:
    fields: list[dict[str, Any]] = spark.createDataFrame([], SCHEMA).schema.jsonValue()["fields"]
    return fields


@pytest.mark.parametrize("part", tiers.first(range(2)))
def test_the_truth_of_each_row_is_kept(spark: SparkSession, jvm_in_a_zone: Jvm, part: int) -> None:
    """A predicate made a SearchArgument and read again has the same truth values, and loses no row."""
    exact = 0
    for seed in range(part * 60, part * 60 + 60):
        rng = random.Random(seed)
        table = random_tables.table(rng)
        columns = arrow_tables.known(table.columns)
        for _ in range(4):
            wanted = tree(rng, table)
            found = from_search_argument(spark, Building(jvm_in_a_zone).predicate(wanted).build(), columns)
            exact += not has_unknown(found) and not isinstance(found, Constant)
            mask = outcomes(found, table).may_true
            for i, file in enumerate(table.files):
                for row in file:
                    truths, read_back = possible(wanted, row), possible(found, row)
                    lost = (seed, to_sql(wanted), to_sql(found), row)
                    if has_unknown(wanted):
                        # Hive drops doubtful parts, so that it keeps more rows.
                        assert (True in read_back) >= (True in truths), lost
                    else:
                        assert truths <= read_back, lost
                        assert has_unknown(found) or truths == read_back, lost
                    assert mask[i] or True not in truths, lost
    assert exact > 150
