"""Resolves a table's column to a column of a file, and decides whether that column's statistics apply."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence

import numpy as np

from zskip.index.store.leaves import Column
from zskip.records import Values, objects
from zskip.types import DAY_MICROS, INTEGERS, DataType, Form, decode_decimal, encode_decimal

Widen = Callable[[Values], Values]
"""Converts values from the form of one type to that of a wider one."""

_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
"""The digits of the smallest decimal that holds each type."""
_BYTES = ("string", "binary")
_MOST_DAYS = 2**63 // DAY_MICROS - 1


class Absent(enum.Enum):
    """Why no column of a file answers."""

    MISSING = "missing"
    """The file has no such column: all its values are null."""
    UNKNOWN = "unknown"
    """Something has that name, but it is not a single column of a usable type."""


def fold(path: tuple[str, ...], case_sensitive: bool) -> tuple[str, ...]:
    """Fold a path to the form in which names are compared."""
    return path if case_sensitive else tuple(name.lower() for name in path)


def resolve(
    path: tuple[str, ...], data_type: DataType | None, columns: Sequence[Column], *, case_sensitive: bool
) -> int | Absent:
    """Find the column of a file that answers for `path`; returns its position in `columns`.

    data_type: the table's type; None accepts any type that has an order.

    >>> columns = [Column(("A",), "integer"), Column(("s", "x"), "string")]
    >>> resolve(("a",), DataType("long"), columns, case_sensitive=False)
    0
    >>> resolve(("s",), DataType("long"), columns, case_sensitive=False)
    <Absent.UNKNOWN: 'unknown'>
    >>> resolve(("b",), DataType("long"), columns, case_sensitive=False)
    <Absent.MISSING: 'missing'>
    """
    path = fold(path, case_sensitive)
    related = []
    for i, column in enumerate(columns):
        other = fold(column.path, case_sensitive)
        depth = min(len(path), len(other))
        if other[:depth] == path[:depth]:
            related.append((i, other))
    if not related:
        return Absent.MISSING
    if len(related) > 1 or related[0][1] != path or not readable_as(columns[related[0][0]].type, data_type):
        return Absent.UNKNOWN
    return related[0][0]


def readable_as(file_type: str | None, data_type: DataType | None) -> bool:
    """Whether values of a file's type are certain to be values of the table's type.

    >>> readable_as("integer", DataType("long")), readable_as("long", DataType("integer"))
    (True, False)
    """
    return file_type is not None and (data_type is None or widening(file_type, data_type) is not None)


def widening(file_type: str, data_type: DataType) -> Widen | None:
    """The function that converts values of a file's type to the table's, in their forms; None if none is certain.

    It is monotone, so it may be applied to bounds.

    >>> import numpy as np
    >>> widening("decimal(9,2)", DataType("decimal(12,4)"))(np.array([150])).tolist()
    [15000]
    """
    if file_type == data_type.name or (file_type, data_type.name) == ("float", "double"):
        return _same
    if file_type in _BYTES and (data_type.name in _BYTES or data_type.is_char):
        return _same
    if data_type.is_interval:
        integer = "integer" if data_type.is_months else "long"
        return _same if file_type == integer else None
    if data_type.is_time:
        return _same if DataType(file_type).is_time else None
    if file_type in INTEGERS and data_type.is_integer:
        return _same if INTEGERS[file_type] <= INTEGERS[data_type.name] else None
    if data_type.is_decimal:
        return _widen_decimal(file_type, data_type)
    if data_type.name == "double" and file_type in ("byte", "short", "integer"):
        return _to_double
    return _to_micros if (file_type, data_type.name) == ("date", "timestamp_ntz") else None


def _widen_decimal(file_type: str, data_type: DataType) -> Widen | None:
    narrow = DataType(f"decimal({_DIGITS[file_type]},0)" if file_type in _DIGITS else file_type)
    if not narrow.is_decimal:
        return None
    shift = data_type.scale - narrow.scale
    if shift < 0 or data_type.precision - data_type.scale < narrow.precision - narrow.scale:
        return None
    stored_type = DataType("decimal(18,0)") if file_type in _DIGITS else narrow
    if stored_type.form is data_type.form is Form.BYTES and not shift:
        return _same
    factor = 10**shift
    if data_type.form is Form.INT:
        return lambda values: values * factor

    def widen(values: Values) -> Values:
        unscaled = (decode_decimal(v, stored_type) if v != b"" else None for v in values)
        return objects([b"" if v is None else encode_decimal(v * factor, data_type) for v in unscaled])

    return widen


def _same(values: Values) -> Values:
    return values


def _to_double(values: Values) -> Values:
    return values.astype(np.float64)


def _to_micros(values: Values) -> Values:
    """Clip days beyond the range of microseconds: no query can read them."""
    return np.clip(values, -_MOST_DAYS, _MOST_DAYS).astype(np.int64) * DAY_MICROS
