"""What the statistics of a column say of one leaf of a predicate, for all files at once.

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
from zskip.records import ALL_NULL, Bools, ColumnStats, Ints
from zskip.types import Encoded

_Matches = EndsWith | Contains | Like
_Valued = Compare | In | StartsWith | _Matches


class StatsSource(Protocol):
    """What is known of the files of one snapshot."""

    @property
    def rows(self) -> Ints:
        """(files,) rows of each file, -1 where unknown."""

    def column(self, path: tuple[str, ...]) -> ColumnStats | None:
        """What is known of a column; None where nothing is."""


def evaluate(leaf: TermLeaf, stats: ColumnStats, rows: Ints) -> Outcomes:
    """Say for each file whether the leaf may be true, false or null for some row.

    rows: (files,), -1 where unknown.
    """
    occupied, with_value, may_null = presence(stats, rows)
    if isinstance(leaf, IsNull):
        return Outcomes(may_null, with_value, np.zeros_like(occupied))
    may_true, may_false = (np.asarray(mask, np.bool_) for mask in _of_values(leaf, stats))
    unknown = ~stats.bounded
    if isinstance(leaf, Compare) and leaf.value != leaf.value:
        unknown = np.zeros_like(unknown)  # Whether values are NaN is known without bounds.
    return Outcomes(with_value & (may_true | unknown), with_value & (may_false | unknown), may_null)


def evaluate_terms(leaf: CompareTerms, left: ColumnStats, right: ColumnStats, rows: Ints) -> Outcomes:
    """Say the same of two terms of one type, compared row by row.

    rows: (files,), -1 where unknown.
    """
    _, left_value, left_null = presence(left, rows)
    _, right_value, right_null = presence(right, rows)
    with_value = left_value & right_value
    if leaf.left == leaf.right:
        equal = with_value if "=" in leaf.op else np.zeros_like(with_value)
        return Outcomes(equal, with_value & ~equal, left_null)
    may_true, may_false = _compare_terms(leaf.op, left, right)
    unknown = ~(left.bounded & right.bounded)
    return Outcomes(with_value & (may_true | unknown), with_value & (may_false | unknown), left_null | right_null)


def presence(stats: ColumnStats, rows: Ints) -> tuple[Bools, Bools, Bools]:
    """For each file whether it may have rows, rows with a value, and rows with null."""
    occupied = rows != 0
    all_null = (stats.nulls == ALL_NULL) | ((rows >= 0) & (stats.nulls >= rows))
    return occupied, occupied & ~all_null, occupied & (stats.nulls != 0)


def _of_values(leaf: _Valued, stats: ColumnStats) -> tuple[Any, Any]:
    """Whether some value that is not null may make the leaf true, and false; right where the column is bounded."""
    if isinstance(leaf, Compare):
        return _compare(leaf.op, leaf.value, stats)
    if isinstance(leaf, In):
        return _in(leaf.values, stats)
    if isinstance(leaf, StartsWith):
        return _starts_with(leaf.prefix, stats)
    return _matches(leaf, stats)


def _ends(stats: ColumnStats) -> tuple[Any, Any, Any]:
    """Lower and upper bounds and `may_nan`; untyped, since arrays of bytes compare as objects."""
    return stats.lower, stats.upper, stats.may_nan


def _compare(op: str, value: Any, stats: ColumnStats) -> tuple[Bools, Bools]:
    lower, upper, may_nan = _ends(stats)
    if isinstance(value, float) and math.isnan(value):
        return _compare_with_nan(op, may_nan, ~stats.bounded | _mask(lower <= upper))
    value = _scalar(value)
    if op == "=":
        return (lower <= value) & (value <= upper), (lower < value) | (value < upper) | may_nan
    if op == "<":
        return lower < value, (upper >= value) | may_nan
    if op == "<=":
        return lower <= value, (upper > value) | may_nan
    if op == ">":
        return (upper > value) | may_nan, lower <= value
    return (upper >= value) | may_nan, lower < value


def _scalar(value: Encoded) -> Any:
    """A value to compare with arrays: NumPy takes bare `bytes` for text that ends before its trailing zeros."""
    if not isinstance(value, bytes):
        return value
    wrapped = np.empty((), np.object_)
    wrapped[()] = value
    return wrapped


def _compare_with_nan(op: str, may_nan: Bools, number: Bools) -> tuple[Bools, Bools]:
    """Every number is below NaN, and NaN is equal to NaN.

    number: whether files may hold numbers; where the range is empty, they hold none.
    """
    any_value, no = may_nan | number, np.zeros_like(may_nan)
    return {
        "=": (may_nan, number),
        "<": (number, may_nan),
        "<=": (any_value, no),
        ">": (no, any_value),
        ">=": (may_nan, number),
    }[op]


def _in(values: Sequence[Encoded], stats: ColumnStats) -> tuple[Bools, Bools]:
    if not values:
        return np.zeros_like(stats.bounded), np.ones_like(stats.bounded)
    lower, upper, may_nan = _ends(stats)
    listed = np.empty(len(values), lower.dtype)
    listed[:] = values
    first = np.searchsorted(listed, lower)
    may_true = (first < len(listed)) & (listed[np.minimum(first, len(listed) - 1)] <= upper).astype(np.bool_)
    return may_true, ~(may_true & (lower == upper).astype(np.bool_) & ~may_nan)


def _starts_with(prefix: bytes, stats: ColumnStats) -> tuple[Bools, Bools]:
    """Strings that start with the prefix are those from it up to, but without, the next prefix."""
    lower, upper, _ = _ends(stats)
    after = patterns.next_prefix(prefix)
    none = np.zeros_like(stats.bounded)
    low_above = none if after is None else (lower >= _scalar(after)).astype(np.bool_)
    high_above = none if after is None else (upper >= _scalar(after)).astype(np.bool_)
    start = _scalar(prefix)
    low_has = (lower >= start).astype(np.bool_) & ~low_above
    high_has = (upper >= start).astype(np.bool_) & ~high_above
    return (upper >= start).astype(np.bool_) & ~low_above, ~(low_has & high_has)


def _matches(leaf: _Matches, stats: ColumnStats) -> tuple[Bools, Bools]:
    """A range says nothing of what is inside a string, but for the start of a pattern and where one value is left."""
    may_true, may_false = np.ones_like(stats.bounded), np.ones_like(stats.bounded)
    if isinstance(leaf, Like):
        may_true, _ = _starts_with(patterns.literal_prefix(leaf.pattern, leaf.escape), stats)
    test = patterns.test(leaf)
    lower, upper, _ = _ends(stats)
    for i in np.flatnonzero(stats.bounded & (lower == upper).astype(np.bool_)):
        found = test(lower[i])
        if found is not None:
            may_true[i], may_false[i] = found, not found
    return may_true, may_false


def _compare_terms(op: str, left: ColumnStats, right: ColumnStats) -> tuple[Bools, Bools]:
    if op in (">", ">="):
        return _compare_terms({">": "<", ">=": "<="}[op], right, left)
    (low, high, nan), (other_low, other_high, other_nan) = _ends(left), _ends(right)
    if op == "=":
        meet = (low <= other_high) & (other_low <= high)
        one = (low == high) & (other_low == other_high) & (low == other_low)
        return _mask(meet) | (nan & other_nan), ~_mask(one) | nan | other_nan
    if op == "<":
        return _mask(low < other_high) | other_nan, _mask(high >= other_low) | nan
    return _mask(low <= other_high) | other_nan, _mask(high > other_low) | nan


def _mask(found: Any) -> Bools:
    """Comparisons of arrays of objects give objects."""
    return np.asarray(found, np.bool_)
