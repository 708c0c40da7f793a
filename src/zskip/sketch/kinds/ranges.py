"""`ranges(k)`: up to k disjoint intervals, for values with gaps or outliers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from zskip.errors import InputError
from zskip.predicate import Compare, Like, StartsWith
from zskip.predicate.patterns import next_prefix, prefix_of
from zskip.sketch.arrays import ArraySketch, Stack, State, equal_values
from zskip.sketch.base import Part
from zskip.sketch.distinct import Distinct
from zskip.sketch.intervals import may_start_with, meets, merge_nearest, to_array
from zskip.sketch.registry import register

_WHILE_READING = 64
"""Intervals kept while a file is read, for each final one."""
_LONGEST = 32
"""Most bytes of a bound."""


@register
@dataclass(frozen=True)
class Ranges(ArraySketch):
    """At most `k` disjoint intervals that cover all values; the nearest neighbors are merged.

    Two arrays: the lower and upper ends, inclusive and ascending.
    """

    kind: ClassVar[str] = "ranges"
    k: int = 8

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int) or not 1 <= self.k <= 1024:
            raise InputError(f"ranges({self.k}): give the number of intervals, from 1 to 1024: ranges(8)")

    def collect(self, distinct: Distinct) -> tuple[Any, ...]:
        return merge_nearest(distinct.values, distinct.values, self.k * _WHILE_READING)

    def union(self, parts: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        lows, highs = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        return merge_nearest(*_merge_overlaps(lows, highs), self.k * _WHILE_READING)

    def finish(self, state: State) -> State:
        lows, highs = merge_nearest(state.arrays[0], state.arrays[1], self.k)
        if lows.dtype == np.object_:
            lows, highs = _merge_overlaps(*_shorten(lows, highs))
        return State((lows, highs), state.nulls, state.nan)

    def is_sound(self, arrays: tuple[Any, ...]) -> bool:
        return len(arrays) == 2 and len(arrays[0]) == len(arrays[1]) and bool(np.all(arrays[0] <= arrays[1]))

    def flags(self, part: Part, stack: Stack) -> Any:
        lows, highs = stack.arrays
        values = equal_values(part)
        if values is not None:
            listed = to_array(values, lows)
            return meets(listed, listed, lows, highs)
        if isinstance(part, Compare):
            value = to_array((part.value,), lows)
            compared = {"<": lows < value, "<=": lows <= value, ">": highs > value, ">=": highs >= value}
            return compared[part.op]
        if isinstance(part, StartsWith | Like):
            return may_start_with(lows, highs, prefix_of(part))
        return None


def _merge_overlaps(lows: Any, highs: Any) -> tuple[Any, Any]:
    """Merge overlapping intervals, in any order, into disjoint ones."""
    if not len(lows):
        return lows, highs
    order = np.argsort(lows, kind="stable")
    lows, highs = lows[order], np.maximum.accumulate(highs[order])
    starts = np.concatenate([[True], (lows[1:] > highs[:-1]).astype(np.bool_)])
    return lows[starts], highs[np.concatenate([starts[1:], [True]])]


def _shorten(lows: Any, highs: Any) -> tuple[Any, Any]:
    """Shorten bounds outward to at most `_LONGEST` bytes."""
    below, above = lows.copy(), highs.copy()
    for i, (low, high) in enumerate(zip(lows, highs, strict=True)):
        below[i] = low[:_LONGEST]
        if len(high) > _LONGEST:
            above[i] = next_prefix(high[:_LONGEST]) or high
    return below, above
