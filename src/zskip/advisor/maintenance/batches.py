"""A large rewrite in batches: whole partitions, or files that lie near each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zskip.advisor.maintenance.row_scale import Bounds, scale_of
from zskip.records import Floats, Ints, Snapshot


def split(snapshot: Snapshot, rows: Ints, columns: Sequence[Bounds], *, most: int, linear: bool = False) -> list[Ints]:
    """Divide the files of a table into batches of at most `most` bytes; a larger file is a batch by itself.

    rows: (files,); columns: the known bounds of the clustering columns, possibly none; linear: whether rows are ordered
    by the first column before all others. Small partitions share a batch. A partition larger than a batch is halved,
    repeatedly, along the column whose halves are narrowest, so a batch of an ordered table is a range of it. Returns
    the ascending positions of each batch's files; files without bounds are divided in their original order.
    """
    sizes = snapshot.sizes
    batches: list[Ints] = []
    small_partitions: list[Ints] = []
    for positions in _by_partition(snapshot):
        size = int(sizes[positions].sum())
        if small_partitions and size + sum(int(sizes[files].sum()) for files in small_partitions) > most:
            batches.append(np.concatenate(small_partitions))
            small_partitions = []
        if size <= most:
            small_partitions.append(positions)
            continue
        centers, widths = _file_spans(rows, columns[:1] if linear else columns)
        batches += _join_small(_halve(positions, sizes, centers, widths, most), sizes, most)
    batches += [np.concatenate(small_partitions)] if small_partitions else []
    return [np.sort(positions) for positions in batches]


def _by_partition(snapshot: Snapshot) -> list[Ints]:
    """The files of each partition, oldest first."""
    order = np.lexsort((snapshot.mtimes_ms, snapshot.partition_of))
    starts = np.flatnonzero(np.diff(snapshot.partition_of[order], prepend=-1))
    return np.split(order, starts[1:]) if len(order) else []


def _file_spans(rows: Ints, columns: Sequence[Bounds]) -> tuple[list[Floats], list[Floats]]:
    """For each column (files,): each file's center and width on a scale of rows from 0 to 1."""
    centers, widths = [np.zeros(len(rows))] * (not columns), [np.zeros(len(rows))] * (not columns)
    for column in columns:
        start, end = scale_of(column, rows).spans(column)
        centers.append((start + end) / 2)
        widths.append(end - start)
    return centers, widths


def _halve(positions: Ints, sizes: Ints, centers: Sequence[Floats], widths: Sequence[Floats], most: int) -> list[Ints]:
    """Halve one partition until its batches fit; neighbors stay next to each other."""
    pending, batches = [positions], []
    while pending:
        files = pending.pop()
        size = int(sizes[files].sum())
        if size <= most or len(files) == 1:
            batches.append(files)
            continue
        batch_count = -(-size // most)
        goal = size * (batch_count // 2) / batch_count
        best: tuple[float, Ints, Ints] | None = None
        for center in centers:
            order = files[np.argsort(center[files], kind="stable")]
            # Cut where the halves come nearest to their goal of whole batches.
            halves = np.split(order, [int(np.argmin(np.abs(np.cumsum(sizes[order])[:-1] - goal))) + 1])
            spread = sum(_spread(half, sizes, centers, widths) for half in halves)
            if best is None or spread < best[0]:
                best = spread, halves[0], halves[1]
        pending += [] if best is None else [best[2], best[1]]
    return batches


def _spread(positions: Ints, sizes: Ints, centers: Sequence[Floats], widths: Sequence[Floats]) -> float:
    """Sum the standard deviations of the files' rows over all columns, times the files' bytes."""
    weights = sizes[positions] / max(int(sizes[positions].sum()), 1)
    total = 0.0
    for center, width in zip(centers, widths, strict=True):
        c = center[positions]
        variance = float(weights @ (c * c + width[positions] ** 2 / 12)) - float(weights @ c) ** 2
        total += max(variance, 0.0) ** 0.5
    return total * float(sizes[positions].sum())


def _join_small(batches: Sequence[Ints], sizes: Ints, most: int) -> list[Ints]:
    """Join neighboring batches that fit into one."""
    joined: list[Ints] = []
    for positions in batches:
        if joined and int(sizes[joined[-1]].sum()) + int(sizes[positions].sum()) <= most:
            joined[-1] = np.concatenate([joined[-1], positions])
        else:
            joined.append(positions)
    return joined
