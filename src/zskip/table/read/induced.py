"""The predicate of a plan: the boxes of its files, by which any engine skips the others with its own statistics."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from zskip.index import BoundIndex
from zskip.predicate import Column
from zskip.predicate.columns import name_sql
from zskip.prune import cover
from zskip.records import ALL_NULL, Bools, ColumnStats
from zskip.types import DataType, Encoded, Form, to_decimal, valid_text

_BOXES = 32
_CANDIDATES = 32
"""As many columns as Delta keeps statistics of by default."""
_EPOCH = dt.datetime(1970, 1, 1)


def induced_predicate(bound: BoundIndex, kept: Bools, names: Iterable[str]) -> str | None:
    """A condition in SQL that is true for all rows of the kept files; None where it would say nothing.

    names: columns to try first. Files of which nothing is known make it None; nulls and NaN belong to their boxes.
    """
    if kept.all():
        return None
    if not kept.any():
        return "FALSE"
    reading = bound.snapshot.reading
    if reading.changed is not None and (kept & reading.changed).any():
        return None  # Log files beside these change their rows.
    columns = list(_candidates(bound, names).items())
    boxes: dict[str, None] = {}
    for group, needed in cover([stats for _, stats in columns], kept, _BOXES) if columns else ():
        ranges = [_range_sql(columns[i][0], columns[i][1].take(group)) for i in needed]
        boxes[" AND ".join(text for text in ranges if text)] = None
    if not boxes or "" in boxes:
        return None  # A box without ends holds all rows.
    return " OR ".join(f"({text})" for text in boxes) if len(boxes) > 1 else next(iter(boxes))


def _candidates(bound: BoundIndex, names: Iterable[str]) -> dict[str, ColumnStats]:
    """The columns whose bounds SQL can say; in a table format, only those that its own metadata has statistics of."""
    snapshot, columns = bound.snapshot, dict[str, ColumnStats]()
    partition_names = {field.name for field in snapshot.partition_fields}
    types = {field.name: field.type for field in (*snapshot.partition_fields, *snapshot.fields)}
    for name in dict.fromkeys((*(name for name in names if name in types), *types)):
        is_seen = name in partition_names or snapshot.known is None or snapshot.known.column(name) is not None
        if not is_seen or not _is_spelled(types[name]):
            continue
        stats = bound.column((name,))
        if stats is not None:
            nulls = np.where((bound.rows >= 0) & (stats.nulls == bound.rows), ALL_NULL, stats.nulls)
            columns[name] = replace(stats, nulls=nulls)
        if len(columns) == _CANDIDATES:
            break
    return columns


def _is_spelled(data_type: DataType) -> bool:
    """Whether all engines read literals of a type alike, and compare them alike."""
    is_time = data_type.name in ("date", "timestamp", "timestamp_ntz")
    return is_time or data_type.is_integer or data_type.is_decimal or data_type.name in ("string", "float", "double")


def _range_sql(name: str, files: ColumnStats) -> str:
    """What holds for a column in all rows of some files; empty if nothing does."""
    column, kind = name_sql(Column((name,), files.type)), files.type
    may_be_null = bool((files.nulls != 0).any())
    valued = files.take(np.flatnonzero(files.nulls != ALL_NULL))
    if not len(valued.lower):
        return f"{column} IS NULL"
    if not valued.bounded.all():
        return ""
    least, greatest = _lower_sql(min(valued.lower), kind), _upper_sql(max(valued.upper), kind)
    if valued.may_nan.any():
        # NaN is above all numbers for some engines, and beside them for others; this is true for it in both.
        text = "" if least is None else f"NOT ({column} < {least})"
    elif least is None or greatest is None:
        text = f"{column} >= {least}" if least else f"{column} <= {greatest}" if greatest else ""
    else:
        text = f"{column} = {least}" if least == greatest else f"{column} BETWEEN {least} AND {greatest}"
    return f"({text} OR {column} IS NULL)" if text and may_be_null else text


def _lower_sql(value: Encoded, data_type: DataType) -> str | None:
    """A literal that is not above a value; None if SQL has none."""
    if not isinstance(value, bytes) or data_type.is_decimal:
        return _literal_sql(value, data_type)
    text = _start_alike(value)
    return f"'{text}'" if text else None


def _upper_sql(value: Encoded, data_type: DataType) -> str | None:
    """A literal that is not below a value; None if SQL has none."""
    if not isinstance(value, bytes) or data_type.is_decimal:
        return _literal_sql(value, data_type)
    text = _start_alike(value)
    if text.encode() == value:
        return f"'{text}'"
    for i in reversed(range(len(text))):
        if " " <= text[i] < "}":
            following = chr(ord(text[i]) + (2 if text[i] in "&[" else 1))  # Without ' and \\.
            return f"'{text[:i]}{following}'"
    return None


def _start_alike(value: bytes) -> str:
    """The start of a text that all engines read alike between quotes."""
    match = re.match(r"[^\\'\x00-\x1f\x7f]*", valid_text(value))
    return match[0] if match else ""


def _literal_sql(value: Encoded, data_type: DataType) -> str | None:
    """A literal of a number, a date or a time; None if SQL has none."""
    if data_type.is_decimal:
        return f"{to_decimal(value, data_type):f}"
    if data_type.form is Form.FLOAT:
        text = repr(float(value))
        return None if not math.isfinite(float(value)) else text if "e" in text else f"{text}E0"
    if data_type.is_integer:
        return str(int(value))
    try:
        if data_type.name == "date":
            return f"DATE '{_EPOCH.date() + dt.timedelta(days=int(value))}'"
        time = _EPOCH + dt.timedelta(microseconds=int(value))
    except OverflowError:
        return None
    zone = "+00:00" if data_type.name == "timestamp" else ""
    return f"{data_type.name.upper()} '{time:%Y-%m-%d %H:%M:%S.%f}{zone}'"
