"""A few boxes that hold all kept files and that few other files meet: what "induces" a predicate from a set of files.

Kandula, Orr and Chaudhuri, "Pushing data-induced predicates through joins in big-data clusters" (VLDB 2019) does so for
the sides of joins.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from zskip.prune.overlap import to_numbers
from zskip.records import ALL_NULL, Bools, ColumnStats, Ints

_COLUMNS = 4
"""As many columns may tell boxes from other files."""
_SPLITS = 3
"""The places at which a column may split a box: its widest gaps."""
_SAMPLE = 2_000
"""The files outside of the boxes that are counted; of more, evenly spread ones."""


def cover(columns: Sequence[ColumnStats], kept: Bools, boxes: int) -> list[tuple[Ints, tuple[int, ...]]]:
    """Split the kept files into groups whose bounding boxes few other files meet, each with the columns that it needs.

    kept: (files,), some of them; boxes: the most groups. Bounds that are unknown count as endless, and those of
    `ALL_NULL` as none. A group that needs no column is met by as many files without one.

    >>> from zskip.types import DataType
    >>> lower = np.array([0, 10, 20, 30])
    >>> stats = ColumnStats(type=DataType("long"), lower=lower, upper=lower + 9, bounded=np.full(4, True),
    ...                     nulls=np.zeros(4, np.int64), may_nan=np.full(4, False))
    >>> cover([stats], np.array([True, False, False, True]), 2)
    [(array([0]), (0,)), (array([3]), (0,))]
    """
    members, others = np.flatnonzero(kept), np.flatnonzero(~kept)
    others = others[:: max(len(others) // _SAMPLE, 1)]
    ranges = [_ranks(stats) for stats in columns]
    ranked = sorted(range(len(columns)), key=lambda i: _meeting(*ranges[i], members, others))[:_COLUMNS]
    space = _Space([ranges[i] for i in ranked], others)
    groups = [(-space.count(members), 0, members)]
    whole: list[Ints] = []
    ties = 0
    while groups and len(groups) + len(whole) < boxes:
        met, _, group = heapq.heappop(groups)
        halves = space.split(group) if met else None
        if halves is None:
            whole.append(group)
            continue
        for half in halves:
            ties += 1
            heapq.heappush(groups, (-space.count(half), ties, half))
    result = [*whole, *(group for _, _, group in groups)]
    result.sort(key=lambda group: int(group[0]))
    return [(group, tuple(ranked[i] for i in space.needed(group))) for group in result]


def _ranks(stats: ColumnStats) -> tuple[Ints, Ints]:
    """The bounds of all files by their ranks; endless where they are unknown, empty where no value is."""
    lower, upper = to_numbers(stats.lower, stats.upper)
    ranks = np.unique(np.concatenate([lower, upper]), return_inverse=True)[1].astype(np.int64)
    low, high = ranks[: len(lower)], ranks[len(lower) :]
    top, is_empty = len(ranks), stats.nulls == ALL_NULL
    is_known = stats.bounded & ~is_empty
    low = np.where(is_known, low, np.where(is_empty, top, -1))
    high = np.where(is_known & ~stats.may_nan, high, np.where(is_empty, -1, top))
    return low, high


def _meeting(lower: Ints, upper: Ints, kept: Ints, others: Ints) -> int:
    """How many others have a range that meets that of a kept file."""
    begun = np.searchsorted(np.sort(lower[kept]), upper[others], side="right")
    ended = np.searchsorted(np.sort(upper[kept]), lower[others], side="left")
    return int((begun > ended).sum())


class _Space:
    """The boxes of all files, and which of some others a group's bounding box meets."""

    def __init__(self, ranges: Sequence[tuple[Ints, Ints]], others: Ints) -> None:
        self._lower, self._upper = (np.stack(sides, axis=1) for sides in zip(*ranges, strict=True))
        self._others = others

    def count(self, group: Ints, columns: Sequence[int] | None = None) -> int:
        """How many others a group's box meets, by default in all columns."""
        return int(self._met(group, self._others, columns).sum())

    def needed(self, group: Ints) -> tuple[int, ...]:
        """The columns without which a group's box would meet more others."""
        columns = list(range(self._lower.shape[1]))
        met = self.count(group)
        for column in reversed(range(len(columns))):
            fewer = [i for i in columns if i != column]
            if self.count(group, fewer) == met:
                columns = fewer
        return tuple(columns)

    def split(self, group: Ints) -> tuple[Ints, Ints] | None:
        """Two halves whose boxes together meet the fewest others, fewer than one box does; None if there are none."""
        others = self._others[self._met(group, self._others)]
        best, least = None, len(others)
        for column in range(self._lower.shape[1]):
            order = group[np.argsort(self._lower[group, column], kind="stable")]
            gaps = self._lower[order[1:], column] - np.maximum.accumulate(self._upper[order, column])[:-1]
            for position in np.argsort(-gaps, kind="stable")[:_SPLITS].tolist():
                if gaps[position] <= 1:  # No bound of another file lies between.
                    break
                halves = order[: position + 1], order[position + 1 :]
                met = int((self._met(halves[0], others) | self._met(halves[1], others)).sum())
                if met < least:
                    best, least = halves, met
        return None if best is None else (np.sort(best[0]), np.sort(best[1]))

    def _met(self, group: Ints, others: Ints, columns: Sequence[int] | None = None) -> Bools:
        """(others,) mask of those that meet the group's box in all of some columns."""
        met: Bools = np.ones(len(others), np.bool_)
        for i in range(self._lower.shape[1]) if columns is None else columns:
            low, high = self._lower[group, i].min(), self._upper[group, i].max()
            met &= (self._lower[others, i] <= high) & (self._upper[others, i] >= low)
        return met
