"""A column's values on a scale of rows: the share of rows below a value, estimated from the bounds of files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from zskip.layout.ranks import position
from zskip.layout.workload import Ranks
from zskip.records import Bools, Floats, Ints, Values

_ENDPOINTS = 16_384
"""Ends of files to look at; of more, a random sample."""
_POINTS = 4_096
_SELDOM = 1e-4
"""Weight of a file's end that is not among a layout's bounds, which tell the distribution."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Bounds:
    """The bounds of one clustering column in each file; arrays of (files,)."""

    lower: Values
    upper: Values
    bounded: Bools
    splits: Values | None = None
    """Quantiles of the rows when the table was clustered, which define "evenly"; None if unknown."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Scale:
    """Values in order, and the share of rows below each."""

    points: Values
    """Distinct, ascending."""
    below: Floats
    """(points + 1,): share of rows below each point, and 1."""

    def ranks(self, column: Bounds) -> tuple[Ranks, Ranks]:
        """The first and last point that each file may hold; all points if its bounds are unknown."""
        bounded = column.bounded
        first = np.zeros(len(bounded), np.int32)
        last = np.full(len(bounded), max(len(self.points) - 1, 0), np.int32)
        if len(self.points):
            low = np.searchsorted(self.points, column.lower[bounded], side="right") - 1
            high = np.searchsorted(self.points, column.upper[bounded], side="left")
            first[bounded] = np.maximum(low, 0)
            last[bounded] = np.minimum(np.maximum(high, first[bounded]), len(self.points) - 1)
        return first, last

    def share_below(self, value: Any, *, after: bool) -> float:
        """The share of rows below a value, or up to it if `after`; 0 and 1 without known bounds."""
        if not len(self.points):
            return float(after)
        return float(self.below[position(self.points, value, "right" if after else "left")])

    def spans(self, column: Bounds) -> tuple[Floats, Floats]:
        """The start and end of files, from 0 to 1: the share of rows below them, and up to their ends."""
        if not len(self.points):
            return np.zeros(len(column.bounded)), np.ones(len(column.bounded))
        first, last = self.ranks(column)
        return self.below[first], self.below[last + 1]


def scale_of(column: Bounds, rows: Ints) -> Scale:
    """Spread each file's rows evenly between its bounds over a column's values; rows: (files,)."""
    points, weights = _points(column)
    if not len(points):
        return Scale(points=points, below=np.array([0.0]))
    scale = Scale(points=points, below=np.zeros(len(points) + 1))
    first, last = (ranks[column.bounded] for ranks in scale.ranks(column))
    ahead = np.concatenate([[0.0], np.cumsum(weights)])
    # The density of each file's rows over its points, summed by the files' starts and ends.
    density = rows[column.bounded] / (ahead[last + 1] - ahead[first])
    change = np.bincount(first, density, len(points) + 1) - np.bincount(last + 1, density, len(points) + 1)
    shares = weights * np.maximum(np.cumsum(change)[:-1], 0.0)
    total = shares.sum()
    shares = shares / total if total > 0 else weights / weights.sum()
    return Scale(points=points, below=np.concatenate([[0.0], np.cumsum(shares)]))


def _points(column: Bounds) -> tuple[Values, Floats]:
    bounds = column.splits
    ends = np.concatenate([column.lower[column.bounded], column.upper[column.bounded]])
    if len(ends) > _ENDPOINTS:
        # The outermost ends stay: all rows lie between them.
        chosen = np.random.default_rng(0).choice(len(ends), _ENDPOINTS, replace=False)
        ends = ends[np.concatenate([chosen, [ends.argmin(), ends.argmax()]])]
    ends = np.unique(ends)
    if len(ends) > _POINTS:
        ends = ends[np.unique(np.linspace(0, len(ends) - 1, _POINTS).astype(np.int64))]
    if bounds is None or not len(bounds) or bounds.dtype != ends.dtype:
        return cast(Values, ends), np.ones(len(ends))
    points = np.unique(np.concatenate([bounds, ends]))
    known = np.searchsorted(bounds, points)
    is_bound = bounds[np.minimum(known, len(bounds) - 1)] == points
    return cast(Values, points), np.where(is_bound, 1.0, _SELDOM)
