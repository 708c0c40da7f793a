"""Which column of a file answers for a column of the table, and whether its statistics may be used for it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence

import numpy as np

from zskip.index.store.leaves import Column
from zskip.records import Values
from zskip.types import DataType, Form, decode_decimal, encode_decimal

Widen = Callable[[Values], Values]
"""From values in the form of one type to those of a wider one."""

_WIDER = {"byte": 0, "short": 1, "integer": 2, "long": 3}
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
"""Of the smallest decimal that holds each type."""
_BYTES = ("string", "binary")
_DAY_MICROS = 86_400_000_000
_MOST_DAYS = 2**63 // _DAY_MICROS - 1


class Absent(enum.Enum):
    """Why no column of a file answers."""

    MISSING = "missing"
    """The file has no such column: all its values are null."""
    UNKNOWN = "unknown"
    """There is something of that name, but not one column of a usable type."""


def fold(path: tuple[str, ...], case_sensitive: bool) -> tuple[str, ...]:
    """Bring a path to the form in which names are compared."""
    return path if case_sensitive else tuple(name.lower() for name in path)


def resolve(
    path: tuple[str, ...], wanted: DataType | None, columns: Sequence[Column], *, case_sensitive: bool
) -> int | Absent:
    """Find the column of a file that answers for `path`; its place in `columns`.

    wanted: the type in the table; None accepts any type that has an order.

    >>> columns = [Column(("A",), "integer"), Column(("s", "x"), "string")]
    >>> resolve(("a",), DataType("long"), columns, case_sensitive=False)
    0
    >>> resolve(("s",), DataType("long"), columns, case_sensitive=False)
    <Absent.UNKNOWN: 'unknown'>
    >>> resolve(("b",), DataType("long"), columns, case_sensitive=False)
    <Absent.MISSING: 'missing'>
    """
    path = fold(path, case_sensitive)
    near = []
    for i, column in enumerate(columns):
        other = fold(column.path, case_sensitive)
        depth = min(len(path), len(other))
        if other[:depth] == path[:depth]:
            near.append((i, other))
    if not near:
        return Absent.MISSING
    if len(near) > 1 or near[0][1] != path or not readable_as(columns[near[0][0]].type, wanted):
        return Absent.UNKNOWN
    return near[0][0]


def readable_as(held: str | None, wanted: DataType | None) -> bool:
    """Whether the values of a file's type are values of the table's type, and what they are is sure.

    >>> readable_as("integer", DataType("long")), readable_as("long", DataType("integer"))
    (True, False)
    """
    return held is not None and (wanted is None or widening(held, wanted) is not None)


def widening(held: str, wanted: DataType) -> Widen | None:
    """Give the function that brings values of a file's type to the table's, in their forms; None where none is sure.

    It never falls, so that it may be applied to bounds.

    >>> import numpy as np
    >>> widening("decimal(9,2)", DataType("decimal(12,4)"))(np.array([150])).tolist()
    [15000]
    """
    if held == wanted.name or (held, wanted.name) == ("float", "double"):
        return _same
    if held in _BYTES and (wanted.name in _BYTES or wanted.is_char):
        return _same
    if wanted.is_interval:
        whole = "integer" if wanted.is_months else "long"
        return _same if held == whole else None
    if held in _WIDER and wanted.name in _WIDER:
        return _same if _WIDER[held] <= _WIDER[wanted.name] else None
    if wanted.is_decimal:
        return _widen_decimal(held, wanted)
    if wanted.name == "double" and held in ("byte", "short", "integer"):
        return _to_double
    return _to_micros if (held, wanted.name) == ("date", "timestamp_ntz") else None


def _widen_decimal(held: str, wanted: DataType) -> Widen | None:
    narrow = DataType(f"decimal({_DIGITS[held]},0)" if held in _DIGITS else held)
    if not narrow.is_decimal:
        return None
    shift = wanted.scale - narrow.scale
    if shift < 0 or wanted.precision - wanted.scale < narrow.precision - narrow.scale:
        return None
    held_as = DataType("decimal(18,0)") if held in _DIGITS else narrow
    if held_as.form is wanted.form is Form.BYTES and not shift:
        return _same
    factor = 10**shift
    if wanted.form is Form.INT:
        return lambda values: values * factor

    def widen(values: Values) -> Values:
        found = np.empty(len(values), np.object_)
        found[:] = [encode_decimal(decode_decimal(v, held_as) * factor, wanted) if v != b"" else v for v in values]
        return found

    return widen


def _same(values: Values) -> Values:
    return values


def _to_double(values: Values) -> Values:
    return values.astype(np.float64)


def _to_micros(values: Values) -> Values:
    """Days beyond what microseconds can say are cut off: no query can read them."""
    return np.clip(values, -_MOST_DAYS, _MOST_DAYS).astype(np.int64) * _DAY_MICROS
