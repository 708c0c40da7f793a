"""Partition filters that Delta derives from generated columns, against the ranges of the base column itself.

Delta turns a predicate on a base column into filters on the partition columns that are generated from it. zskip knows
no generated columns, and does not need them: the files of a partition hold a range of the base column, which the index
knows. A question here is a table of one file for each partition, of values around those of the predicate. Delta keeps
the files whose partition passes its filters, evaluated by DuckDB.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
from question import File, Known, Question, fields
from vectors_delta import leaves

from zskip.predicate import Columns
from zskip.types import DataType, encode

PATH = Path(__file__).parents[1] / "data" / "conformance" / "delta_generated_columns.json"
ZONE = "America/Los_Angeles"
"""In which Delta's tests run, as the filters on `unix_timestamp` show."""
_TEXTS = ["", "a", "f", "fo", "foa", "foo", "foo\x00", "fooz", "fop", "g", "oo", "xoo", "zoo", "zooz", "é", "foé"]
_UNIX = re.compile(r"unix_timestamp\((\w+), '([^']*)'\)")
_LONG = re.compile(r"(?<=\d)L\b")
_TIMES = [
    dt.datetime(year, month, day, hour, minute)
    for year in (1999, 2020, 2021, 2022)
    for month in (1, 4, 6, 12)
    for day in (1, 28, 31)
    if not (day == 31 and month in (4, 6))
    for hour, minute in ((0, 0), (0, 1), (17, 59), (18, 0), (18, 1), (23, 59))
]


def questions() -> Iterator[Question]:
    """One for each predicate of each case."""
    for number, case in enumerate(json.loads(PATH.read_text(encoding="utf-8"))["cases"], 1):
        types = leaves(case["dataSchema"])
        base = next(iter(types))
        groups = _partitions(case, types[base])
        files = [_file(values, base, types) for values in groups.values()]
        for asked in case["filters"]:
            yield Question(
                suite="Delta, generated columns",
                name=f"gen-{number:02d} {case['expectedPartitionExpr']}: {asked['dataFilter']}",
                sql=asked["dataFilter"].replace("outer.", "`outer`."),
                columns=Columns(fields(types)),
                types={base: types[base]},
                files=files,
                peer=_passing(case, tuple(groups), asked["expectedPartitionFilters"]),
                timezone=ZONE,
            )


def _partitions(case: dict[str, Any], base: DataType) -> dict[tuple[Any, ...], list[Any]]:
    """The values of each partition, by the values of its generated columns."""
    found = defaultdict(list)
    for value in [*_values(case, base), None]:
        key = tuple(None if value is None else _generated(sql, value) for sql in case["generatedColumns"].values())
        found[key].append(value)
    return dict(found)


def _values(case: dict[str, Any], base: DataType) -> list[Any]:
    if "eventDateStr" in case["dataSchema"]:
        return sorted({str(time.date()) for time in _TIMES})
    if base.name == "string":
        return _TEXTS
    return _TIMES if base.name == "timestamp" else sorted({time.date() for time in _TIMES})


def _generated(sql: str, value: Any) -> Any:
    """What the expression of a generated column is of one value."""
    sql = sql.strip("()") if sql.startswith("(") else sql
    name = sql.partition("(")[0].upper()
    day = dt.date.fromisoformat(value) if isinstance(value, str) and name == "TRUNC" else value
    arguments = re.findall(r"'([^']*)'", sql)
    if name == "CAST":
        return value.date() if isinstance(value, dt.datetime) else value
    if name in ("YEAR", "MONTH", "DAY", "HOUR"):
        return getattr(value, name.lower())
    if name == "SUBSTRING":
        start, length = map(int, re.findall(r", (\d+)", sql))
        return value[max(start - 1, 0) :][:length]
    if name == "DATE_TRUNC":
        floor = dt.datetime(value.year, value.month, value.day)
        return floor.replace(month=1, day=1) if arguments[0] == "YEAR" else floor
    if name == "DATE_FORMAT":
        java = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H"}
        return value.strftime("-".join(java[part] for part in arguments[0].split("-")))
    if name == "TRUNC":
        month = {"year": 1, "quarter": (day.month - 1) // 3 * 3 + 1, "month": day.month}[arguments[0]]
        return dt.date(day.year, month, 1)
    assert name.strip("`") in ("VALUE", "NESTED.VALUE"), sql
    return value


def _file(values: list[Any], base: tuple[str, ...], types: Mapping[tuple[str, ...], DataType]) -> File:
    encoded = [None if value is None else _encoded(value, types[base]) for value in values]
    present = [value for value in encoded if value is not None]
    known = Known(min(present, default=None), max(present, default=None), len(values) - len(present))
    return File(len(values), {base: known}, [{base: value} for value in encoded])


def _encoded(value: Any, data_type: DataType) -> Any:
    return encode(value.replace(tzinfo=ZoneInfo(ZONE)) if isinstance(value, dt.datetime) else value, data_type)


def _passing(case: dict[str, Any], keys: tuple[tuple[Any, ...], ...], filters: list[str]) -> list[bool]:
    return [i in _kept(case["partitionSchema"], keys, tuple(filters)) for i in range(len(keys))]


@cache
def _kept(schema: str, keys: tuple[tuple[Any, ...], ...], filters: tuple[str, ...]) -> frozenset[int]:
    """The partitions for which all filters are true."""
    columns = schema.replace("`", '"')
    duckdb.execute(f"CREATE OR REPLACE TEMP TABLE partitions (i INT, {columns}, unix BIGINT)")
    rows = [[i, *key, _unix_timestamp(key[0], filters)] for i, key in enumerate(keys)]
    marks = ", ".join([f"({', '.join('?' * len(rows[0]))})"] * len(rows))
    duckdb.execute(f"INSERT INTO partitions VALUES {marks}", [value for row in rows for value in row])
    where = " AND ".join(f"({_LONG.sub('', _UNIX.sub('unix', text))})" for text in filters).replace("`", '"')
    found = duckdb.execute(f"SELECT i FROM partitions WHERE {where or 'TRUE'}").fetchall()
    return frozenset(i for (i,) in found)


def _unix_timestamp(text: Any, filters: tuple[str, ...]) -> int | None:
    match = _UNIX.search(" ".join(filters))
    if match is None or text is None:
        return None
    given = [int(part) for part in text.split("-")]
    year, month, day, hour = given + [1, 0][len(given) - 2 :]
    return int(dt.datetime(year, month, day, hour, tzinfo=ZoneInfo(ZONE)).timestamp())
