"""Which files may hold one of the first rows of an order, by the bounds of the column it sorts by.

As "Pruning in Snowflake: Working Smarter, Not Harder" (arXiv 2504.11540) does it, section 5: as soon as some files
surely hold enough rows, the last value that those may have bounds what any row of the answer may have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zskip.prune.overlap import ordered
from zskip.records import ALL_NULL, Bools, ColumnStats, Ints


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """The first rows by one column, which may be the first one of several."""

    rows: int
    """How many of them, those that an offset skips included."""
    descending: bool = False
    nulls_first: bool = False
    ties: bool = True
    """Whether rows equal to the last one are wanted, too, since other columns choose among them."""


def top_files(stats: ColumnStats, rows: Ints, order: Order, *, kept: Bools, full: Bools) -> Bools:
    """(files,) mask of the kept files that surely hold the first rows of an order.

    rows: (files,), -1 where unknown; kept, full: (files,) those that may hold matching rows, and those all of whose
    rows match. Takes O(files * log(files)) time.
    """
    first, last, null = _places(stats, rows, order)
    nulls = np.minimum(stats.nulls, rows)
    counted = nulls >= 0
    sure = np.flatnonzero(kept & full & (rows > 0))
    # Rows that surely come at some place or before it: those with a value, and nulls.
    files = np.concatenate([sure, sure])
    places = np.concatenate([np.where(counted, last, np.maximum(last, null))[sure], np.full(len(sure), null)])
    held = np.concatenate([np.where(counted, rows - nulls, rows)[sure], np.where(counted, nulls, 0)[sure]])
    files, places, held = files[held > 0], places[held > 0], held[held > 0]
    by_place = np.lexsort((-held, places))
    enough = int(np.searchsorted(np.cumsum(held[by_place]), order.rows))
    if order.rows <= 0 or enough == len(by_place):
        return kept
    end = places[by_place[enough]]
    chosen: Bools = first <= end
    if not order.ties:
        chosen = first < end
        chosen[files[by_place[: enough + 1]]] = True
    found: Bools = kept & (rows != 0) & chosen
    return found


def _places(stats: ColumnStats, rows: Ints, order: Order) -> tuple[Ints, Ints, int]:
    """For each file the place in the order of its first row, at best, and of its last value, at worst; that of nulls.

    Bounds have places from 1 on, equal ones the same. Spark orders NaN above all numbers, and nulls as it is told.
    """
    ends = np.concatenate(ordered(stats.lower, stats.upper))
    _, ranks = np.unique(ends, return_inverse=True)
    lower, upper = np.split(ranks.reshape(-1).astype(np.int64) + 1, 2)
    most = len(ends) + 1
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
    """(files,) mask of as few kept files as surely hold so many matching rows; all the kept ones where none do.

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
