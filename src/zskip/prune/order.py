"""Top-k pruning: finds the files that may hold the first rows of an order, by the bounds of the sort column.

The method follows "Pruning in Snowflake: Working Smarter, Not Harder" (arXiv 2504.11540), section 5: once some files
surely hold enough rows, the last value in them bounds every row of the answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zskip.prune.overlap import to_numbers
from zskip.records import ALL_NULL, Bools, ColumnStats, Ints


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """The first rows by one column, which may be the first of several sort columns."""

    rows: int
    """The number of rows, including those that an offset skips."""
    descending: bool = False
    nulls_first: bool = False
    ties: bool = True
    """Whether rows equal to the last one count, too, since other columns choose among them."""


def top_files(stats: ColumnStats, rows: Ints, order: Order, *, kept: Bools, full: Bools) -> Bools:
    """(files,) mask of the kept files that surely hold the first rows of an order.

    rows: (files,), -1 where unknown; kept: (files,) may hold matching rows; full: (files,) all rows match.
    Takes O(files * log(files)) time.
    """
    first, last, null = _positions(stats, rows, order)
    nulls = np.minimum(stats.nulls, rows)
    counted = nulls >= 0
    sure = np.flatnonzero(kept & full & (rows > 0))
    # Each file surely has so many rows at a position or before it: rows with a value, and rows with null.
    files = np.concatenate([sure, sure])
    positions = np.concatenate([np.where(counted, last, np.maximum(last, null))[sure], np.full(len(sure), null)])
    counts = np.concatenate([np.where(counted, rows - nulls, rows)[sure], np.where(counted, nulls, 0)[sure]])
    files, positions, counts = files[counts > 0], positions[counts > 0], counts[counts > 0]
    by_position = np.lexsort((-counts, positions))
    enough = int(np.searchsorted(np.cumsum(counts[by_position]), order.rows))
    if order.rows <= 0 or enough == len(by_position):
        return kept
    end = positions[by_position[enough]]
    chosen: Bools = first <= end
    if not order.ties:
        chosen = first < end
        chosen[files[by_position[: enough + 1]]] = True
    top: Bools = kept & (rows != 0) & chosen
    return top


def _positions(stats: ColumnStats, rows: Ints, order: Order) -> tuple[Ints, Ints, int]:
    """For each file the best position of its first row and the worst of its last value; the position of nulls.

    Bounds are numbered from 1 on, equal ones alike. Spark orders NaN above all numbers, and nulls as `order` says.
    """
    bounds = np.concatenate(to_numbers(stats.lower, stats.upper))
    _, ranks = np.unique(bounds, return_inverse=True)
    lower, upper = np.split(ranks.reshape(-1).astype(np.int64) + 1, 2)
    most = len(bounds) + 1
    if order.descending:
        lower, upper = most - upper, most - lower
    nan = 0 if order.descending else most
    null = -1 if order.nulls_first else most + 1
    number = stats.bounded & (lower <= upper)
    first, last = np.where(number, lower, most + 1), np.where(number, upper, 0)
    first = np.where(stats.may_nan, np.minimum(first, nan), first)
    last = np.where(stats.may_nan, np.maximum(last, nan), last)
    first, last = np.where(stats.bounded, first, 0), np.where(stats.bounded, last, most)
    first = np.where(stats.nulls != 0, np.minimum(first, null), first)
    all_null = (stats.nulls == ALL_NULL) | ((rows >= 0) & (stats.nulls >= rows))
    return np.where(all_null, null, first), last, null


def enough_files(rows: Ints, limit: int, *, kept: Bools, full: Bools) -> Bools:
    """(files,) mask of the fewest kept files that surely hold `limit` matching rows; all kept files if none do.

    rows: (files,), -1 where unknown; kept, full: as in `top_files`.

    >>> kept = np.ones(3, np.bool_)
    >>> enough_files(np.array([5, 9, 20]), 8, kept=kept, full=np.array([True, True, False])).tolist()
    [False, True, False]
    """
    sure = np.flatnonzero(kept & full & (rows > 0))
    largest = sure[np.argsort(-rows[sure], kind="stable")]
    enough = int(np.searchsorted(np.cumsum(rows[largest]), limit))
    if limit <= 0 or enough == len(largest):
        return kept
    chosen = np.zeros_like(kept)
    chosen[largest[: enough + 1]] = True
    return chosen
