"""Statistics of a file in the form of Delta's log: rows, and bounds and null counts of its columns, in JSON.

By Delta's rules strings are cut to 32 Java characters, a cut upper bound is increased, and NaN, booleans and binary
have no bounds. Timestamps are written in milliseconds, upper bounds rounded up, so that they hold for readers that take
them literally.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zskip.index import BoundIndex
from zskip.records import ALL_NULL, ColumnStats, Field
from zskip.types import DataType, Encoded, Form, to_decimal, valid_text

MOST_CHARACTERS = 32
_INDEXED = "delta.dataSkippingNumIndexedCols"
_NAMED = "delta.dataSkippingStatsColumns"
_DEFAULT_INDEXED = 32
_LAST = "\U0010ffff"
_EPOCH = dt.datetime(1970, 1, 1)
_MILLI = 1000
_LISTED = re.compile(r"\s*(?:`((?:[^`]|``)*)`|([^`.,]+))\s*([.,]|$)")
"""A part of a column's name in a list, and what follows it."""

Path = tuple[str, ...]


def file_statistics(index: BoundIndex, paths: Sequence[Path], stored: Mapping[Path, Path]) -> list[str]:
    """The JSON of each file of an index's snapshot, for the columns at some paths.

    stored: the paths under which the log has columns, where they are others.
    """
    columns = [(stored.get(path, path), index.column(path)) for path in paths]
    return [
        _statistics(int(rows), [(path, stats) for path, stats in columns if stats is not None], i)
        for i, rows in enumerate(index.rows)
    ]


def columns_with_statistics(
    fields: Sequence[Field], configuration: Mapping[str, Any], by: Sequence[str]
) -> tuple[Path, ...]:
    """Paths of the columns that the table keeps statistics of, and of its clustering columns.

    by: as SQL writes them, or the bare names of columns.
    """
    leaves = [path for field in fields for path in _leaves((field.name,), field.type)]
    named = configuration.get(_NAMED)
    if named is not None:
        prefixes = {_folded(path) for path in parse_column_list(str(named))}
        selected = {leaf for leaf in leaves if any(_folded(leaf[:i]) in prefixes for i in range(1, len(leaf) + 1))}
    else:
        count = int(configuration.get(_INDEXED) or _DEFAULT_INDEXED)
        selected = set(leaves if count < 0 else leaves[:count])
    clustered = {(name,) for name in by} | {path for name in by for path in parse_column_list(name)}
    return tuple(leaf for leaf in leaves if leaf in selected or leaf in clustered)


def parse_column_list(text: str) -> list[Path]:
    """The paths of columns in a list as Delta's properties have it.

    >>> parse_column_list("`z.z`, `a``,b`.c, d")
    [('z.z',), ('a`,b', 'c'), ('d',)]
    """
    paths: list[Path] = []
    path: Path = ()
    for match in _LISTED.finditer(text):
        quoted, plain, end = match.groups()
        path = (*path, plain.strip() if quoted is None else quoted.replace("``", "`"))
        if end != ".":
            paths.append(path)
            path = ()
    return paths


def _folded(path: Path) -> Path:
    """The same for all spellings: Delta's names differ by more than case."""
    return tuple(name.lower() for name in path)


def _leaves(path: Path, data_type: DataType) -> Iterator[Path]:
    if not data_type.fields:
        yield path
    for name, inner in data_type.fields:
        yield from _leaves((*path, name), inner)


def _statistics(rows: int, columns: Sequence[tuple[Path, ColumnStats]], file: int) -> str:
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for path, stats in columns:
        count = rows if stats.nulls[file] == ALL_NULL else int(stats.nulls[file])
        if count >= 0:
            _put(nulls, path, str(count))
        if stats.bounded[file] and not stats.may_nan[file] and count != rows:
            lower = _literal(stats.lower[file], stats.type, upper=False)
            upper = _literal(stats.upper[file], stats.type, upper=True)
            if lower is not None:
                _put(least, path, lower)
            if upper is not None:
                _put(greatest, path, upper)
    parts = {"minValues": least, "maxValues": greatest, "nullCount": nulls}
    return _dump({"numRecords": str(rows), **{name: part for name, part in parts.items() if part}})


def _put(into: dict[str, Any], path: Path, text: str) -> None:
    for name in path[:-1]:
        into = into.setdefault(name, {})
    into[path[-1]] = text


def _dump(content: Mapping[str, Any]) -> str:
    """JSON of values that are JSON texts already, since decimals must not pass through a float."""
    parts = (
        f"{json.dumps(name, ensure_ascii=False)}:{value if isinstance(value, str) else _dump(value)}"
        for name, value in content.items()
    )
    return "{" + ",".join(parts) + "}"


def _literal(value: Encoded, data_type: DataType, *, upper: bool) -> str | None:
    """A bound in JSON; None if Delta keeps none."""
    if data_type.is_decimal:
        return f"{to_decimal(value, data_type):f}"
    if data_type.form is Form.FLOAT:
        number = float(value)
        return repr(number) if math.isfinite(number) else None
    if data_type.is_integer:
        return str(int(value))
    if data_type.name == "string" or data_type.is_char:
        text = cut_upper(bytes(value)) if upper else cut_lower(bytes(value))  # type: ignore[arg-type]
        return None if text is None else json.dumps(text, ensure_ascii=False)
    if data_type.name in ("date", "timestamp", "timestamp_ntz"):
        return _time(int(value), data_type.name, upper=upper)
    return None


def cut_lower(value: bytes) -> str:
    """Cut a text to at most 32 characters that are not above `value`.

    >>> cut_lower(b"a" * 40) == "a" * 32
    True
    """
    return _head(valid_text(value))


def cut_upper(value: bytes) -> str | None:
    """A text of at most 33 characters that is not below `value`, nor below any value that is not above it.

    None if no such text begins as the value does.

    >>> cut_upper(b"a" * 40) == "a" * 32 + chr(0x7F), cut_upper(b"abc")
    (True, 'abc')
    """
    text = _head(valid_text(value))
    rest = value[len(text.encode()) :]
    if not rest:
        return text
    if rest[0] < 0x7F:
        return text + "\x7f"
    return text + _LAST if rest < _LAST.encode() else None


def _head(text: str) -> str:
    """The prefix that Delta keeps: it counts UTF-16 units as Java does, and splits no character."""
    units = 0
    for i, character in enumerate(text):
        if units >= MOST_CHARACTERS:
            return text[:i]
        units += 1 + (character > "\uffff")
    return text


def _time(value: int, name: str, *, upper: bool) -> str | None:
    try:
        if name == "date":
            return json.dumps((_EPOCH + dt.timedelta(days=value)).date().isoformat())
        millis = -(-value // _MILLI) if upper else value // _MILLI
        text = (_EPOCH + dt.timedelta(milliseconds=millis)).isoformat(timespec="milliseconds")
    except OverflowError:
        return None
    return json.dumps(text + "Z" * (name == "timestamp"))
