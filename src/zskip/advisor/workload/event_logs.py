"""Filters of scans in Spark's event logs, read as predicates.

The plan of each `SparkListenerSQLExecutionStart` says of a scan of files where they lie and by what they are filtered,
in the words of `Expression.toString`: names with ids (`a#12L`), literals without quotes (`(d#3 >= 2024-01-01)`). What a
literal is, its column says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from zskip.errors import PredicateError
from zskip.predicate import Columns
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
    """A scan that an event log tells of."""

    location: str
    """Where the files lie, as the plan has it: one path, or several with commas between, possibly cut off."""
    filters: tuple[str, ...]
    """Conjuncts, in the words of `Expression.toString`."""
    time_ms: int
    execution: int
    """Number of the query in its application."""


def scans_of(lines: Iterable[str]) -> Iterator[LoggedScan]:
    """The scans of files in the lines of an event log; lines that are cut short or of other kinds are passed over."""
    for line in lines:
        if START not in line[:200]:
            continue
        try:
            event = json.loads(line)
            at, number = int(event["time"]), int(event["executionId"])
            plans = [event["sparkPlanInfo"]]
        except (ValueError, LookupError, TypeError):
            continue
        while plans:
            plan = plans.pop()
            if isinstance(plan, dict):
                plans += plan.get("children") or []
                found = _scan(plan.get("metadata") or {}, at, number)
                if found is not None:
                    yield found


def _scan(metadata: Any, at: int, number: int) -> LoggedScan | None:
    match = _LOCATION.fullmatch(str(metadata.get("Location", ""))) if isinstance(metadata, dict) else None
    if match is None:
        return None
    filters = [f for name in ("PartitionFilters", "DataFilters") for f in split(str(metadata.get(name, "[]"))[1:-1])]
    return LoggedScan(location=match[1], filters=tuple(dict.fromkeys(filters)), time_ms=at, execution=number)


def split(text: str) -> list[str]:
    """Split at the commas that no parenthesis holds.

    >>> split("isnotnull(a#1), (s#2 = x, (y)), a#1 INSET 1, 2")
    ['isnotnull(a#1)', '(s#2 = x, (y))', 'a#1 INSET 1, 2']
    """
    parts, depth, start = [], 0, 0
    for i, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and text.startswith(", ", i):
            parts.append(text[start:i])
            start = i + 2
    found: list[str] = []
    for part in [*parts, text[start:]]:
        # What names no column is the rest of a list of values.
        if found and not _ATTRIBUTE.search(part):
            found[-1] += f", {part}"
        elif part:
            found.append(part)
    return found


def is_at(location: str, root: str) -> bool:
    """Whether a location is a table's directory, or partitions in it.

    >>> is_at("file:/data/t/day=1, file:/data/t/day=2", "/data/t"), is_at("file:/data/t2", "/data/t")
    (True, False)
    """
    wanted = _plain(root)
    first = _plain(location.split(", ")[0])
    return first == wanted or first.startswith(wanted + "/")


def _plain(path: str) -> str:
    return re.sub(r"^file:/*", "/", path).replace("s3a://", "s3://").rstrip("/")


def sql_of(text: str, columns: Columns) -> str:
    """One filter as SQL; raises PredicateError for what cannot be read, ColumnError for columns that are not there.

    >>> from zskip.records import Field
    >>> columns = Columns([Field(name="d", type=DataType("date")), Field(name="a", type=DataType("long"))])
    >>> sql_of("((d#3 >= 2024-01-01) OR NOT a#1L IN (1,2))", columns)
    "(`d` >= DATE '2024-01-01' OR NOT (`a` IN (1, 2)))"
    """
    for word in ("AND", "OR"):
        parts = _operands(text, f" {word} ")
        if parts is not None:
            try:
                return "(" + f" {word} ".join(sql_of(part, columns) for part in parts) + ")"
            except PredicateError:
                # A string may hold such a word.
                continue
    if text.startswith("NOT "):
        inner = sql_of(text[4:], columns)
        return f"NOT ({inner})"
    return _leaf(text, columns)


def _operands(text: str, separator: str) -> tuple[str, str] | None:
    """Both sides of the outermost operator of `(x AND y)`."""
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
        # An IN has no spaces between its values, so that a comma before one is part of a text.
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
