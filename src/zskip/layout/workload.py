"""Workloads: the queries a layout is fitted to, as boxes over the dense ranks of a sample's values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from zskip.records import Bools, Floats, Ints, Values

Ranks = npt.NDArray[np.int32]

UNSEEN = 0.2
"""Default share of future queries that a workload does not show."""
ANY_LOWER = -1
"""Lower end of a column that a query leaves free: it also meets files that hold only nulls."""
ANY_UPPER = int(np.iinfo(np.int32).max)
_CHUNK_BOXES = 1 << 15


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Workload:
    """Queries, each a closed range of dense ranks for every column it names."""

    lower: Ranks
    """(queries, columns), `ANY_LOWER` where the query leaves the column free."""
    upper: Ranks
    """(queries, columns), `ANY_UPPER` where the query leaves the column free."""
    weights: Floats
    """(queries,), their sum is 1."""
    owners: Ints | None = None
    """(queries,) ascending: ranges of one number form one query, which reads a file if any range does and has the sum
    of their weights; None if each range is a query."""
    nulls: Bools | None = None
    """(queries, columns) whether the query selects only nulls; lower and upper are free there."""
    ends: tuple[tuple[Values, Floats], ...] = ()
    """For each column the values at which queries start, or right after which they end, ascending, with weights."""
    texts: tuple[str, ...] = ()
    """The kind of each query, in words; empty if unknown."""

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def starts(self) -> Ints:
        """The position of each query's first range."""
        owners = np.arange(len(self)) if self.owners is None else self.owners
        return np.flatnonzero(np.diff(owners, prepend=-1))


def synthetic_workload(ranks: Sequence[Ranks], *, queries: int = 1000, seed: int = 0) -> Workload:
    """Make a workload if none is known: ranges of 0.1 to 20 % of the rows (log-uniform) on one or two columns.

    ranks: for each column the dense ranks of a sample, -1 for null. A range never matches a null.
    """
    random = np.random.default_rng(seed)
    columns = len(ranks)
    ordered = [np.sort(column[column >= 0]) for column in ranks]
    lower = np.full((queries, columns), ANY_LOWER, np.int32)
    upper = np.full((queries, columns), ANY_UPPER, np.int32)
    for query in range(queries):
        named = 2 if columns > 1 and random.random() < 0.5 else 1
        for column in random.choice(columns, named, replace=False):
            share = np.exp(random.uniform(np.log(0.001), np.log(0.2)))
            start = random.random() * (1 - share)
            last = len(ordered[column]) - 1
            if last >= 0:
                lower[query, column] = ordered[column][int(start * last)]
                upper[query, column] = ordered[column][int((start + share) * last)]
    return Workload(lower=lower, upper=upper, weights=np.full(queries, 1 / max(queries, 1)))


def column_weights(workload: Workload, ranks: Sequence[Ranks]) -> tuple[float, ...]:
    """Weigh each column by the queries that name it, each by the share of the rows that its other ranges leave.

    ranks: for each column the dense ranks of a sample. The largest weight is 1.

    >>> queries = Workload(lower=np.array([[3, -1], [3, 0]]), upper=np.array([[3, ANY_UPPER], [3, 4]]),
    ...                    weights=np.array([0.5, 0.5]))
    >>> column_weights(queries, [np.arange(10), np.arange(10)])
    (1.0, 0.0667)
    """
    shares = np.ones(workload.lower.shape)
    for column, (lower, upper) in enumerate(zip(workload.lower.T, workload.upper.T, strict=True)):
        ordered = np.sort(ranks[column])
        rows = np.searchsorted(ordered, upper, "right") - np.searchsorted(ordered, lower, "left")
        shares[:, column] = rows / max(len(ordered), 1)
    named = (workload.lower != ANY_LOWER) | (workload.upper != ANY_UPPER)
    shares[~named] = 1.0
    weights = [
        float(workload.weights[named[:, column]] @ np.delete(shares, column, 1)[named[:, column]].prod(axis=1))
        for column in range(len(ranks))
    ]
    most = max(weights, default=0.0)
    return tuple(round(weight / most, 4) for weight in weights) if most > 0 else ()


class Touch:
    """Computes for many boxes at once the share of a workload's queries that they meet.

    For each column the boxes' ends are reduced to classes: the number of distinct lower (upper) ends of queries at or
    below (below) them. A table of bit sets gives the queries that meet a class; a box meets the AND over its columns.
    """

    def __init__(self, workload: Workload) -> None:
        queries, columns = workload.lower.shape
        self._words = max(1, -(-queries // 64))
        self._starts = [np.unique(workload.lower[:, d]) for d in range(columns)]
        self._ends = [np.unique(workload.upper[:, d]) for d in range(columns)]
        self._started = [self._bits(workload.lower[:, d] < _after(self._starts[d])[:, None]) for d in range(columns)]
        self._unended = [self._bits(workload.upper[:, d] > _before(self._ends[d])[:, None]) for d in range(columns)]
        padded = np.zeros(self._words * 64)
        padded[:queries] = workload.weights
        set_bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
        self._byte_weights = (set_bits @ padded.reshape(-1, 8).T).T.copy()

    def classes(self, lowest: Sequence[Ranks], highest: Sequence[Ranks]) -> tuple[list[Ranks], list[Ranks]]:
        """Reduce the lowest and highest ranks of boxes; both are monotone, so boxes of classes merge like boxes."""
        low = [np.searchsorted(e, x, "left").astype(np.int32) for e, x in zip(self._ends, lowest, strict=True)]
        high = [np.searchsorted(s, x, "right").astype(np.int32) for s, x in zip(self._starts, highest, strict=True)]
        return low, high

    def share(self, low: Sequence[Ranks], high: Sequence[Ranks]) -> Floats:
        """Share of the workload, by weight, that meets each box; classes of (boxes,) for each column."""
        shares = np.empty(len(low[0]))
        for start in range(0, len(shares), _CHUNK_BOXES):
            stop = start + _CHUNK_BOXES
            meets = self._meets([x[start:stop] for x in low], [x[start:stop] for x in high])
            chunk = shares[start:stop]
            chunk[:] = 0.0
            for byte, weights in zip(meets.view(np.uint8).T, self._byte_weights, strict=True):
                chunk += weights[byte]
        return shares

    def _meets(self, low: Sequence[Ranks], high: Sequence[Ranks]) -> npt.NDArray[np.uint64]:
        meets = self._started[0][high[0]]
        meets &= self._unended[0][low[0]]
        for d in range(1, len(low)):
            meets &= self._started[d][high[d]]
            meets &= self._unended[d][low[d]]
        return meets

    def _bits(self, table: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint64]:
        padded = np.zeros((len(table), self._words * 64), np.bool_)
        padded[:, : table.shape[1]] = table
        return np.packbits(padded, axis=1, bitorder="little").view(np.uint64)


def _after(ends: Ranks) -> npt.NDArray[np.int64]:
    """For each class of a box's highest rank the first start that it does not reach."""
    return np.append(ends.astype(np.int64), 2**32)


def _before(ends: Ranks) -> npt.NDArray[np.int64]:
    """For each class of a box's lowest rank the last end that it does not reach."""
    return np.append(np.int64(-2), ends.astype(np.int64))
