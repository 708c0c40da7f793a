"""What the index alone knows of the rows of whole files: their number, and counts and extremes of columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from zskip.records import ALL_NULL, Bools, ColumnStats, Ints
from zskip.types import Encoded, Form

_FAR = 2**62
"""Beyond it, days that became microseconds are cut off."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Tally:
    """One aggregate over the rows of files."""

    function: str
    """`count`, `min` or `max`."""
    stats: ColumnStats | None = None
    """Of the column; None counts rows."""
    tight: Bools | None = None
    """(files,) where the bounds are values themselves, and not merely beyond all of them; None where all are."""

    def known(self, rows: Ints) -> Bools:
        """(files,) mask of the files of which the index tells the aggregate exactly; rows: -1 where unknown."""
        counted: Bools = rows >= 0
        if self.stats is None:
            return counted
        nulls = _nulls(self.stats, rows)
        counted = counted & (nulls >= 0) & (nulls <= rows)
        if self.function == "count":
            return counted
        known: Bools = counted & ((nulls == rows) | _attained(self.stats, self.function, self.tight))
        return known

    def of(self, rows: Ints, files: Bools) -> Encoded | None:
        """The aggregate over the rows of some files that are `known`, in the form of the column's type; None for null.

        >>> Tally(function="count").of(np.array([3, 4, 5]), np.array([True, False, True]))
        8
        """
        if self.stats is None:
            return int(rows[files].sum())
        nulls = _nulls(self.stats, rows)
        if self.function == "count":
            return int((rows - nulls)[files].sum())
        valued = files & (nulls < rows)
        if not valued.any():
            return None
        least: Callable[..., Encoded] = min if self.function == "min" else max
        return least((self.stats.lower if self.function == "min" else self.stats.upper)[valued].tolist())


def _nulls(stats: ColumnStats, rows: Ints) -> Ints:
    return np.where(stats.nulls == ALL_NULL, rows, stats.nulls)


def _attained(stats: ColumnStats, function: str, tight: Bools | None) -> Bools:
    """(files,) mask of the files, known to have values, in which the bound is surely the least or greatest of them.

    NaN is above all numbers; zero has two signs, of which the bounds do not tell which is there; text is cut, unless
    there is but one value.
    """
    lower, upper = stats.lower, stats.upper
    sure = stats.bounded & ~stats.may_nan & np.asarray(lower <= upper, np.bool_)
    one_value = np.asarray(lower == upper, np.bool_)
    end = lower if function == "min" else upper
    if stats.type.form is Form.FLOAT:
        sure &= end != 0
    if stats.type.form is Form.BYTES and not stats.type.is_decimal:
        return sure & one_value
    if stats.type.name == "timestamp_ntz":
        sure &= (end > -_FAR) & (end < _FAR)
    return sure if tight is None else sure & (tight | one_value)
