"""Sorted values, and strings with a prefix, against many intervals at once; and values as a few intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from zskip.predicate.patterns import next_prefix
from zskip.records import Bools
from zskip.types import Encoded


def meets(lows: Any, highs: Any, lower: Any, upper: Any) -> Bools:
    """(n,) whether each interval from `lower` to `upper` meets one of those from `lows` to `highs`, ends included.

    lows, highs: of ascending, disjoint intervals; both are the same array for single values.

    >>> values = np.array([3, 7])
    >>> meets(values, values, np.array([1, 4, 7]), np.array([2, 9, 7]))
    array([False,  True,  True])
    """
    if not len(lows):
        return np.zeros(len(lower), np.bool_)
    first = np.searchsorted(highs, lower)
    return np.asarray((first < len(lows)) & (lows[np.minimum(first, len(lows) - 1)] <= upper), np.bool_)


def may_start_with(lower: Any, upper: Any, prefix: bytes) -> Bools:
    """(n,) whether some string from `lower` to `upper` may start with a prefix."""
    after = next_prefix(prefix)
    is_below = np.ones(len(lower), np.bool_) if after is None else lower < to_array((after,), lower)
    return np.asarray((upper >= to_array((prefix,), upper)) & is_below, np.bool_)


def to_array(values: Sequence[Encoded], like: Any) -> Any:
    """Convert values to an array of the type of `like`; `bytes` must be objects, and -0.0 becomes 0.0."""
    array = np.empty(len(values), like.dtype)
    array[:] = values
    return array + 0.0 if array.dtype == np.float64 else array


def merge_nearest(lows: Any, highs: Any, most: int) -> tuple[Any, Any]:
    """Merge the nearest of ascending, disjoint intervals until there are at most so many.

    >>> merge_nearest(np.array([1, 2, 9]), np.array([1, 2, 9]), 2)
    (array([1, 9]), array([2, 9]))
    """
    if len(lows) <= most:
        return lows, highs
    gaps = _gaps(lows[1:], highs[:-1])
    split = np.sort(np.argpartition(gaps, len(gaps) - most)[len(gaps) - most + 1 :])
    return lows[np.concatenate([[0], split + 1])], highs[np.concatenate([split, [len(highs) - 1]])]


def _gaps(after: Any, before: Any) -> Any:
    """Measure the gap before each value; for bytes, by the first 8 after the common prefix."""
    if after.dtype == np.int64:
        return after.view(np.uint64) - before.view(np.uint64)  # Differences of int64 may not fit into int64.
    if after.dtype == np.object_:
        ends = enumerate(zip(before[0], after[-1], strict=False))
        common = next((i for i, (first, last) in ends if first != last), len(before[0]))
        return _leading(after, common) - _leading(before, common)
    with np.errstate(over="ignore"):
        return after - before


def _leading(values: Any, start: int) -> Any:
    heads = b"".join(value[start : start + 8].ljust(8, b"\0") for value in values)
    return np.frombuffer(heads, ">u8").astype(np.uint64)
