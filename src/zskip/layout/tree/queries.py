"""The queries that a tree is grown for, and which of them a box of rows meets."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import cast

import numpy as np

from zskip.layout.workload import ANY_UPPER, Workload
from zskip.records import Bools, Floats, Ints

FREE_LOW, FREE_HIGH = -2, 2 * ANY_UPPER


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Box:
    """For each column the first and the last position: twice a value's rank, odd between two sampled values."""

    low: Ints
    high: Ints


class TreeQueries:
    """A workload over positions; a column whose nulls are queried has a second one, 0 for values and 1 for nulls."""

    def __init__(self, workload: Workload) -> None:
        is_empty = workload.upper < workload.lower  # between two sampled values
        self.lower: Ints = 2 * workload.lower.astype(np.int64) - is_empty
        self.upper: Ints = 2 * workload.upper.astype(np.int64) + is_empty
        starts = workload.starts
        lengths = np.diff(np.append(starts, len(workload)))
        self._owners: Ints = np.repeat(np.arange(len(starts)), lengths)
        self._weights: Floats = np.add.reduceat(workload.weights, starts) if len(starts) else workload.weights
        self.null_columns: list[int] = []
        if workload.nulls is not None and workload.nulls.any():
            self.null_columns = np.flatnonzero(workload.nulls.any(axis=0)).tolist()
            only_null = workload.nulls[:, self.null_columns]
            self.lower = np.column_stack([self.lower, np.where(only_null, 2, FREE_LOW)])
            self.upper = np.column_stack([self.upper, np.where(only_null, 2, FREE_HIGH)])
        self._texts = workload.texts

    def __len__(self) -> int:
        return len(self._owners)

    def ends(self, queries: Ints, column: int) -> tuple[Ints, Ints]:
        """The lowest ranks that some queries ask for in a column, and the lowest beyond them."""
        lower, upper = self.lower[queries, column], self.upper[queries, column]
        return (lower[lower >= 0] + 1) >> 1, (upper[upper < FREE_HIGH] >> 1) + 1

    def met(self, queries: Ints, box: Box) -> Bools:
        """Which of some queries meet a box."""
        return cast(Bools, ((self.lower[queries] <= box.high) & (self.upper[queries] >= box.low)).all(axis=1))

    def helped(self, queries: Ints, box: Box) -> Ints:
        """Those of some queries that do not ask for all of a box, which no cut inside it would help."""
        covers: Bools = np.all((self.lower[queries] <= box.low) & (self.upper[queries] >= box.high), axis=1)
        return queries[~self._is_owned(queries, covers)]

    def _is_owned(self, queries: Ints, chosen: Bools) -> Bools:
        """Which of some ranges belong to the same query as any that is chosen."""
        owners = self._owners[queries]
        is_chosen = np.zeros(len(self._weights), np.bool_)
        is_chosen[owners[chosen]] = True
        return cast(Bools, is_chosen[owners])

    def missing_weights(self, queries: Ints, meets: Bools) -> Floats:
        """The weight of each query none of whose ranges meets a side, at the first of its ranges, and 0 else."""
        owners = self._owners[queries]
        counts = ~self._is_owned(queries, meets)
        counts[1:] &= owners[1:] != owners[:-1]
        return np.where(counts, self._weights[owners], 0.0)

    def missing(self, queries: Ints, column: int, cuts: Ints) -> tuple[Floats, Floats]:
        """Weight of the queries that miss the left and the right of each cut, by this column alone."""
        lower, upper = self.lower[queries, column], self.upper[queries, column]
        weights = self._weights[self._owners[queries]]
        return (
            weights.sum() - _weight_up_to(lower, weights, 2 * cuts - 2),
            _weight_up_to(upper, weights, 2 * cuts - 2),
        )

    def reason(self, queries: Ints, gains: Floats) -> str:
        """The kind of query that gains most, in words."""
        if not self._texts or not gains.any():
            return ""
        by_text: dict[str, float] = defaultdict(float)
        for query, gain in zip(queries.tolist(), gains.tolist(), strict=True):
            by_text[self._texts[query]] += gain
        return max(by_text, key=lambda text: by_text[text])


def _weight_up_to(ends: Ints, weights: Floats, limits: Ints) -> Floats:
    order = np.argsort(ends)
    summed = np.concatenate([[0.0], np.cumsum(weights[order])])
    return cast(Floats, summed[np.searchsorted(ends[order], limits, side="right")])
