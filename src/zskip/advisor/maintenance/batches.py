"""A large rewrite in batches: whole partitions, or files that lie near each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zskip.advisor.maintenance.planner import Bounds
from zskip.advisor.maintenance.row_scale import scale_of
from zskip.records import Floats, Ints, Snapshot


def split(snapshot: Snapshot, rows: Ints, columns: Sequence[Bounds], *, most: int, linear: bool = False) -> list[Ints]:
    """Divide the files of a table into batches of at most `most` bytes, a file that is larger being one by itself.

    rows: (files,); columns: what is known of the clustering columns, none where nothing is; linear: whether rows are
    ordered by the first column before all others. Partitions stay whole, several small ones together, but for those
    that are larger than a batch: such a one is halved along the column whose halves are the narrowest, again and again.
    So a batch of a table that is in some order already is a range of it. Returns the places of each batch's files,
    ascending; files of which nothing is known are divided as they came.
    """
    sizes = snapshot.sizes
    found: list[Ints] = []
    together: list[Ints] = []
    for places in _by_partition(snapshot):
        size = int(sizes[places].sum())
        if together and size + sum(int(sizes[held].sum()) for held in together) > most:
            found.append(np.concatenate(together))
            together = []
        if size <= most:
            together.append(places)
            continue
        centers, widths = _spans(rows, columns[:1] if linear else columns)
        found += _joined(_halved(places, sizes, centers, widths, most), sizes, most)
    found += [np.concatenate(together)] if together else []
    return [np.sort(places) for places in found]


def _by_partition(snapshot: Snapshot) -> list[Ints]:
    """The files of each partition, in the order in which they came."""
    order = np.lexsort((snapshot.mtimes_ms, snapshot.partition_of))
    starts = np.flatnonzero(np.diff(snapshot.partition_of[order], prepend=-1))
    return np.split(order, starts[1:]) if len(order) else []


def _spans(rows: Ints, columns: Sequence[Bounds]) -> tuple[list[Floats], list[Floats]]:
    """For each column (files,): the middle of each file, and how wide it is, on a scale of rows from 0 to 1."""
    centers, widths = [np.zeros(len(rows))] * (not columns), [np.zeros(len(rows))] * (not columns)
    for c in columns:
        start, end = scale_of(c.lower, c.upper, c.bounded, rows, c.splits).spans(c.lower, c.upper, c.bounded)
        centers.append((start + end) / 2)
        widths.append(end - start)
    return centers, widths


def _halved(places: Ints, sizes: Ints, centers: Sequence[Floats], widths: Sequence[Floats], most: int) -> list[Ints]:
    """Batches of one partition, those next to each other in the order in which they were divided."""
    todo, found = [places], []
    while todo:
        held = todo.pop()
        size = int(sizes[held].sum())
        if size <= most or len(held) == 1:
            found.append(held)
            continue
        pieces = -(-size // most)
        goal = size * (pieces // 2) / pieces
        best: tuple[float, Ints, Ints] | None = None
        for center in centers:
            order = held[np.argsort(center[held], kind="stable")]
            # Where the halves come nearest to as many whole batches each.
            halves = np.split(order, [int(np.argmin(np.abs(np.cumsum(sizes[order])[:-1] - goal))) + 1])
            wide = sum(_spread(half, sizes, centers, widths) for half in halves)
            if best is None or wide < best[0]:
                best = wide, halves[0], halves[1]
        todo += [] if best is None else [best[2], best[1]]
    return found


def _spread(places: Ints, sizes: Ints, centers: Sequence[Floats], widths: Sequence[Floats]) -> float:
    """How far the rows of some files lie apart: the sum over columns of their standard deviation, times their bytes."""
    weights = sizes[places] / max(int(sizes[places].sum()), 1)
    total = 0.0
    for center, width in zip(centers, widths, strict=True):
        c = center[places]
        variance = float(weights @ (c * c + width[places] ** 2 / 12)) - float(weights @ c) ** 2
        total += max(variance, 0.0) ** 0.5
    return total * float(sizes[places].sum())


def _joined(batches: Sequence[Ints], sizes: Ints, most: int) -> list[Ints]:
    """The same, small ones that are next to each other being one."""
    found: list[Ints] = []
    for places in batches:
        if found and int(sizes[found[-1]].sum()) + int(sizes[places].sum()) <= most:
            found[-1] = np.concatenate([found[-1], places])
        else:
            found.append(places)
    return found
