"""Ranks: the position of a value among bounds sampled from its column, stretched to a number of bits."""

from __future__ import annotations

from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from zskip.records import Bools, Floats, Ints, Values

BOUNDS = 4096
"""A column has fewer bounds than this, so that a rank takes at most 12 bits."""
_SPAN = 8
"""Up to so many integers between the bounds for each value a table is faster than binary searches."""


def clean(values: Values, nulls: Bools) -> Values:
    """Give every null the same harmless content and -0.0 the content of 0.0.

    values, nulls: (rows,).
    """
    if values.dtype == object:
        return np.where(nulls, b"", values)
    if values.dtype == np.float64:
        return np.where(nulls, 0.0, values) + 0.0
    return cast(Ints, np.where(nulls, 0, values))


def bounds_of(values: Values, nulls: Bools, weights: Floats, limit: int = BOUNDS) -> Values:
    """Split a column at fewer than `limit` of its sampled values, which come back distinct and ascending.

    Where the rows weigh the same the bounds are quantiles (every value, where there are few); else the steps of the
    cumulative weight. NaN and the lowest value are never bounds: nothing lies above the one or below the other.

    >>> bounds_of(np.array([3, 1, 2, 2]), np.zeros(4, bool), np.ones(4)).tolist()
    [2, 3]
    """
    values = clean(values, nulls)
    used = ~nulls & (values == values)
    values, weights = values[used], weights[used]
    # NumPy's `unique` hashes integers since 2.3: twenty times the price of a sort, where nearly all of them differ.
    ordered = np.sort(values)
    distinct = ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]
    if len(distinct) <= limit:
        return cast(Values, distinct[1:])
    if np.ptp(weights) == 0.0:
        bounds = np.unique(ordered[np.arange(1, limit) * len(ordered) // limit])
    else:
        bounds = determine_bounds(values, weights, limit)
    return cast(Values, bounds[bounds != distinct[0]])


def determine_bounds(values: Values, weights: Floats, parts: int) -> Values:
    """Take a bound wherever the cumulative weight passes one of `parts` equal steps, skipping repeated values.

    values: (rows,), neither null nor NaN; weights: (rows,). Returns at most parts - 1 distinct values, ascending. The
    process of Spark's `RangePartitioner.determineBounds`, which Delta and Hudi use too; there a value equal to a bound
    belongs below it.

    >>> determine_bounds(np.arange(10), np.ones(10), 5).tolist()
    [1, 3, 5, 7]
    """
    distinct, of = np.unique(values, return_inverse=True)
    cumulative = np.cumsum(np.bincount(of.ravel(), weights, len(distinct)))
    picks: list[int] = []
    at = 0
    while at < len(distinct) and len(picks) < parts - 1:
        target = cumulative[-1] / parts * (len(picks) + 1) * (1 - 1e-12)
        at = max(at, int(np.searchsorted(cumulative, target)))
        picks.append(at)
        at += 1
    return cast(Values, distinct[picks])


def rank(values: Values, nulls: Bools, bounds: Values) -> Ints:
    """Count the bounds at or below each value; null ranks last, at `len(bounds) + 1`, and NaN above all numbers.

    >>> rank(np.array([1, 2, 9, 0]), np.array([False, False, False, True]), np.array([2, 5])).tolist()
    [0, 1, 2, 3]
    """
    values = clean(values, nulls)
    if values.dtype == np.int64 and len(bounds) and int(bounds[-1]) - int(bounds[0]) < _SPAN * len(values):
        ranks = _rank_by_table(cast(Ints, values), cast(Ints, bounds))
    else:
        ranks = np.searchsorted(bounds, values, side="right").astype(np.int64)
    ranks[nulls] = len(bounds) + 1
    return ranks


def _rank_by_table(values: Ints, bounds: Ints) -> Ints:
    """Rank integers by one table lookup each; the table has an entry for each integer between the bounds."""
    # The lowest integer of all is never a bound.
    below = int(bounds[0]) - 1
    table = np.concatenate([[0], np.repeat(np.arange(1, len(bounds)), np.diff(bounds)), [len(bounds)]])
    return cast(Ints, table[np.clip(values, below, bounds[-1]) - below])


def position(values: Values, value: Any, side: Literal["left", "right"]) -> int:
    """Find where a value belongs among ascending ones; NumPy takes bare `bytes` for text without trailing zeros."""
    if values.dtype == object:
        wrapped = np.empty((), object)
        wrapped[()] = value
        value = wrapped
    return int(np.searchsorted(values, value, side))


def needed_bits(bounds: int, null_rank: bool) -> int:
    """Number of bits that tell all ranks of a column apart.

    >>> needed_bits(3, null_rank=False), needed_bits(3, null_rank=True)
    (2, 3)
    """
    return (bounds + int(null_rank)).bit_length()


def rank_codes(bounds: int, null_rank: bool, bits: int) -> Ints:
    """Stretch the ranks of a column evenly over `bits` bits, so that columns of few values take part equally.

    Returns (bounds + 2,), one code for each rank, null's last. Where no null was sampled (`null_rank` false) it gets
    the highest code and takes no share from the values.

    >>> rank_codes(1, False, 4).tolist(), rank_codes(1, True, 4).tolist()
    ([0, 8, 15], [0, 5, 10])
    """
    levels = bounds + 1 + int(null_rank)
    codes = (np.arange(bounds + 2, dtype=np.int64) << bits) // levels
    if not null_rank:
        codes[-1] = (1 << bits) - 1
    return codes


def dense_ranks(values: Values, nulls: Bools) -> tuple[Values, npt.NDArray[np.int32]]:
    """The distinct values of a column, ascending, and each row's index among them, -1 for null."""
    cleaned = clean(values, nulls)
    ranks = np.full(len(values), -1, np.int32)
    distinct, inverse = np.unique(cleaned[~nulls], return_inverse=True)
    ranks[~nulls] = inverse.ravel()
    return cast(Values, distinct), ranks
