"""Aggregates over whole files from the index alone: row counts, and counts and extremes of columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from zskip.records import ALL_NULL, Bools, ColumnStats, Ints
from zskip.types import Encoded, Form

_FAR = 2**62
"""Days converted to microseconds are cut off beyond this."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Tally:
    """One aggregate over the rows of files."""

    function: str
    """`count`, `min` or `max`."""
    stats: ColumnStats | None = None
    """Statistics of the column; None counts rows."""
    tight: Bools | None = None
    """(files,) whether the bounds are values of the file; None means all are."""

    def known(self, rows: Ints) -> Bools:
        """(files,) mask of the files whose aggregate the index knows exactly; rows: -1 where unknown."""
        counted: Bools = rows >= 0
        if self.stats is None:
            return counted
        nulls = _null_counts(self.stats, rows)
        counted = counted & (nulls >= 0) & (nulls <= rows)
        if self.function == "count":
            return counted
        known: Bools = counted & ((nulls == rows) | _is_attained(self.stats, self.function, self.tight))
        return known

    def of(self, rows: Ints, files: Bools) -> Encoded | None:
        """Compute the aggregate over files that are `known`, in the form of the column's type; None for null.

        >>> Tally(function="count").of(np.array([3, 4, 5]), np.array([True, False, True]))
        8
        """
        if self.stats is None:
            return int(rows[files].sum())
        nulls = _null_counts(self.stats, rows)
        if self.function == "count":
            return int((rows - nulls)[files].sum())
        with_values = files & (nulls < rows)
        if not with_values.any():
            return None
        extreme: Callable[..., Encoded] = min if self.function == "min" else max
        return extreme((self.stats.lower if self.function == "min" else self.stats.upper)[with_values].tolist())


def _null_counts(stats: ColumnStats, rows: Ints) -> Ints:
    return np.where(stats.nulls == ALL_NULL, rows, stats.nulls)


def _is_attained(stats: ColumnStats, function: str, tight: Bools | None) -> Bools:
    """(files,) mask of the files, known to have values, whose bound surely is their least or greatest value.

    NaN is above all numbers; bounds do not tell the sign of a zero; text is cut, unless there is only one value.
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
