"""Filters of scans in Spark's event logs, read as predicates.

The plan of each `SparkListenerSQLExecutionStart` gives the location and the filters of a scan of files, the filters in
the words of `Expression.toString`: names with ids (`a#12L`), literals without quotes (`(d#3 >= 2024-01-01)`). The
column gives the type of a literal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from zskip.errors import PredicateError
from zskip.predicate import Columns
from zskip.storage import normalize_location
from zskip.types import DataType

START = "SparkListenerSQLExecutionStart"
_LOCATION = re.compile(r"\w+(?:\(\d+ paths?\))?\[(.*)\]", re.DOTALL)
_NAME = r"(?P<name>(?:[^\s(),#=<>]|(?<=\S) (?=\S))+)#\d+L?"
_COMPARE = re.compile(rf"\({_NAME} (?P<op><=>|<=|>=|=|<|>) (?P<value>.*)\)", re.DOTALL)
_IN = re.compile(rf"{_NAME} (?:IN \((?P<values>.*)\)|INSET (?P<set>.*))", re.DOTALL)
_CALL = re.compile(
    rf"(?P<call>isnull|isnotnull|StartsWith|EndsWith|Contains)\({_NAME}(?:, (?P<value>.*))?\)", re.DOTALL
)
_LIKE = re.compile(rf"{_NAME} LIKE (?P<value>.*)", re.DOTALL)
_BARE = re.compile(_NAME)
_ATTRIBUTE = re.compile(r"#\d")
_FUNCTION = re.compile(rf"\((?P<function>\w+)\({_NAME}\) (?P<op><=>|<=|>=|=|<|>) (?P<value>.*)\)", re.DOTALL)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class LoggedScan:
    """A scan in an event log."""

    location: str
    """Paths of the files as in the plan: one, or several between commas, possibly cut off."""
    filters: tuple[str, ...]
    """Conjuncts, in the words of `Expression.toString`."""
    time_ms: int
    execution: int
    """Number of the query in its application."""


def read_scans(lines: Iterable[str]) -> Iterator[LoggedScan]:
    """Read the scans of files in the lines of an event log; skip other lines and broken ones."""
    for line in lines:
        if START not in line[:200]:
            continue
        try:
            event = json.loads(line)
            time_ms, number = int(event["time"]), int(event["executionId"])
            plans = [event["sparkPlanInfo"]]
        except (ValueError, LookupError, TypeError):
            continue
        while plans:
            plan = plans.pop()
            if isinstance(plan, dict):
                plans += plan.get("children") or []
                scan = _scan(plan.get("metadata") or {}, time_ms, number)
                if scan is not None:
                    yield scan


def _scan(metadata: Any, time_ms: int, number: int) -> LoggedScan | None:
    match = _LOCATION.fullmatch(str(metadata.get("Location", ""))) if isinstance(metadata, dict) else None
    if match is None:
        return None
    filters = [f for name in ("PartitionFilters", "DataFilters") for f in split(str(metadata.get(name, "[]"))[1:-1])]
    return LoggedScan(location=match[1], filters=tuple(dict.fromkeys(filters)), time_ms=time_ms, execution=number)


def split(text: str) -> list[str]:
    """Split at the commas outside of parentheses.

    >>> split("isnotnull(a#1), (s#2 = x, (y)), a#1 INSET 1, 2")
    ['isnotnull(a#1)', '(s#2 = x, (y))', 'a#1 INSET 1, 2']
    """
    parts, depth, start = [], 0, 0
    for i, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and text.startswith(", ", i):
            parts.append(text[start:i])
            start = i + 2
    filters: list[str] = []
    for part in [*parts, text[start:]]:
        # A part without a column continues a list of values.
        if filters and not _ATTRIBUTE.search(part):
            filters[-1] += f", {part}"
        elif part:
            filters.append(part)
    return filters


def is_at(location: str, root: str) -> bool:
    """Whether a location is a table's directory, or partitions in it.

    >>> is_at("file:/data/t/day=1, file:/data/t/day=2", "/data/t"), is_at("file:/data/t2", "/data/t")
    (True, False)
    """
    return f"{normalize_location(location.split(', ')[0])}/".startswith(f"{normalize_location(root)}/")


def to_spark_sql(text: str, columns: Columns) -> str:
    """Write one filter as SQL; raises PredicateError for unreadable text, ColumnError for unknown columns.

    >>> from zskip.records import Field
    >>> columns = Columns([Field(name="d", type=DataType("date")), Field(name="a", type=DataType("long"))])
    >>> to_spark_sql("((d#3 >= 2024-01-01) OR NOT a#1L IN (1,2))", columns)
    "(`d` >= DATE '2024-01-01' OR NOT (`a` IN (1, 2)))"
    """
    for word in ("AND", "OR"):
        parts = _operands(text, f" {word} ")
        if parts is not None:
            try:
                return "(" + f" {word} ".join(to_spark_sql(part, columns) for part in parts) + ")"
            except PredicateError:
                # A string may hold such a word.
                continue
    if text.startswith("NOT "):
        inner = to_spark_sql(text[4:], columns)
        return f"NOT ({inner})"
    return _leaf(text, columns)


def _operands(text: str, separator: str) -> tuple[str, str] | None:
    """Split `(x AND y)` at its outermost operator."""
    if not (text.startswith("(") and text.endswith(")")):
        return None
    depth, inner = 0, text[1:-1]
    for i, character in enumerate(inner):
        depth += (character == "(") - (character == ")")
        if depth == 0 and inner.startswith(separator, i):
            return inner[:i], inner[i + len(separator) :]
    return None


def _leaf(text: str, columns: Columns) -> str:
    match = _COMPARE.fullmatch(text)
    if match is not None:
        name, kind = _column(match["name"], columns)
        return f"{name} {match['op']} {_literal(match['value'], kind)}"
    match = _FUNCTION.fullmatch(text)
    if match is not None:
        name, _ = _column(match["name"], columns)
        value = match["value"] if _NUMBER.fullmatch(match["value"]) else _text(match["value"])
        return f"{match['function']}({name}) {match['op']} {value}"
    match = _IN.fullmatch(text)
    if match is not None:
        name, kind = _column(match["name"], columns)
        # An IN has no spaces between its values, so a comma before a space is part of a text.
        values = re.split(",(?! )", match["values"]) if match["values"] is not None else match["set"].split(", ")
        return f"{name} IN ({', '.join(_literal(value.strip(), kind) for value in values)})"
    match = _CALL.fullmatch(text)
    if match is not None:
        name, kind = _column(match["name"], columns)
        if match["call"].startswith("is"):
            return f"{name} IS {'NOT ' * (match['call'] == 'isnotnull')}NULL"
        return f"{match['call'].lower()}({name}, {_text(match['value'] or '')})"
    match = _LIKE.fullmatch(text)
    if match is not None:
        return f"{_column(match['name'], columns)[0]} LIKE {_text(match['value'])}"
    if _BARE.fullmatch(text):
        return _column(text.rpartition("#")[0], columns)[0]
    raise PredicateError(f'the filter "{text[:200]}" is of no form that zskip reads in event logs')


def _column(name: str, columns: Columns) -> tuple[str, DataType]:
    field = columns.resolve((name,))
    return "`" + field.name.replace("`", "``") + "`", field.type


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _literal(value: str, kind: DataType) -> str:
    if "#" in value and _BARE.fullmatch(value):
        raise PredicateError("it compares two columns")
    if value == "null":
        return "NULL"
    if kind.name in ("date", "timestamp", "timestamp_ntz"):
        return f"{kind.name.upper()} {_text(value)}"
    if kind.is_time:
        return f"TIME {_text(value)}"
    if kind.name == "boolean" and value in ("true", "false"):
        return value
    if kind.is_integer or kind.is_decimal or kind.name in ("float", "double"):
        try:
            float(value)
        except ValueError:
            raise PredicateError(f'"{value[:100]}" is no literal of type {kind}') from None
        return value
    if kind.name == "string" or kind.is_char:
        return _text(value)
    raise PredicateError(f"literals of type {kind} cannot be read in event logs")
