"""The values of a column for which a condition on a function of it may be true, by halving the column's domain."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

import numpy as np

from zskip.predicate import Column, Predicate
from zskip.prune import prune
from zskip.records import Floats, Ints, Values
from zskip.records.statistics import ColumnStats
from zskip.types import DAY_MICROS, INTEGERS, DataType, Form

_YEARS = (-719_162, 2_932_896)
"""Days since 1970 of the first day of the year 1, and of the last day of 9999."""
_MOST_OPEN = 32
"""Intervals of which it is not known whether all values match; from more on only the outer ends are looked for."""


@lru_cache(maxsize=4096)
def preimage(condition: Predicate, column: Column) -> tuple[tuple[Any, Any], ...] | None:
    """Closed ranges that hold all values of the only column of a condition for which it may be true.

    None where the column's form cannot be halved, or where nothing is learned.

    >>> from zskip.predicate import Columns, parse
    >>> from zskip.records import Field
    >>> day = Field(name="day", type=DataType("date"))
    >>> column = Column(("day",), day.type)
    >>> preimage(parse("year(day) = 2024", Columns((day,))), column)
    ((19723, 20088),)
    """
    domain = _domain(column.type)
    if domain is None:
        return None
    low, high = np.array([domain[0]], np.int64), np.array([domain[1]], np.int64)
    sure: list[tuple[int, int]] = []
    while True:
        result = prune(condition, _Intervals(column, _values(low, column.type), _values(high, column.type)))
        done = result.kept & (result.full | (low == high))
        sure += zip(low[done].tolist(), high[done].tolist(), strict=True)
        is_open = result.kept & ~done
        low, high = low[is_open], high[is_open]
        if not len(low):
            break
        if len(low) > _MOST_OPEN:
            sure.append((int(low[1]), int(high[-2])))
            low, high = low[[0, -1]], high[[0, -1]]
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        low, high = (np.column_stack(pair).reshape(-1) for pair in ((low, middle + 1), (middle, high)))
    ranges = _joined(sure)
    if ranges == [domain]:
        return None
    ends = np.array(ranges, np.int64).reshape(-1, 2)
    columns = (_values(ends[:, side], column.type).tolist() for side in (0, 1))
    return tuple(zip(*columns, strict=True))


def _domain(data_type: DataType) -> tuple[int, int] | None:
    """The first and the last value of a type, as integers in the order of the values."""
    name = data_type.name
    if name in INTEGERS:
        return -(2 ** (INTEGERS[name] - 1)), 2 ** (INTEGERS[name] - 1) - 1
    if name == "date":
        return _YEARS
    if name in ("timestamp", "timestamp_ntz"):
        return _YEARS[0] * DAY_MICROS, (_YEARS[1] + 1) * DAY_MICROS - 1
    if data_type.is_time:
        return 0, DAY_MICROS - 1
    if data_type.form is Form.FLOAT:
        infinite = int(np.array(np.inf).view(np.int64))
        return -infinite, infinite
    if data_type.form is Form.INT and data_type.is_decimal:
        return -(10**data_type.precision) + 1, 10**data_type.precision - 1
    return None


def _values(numbers: Ints, data_type: DataType) -> Values:
    """Values by their integers: those of floats are the bits of the magnitude, with a sign."""
    if data_type.form is not Form.FLOAT:
        return numbers
    return cast(Floats, np.where(numbers < 0, -1.0, 1.0) * np.abs(numbers).view(np.float64))


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same ranges in order, those that touch being one."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(high, joined[-1][1])
        else:
            joined.append((low, high))
    return joined


class _Intervals:
    """Files that each hold one interval of a column, for `prune`."""

    def __init__(self, column: Column, lower: Values, upper: Values) -> None:
        self._path = column.path
        self._stats = ColumnStats(
            type=column.type,
            lower=lower,
            upper=upper,
            bounded=np.ones(len(lower), np.bool_),
            nulls=np.zeros(len(lower), np.int64),
            may_nan=np.zeros(len(lower), np.bool_),
        )
        self.rows = np.full(len(lower), 2, np.int64)

    def column(self, path: tuple[str, ...]) -> ColumnStats | None:
        """The statistics of the one column."""
        return self._stats if path == self._path else None
