"""Evaluates one leaf of a predicate over the statistics of a column, for all files at once.

`lower` and `upper` bound the values that are neither null nor NaN. Spark orders NaN above all other values and equal
to itself, so a file that may hold NaN may hold a value above any bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from zskip.predicate import Compare, CompareTerms, Contains, EndsWith, In, IsNull, Like, StartsWith, TermLeaf, patterns
from zskip.prune.outcomes import Outcomes
from zskip.records import ALL_NULL, Bools, ColumnStats, Ints, objects
from zskip.sketch.intervals import may_start_with, meets, to_array
from zskip.types import Encoded

_Matches = EndsWith | Contains | Like
_Valued = Compare | In | StartsWith | _Matches
_Range = tuple[Any, Any, Any]
"""`lower`, `upper` and `may_nan`; untyped, since arrays of bytes compare as objects."""


class StatsSource(Protocol):
    """The statistics of the files of one snapshot."""

    @property
    def rows(self) -> Ints:
        """(files,) rows of each file, -1 where unknown."""

    def column(self, path: tuple[str, ...]) -> ColumnStats | None:
        """The statistics of a column; None where there are none."""


Presence = tuple[Bools, Bools, Bools]
"""What `presence` tells."""


def evaluate(leaf: TermLeaf, stats: ColumnStats, present: Presence) -> Outcomes:
    """Tell for each file whether the leaf may be true, false, or null for some row."""
    occupied, with_value, may_null = present
    if isinstance(leaf, IsNull):
        return Outcomes(may_null, with_value, np.zeros_like(occupied))
    may_true, may_false = (np.asarray(mask, np.bool_) for mask in _evaluate_values(leaf, stats))
    unknown = ~stats.bounded
    if isinstance(leaf, Compare) and leaf.value != leaf.value:
        unknown = np.zeros_like(unknown)  # `may_nan` is known without bounds.
    return Outcomes(with_value & (may_true | unknown), with_value & (may_false | unknown), may_null)


def evaluate_terms(leaf: CompareTerms, left: ColumnStats, right: ColumnStats, rows: Ints) -> Outcomes:
    """Do the same for two terms of one type that are compared row by row.

    rows: (files,), -1 where unknown.
    """
    _, left_value, left_null = presence(left, rows)
    _, right_value, right_null = presence(right, rows)
    with_value = left_value & right_value
    if leaf.left == leaf.right:
        equal = with_value if "=" in leaf.op else np.zeros_like(with_value)
        return Outcomes(equal, with_value & ~equal, left_null)
    may_true, may_false = _compare_ranges(leaf.op, _bounds(left), _bounds(right))
    unknown = ~(left.bounded & right.bounded)
    return Outcomes(with_value & (may_true | unknown), with_value & (may_false | unknown), left_null | right_null)


def presence(stats: ColumnStats, rows: Ints) -> Presence:
    """Tell for each file whether it may have rows, rows with a value, and rows with null.

    rows: (files,), -1 where unknown.
    """
    occupied = rows != 0
    all_null = (stats.nulls == ALL_NULL) | ((rows >= 0) & (stats.nulls >= rows))
    return occupied, occupied & ~all_null, occupied & (stats.nulls != 0)


def _evaluate_values(leaf: _Valued, stats: ColumnStats) -> tuple[Any, Any]:
    """Tell whether some non-null value may make the leaf true, and false; valid where the column is bounded."""
    if isinstance(leaf, Compare):
        return _compare(leaf.op, leaf.value, stats)
    if isinstance(leaf, In):
        return _in(leaf.values, stats)
    if isinstance(leaf, StartsWith):
        return _starts_with(leaf.prefix, stats)
    return _matches(leaf, stats)


def _bounds(stats: ColumnStats) -> _Range:
    return stats.lower, stats.upper, stats.may_nan


def _compare(op: str, value: Any, stats: ColumnStats) -> tuple[Bools, Bools]:
    if isinstance(value, float) and math.isnan(value):
        return _compare_with_nan(op, stats.may_nan, ~stats.bounded | _mask(_bounds(stats)[0] <= stats.upper))
    value = objects([value]) if isinstance(value, bytes) else value
    return _compare_ranges(op, _bounds(stats), (value, value, False))


def _compare_with_nan(op: str, may_nan: Bools, number: Bools) -> tuple[Bools, Bools]:
    """Compare with NaN, which equals itself and is above every number.

    number: whether files may hold numbers; a file with an empty range holds none.
    """
    any_value, never = may_nan | number, np.zeros_like(may_nan)
    return {
        "=": (may_nan, number),
        "<": (number, may_nan),
        "<=": (any_value, never),
        ">": (never, any_value),
        ">=": (may_nan, number),
    }[op]


def _in(values: Sequence[Encoded], stats: ColumnStats) -> tuple[Bools, Bools]:
    lower, upper, may_nan = _bounds(stats)
    listed = to_array(values, lower)
    may_true = meets(listed, listed, lower, upper)
    return may_true, ~(may_true & (lower == upper).astype(np.bool_) & ~may_nan)


def _starts_with(prefix: bytes, stats: ColumnStats) -> tuple[Bools, Bools]:
    """Strings with the prefix are those from the prefix up to, but not including, the next prefix."""
    lower, upper, _ = _bounds(stats)
    # All do where the lower bound is not below the prefix, and the upper bound is below the next.
    return may_start_with(lower, upper, prefix), ~may_start_with(upper, lower, prefix)


def _matches(leaf: _Matches, stats: ColumnStats) -> tuple[Bools, Bools]:
    """Use the start of a pattern, and test the value itself where a file has only one; a range tells nothing else."""
    may_true, may_false = np.ones_like(stats.bounded), np.ones_like(stats.bounded)
    if isinstance(leaf, Like):
        may_true, _ = _starts_with(patterns.prefix_of(leaf), stats)
    test = patterns.test(leaf)
    lower, upper, _ = _bounds(stats)
    for i in np.flatnonzero(stats.bounded & (lower == upper).astype(np.bool_)):
        matches = test(lower[i])
        if matches is not None:
            may_true[i], may_false[i] = matches, not matches
    return may_true, may_false


def _compare_ranges(op: str, left: _Range, right: _Range) -> tuple[Any, Any]:
    """Compare any value of a range with any of another; NaN equals itself and is above every number."""
    if op in (">", ">="):
        return _compare_ranges({">": "<", ">=": "<="}[op], right, left)
    (low, high, nan), (other_low, other_high, other_nan) = left, right
    if op == "=":
        meet = _mask(low <= other_high) & _mask(other_low <= high)
        differ = _mask(low < other_high) | _mask(other_low < high)
        return meet | (nan & other_nan), differ | nan | other_nan
    if op == "<":
        return _mask(low < other_high) | other_nan, _mask(high >= other_low) | nan
    return _mask(low <= other_high) | other_nan, _mask(high > other_low) | nan


def _mask(comparison: Any) -> Bools:
    """Convert to bool: comparisons of object arrays give objects."""
    return np.asarray(comparison, np.bool_)
