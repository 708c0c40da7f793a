"""Cuts by dynamic program: runs of microcells become files, cut where the fewest queries must read both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from zskip.layout.workload import Ranks, Touch
from zskip.records import Floats, Ints

SMALLEST, LARGEST = 0.5, 1.5
"""The least and most rows of a file, as multiples of its desired rows."""
_TOO_SMALL = 100.0
"""Cost of a file below the smallest size: only runs of one key force it."""
_LAMBDAS = 24
_REFINEMENTS = 2


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Cells:
    """Microcells in key order, the cells of one partition after those of another."""

    size: Floats
    """(cells,), in files: rows divided by the desired rows of a file of the partition."""
    partition: Ints
    """(cells,), ascending from 0 without gaps."""
    files: Ints
    """(partitions,) desired number of files."""
    smallest: float = SMALLEST
    """The least rows of a file, as a multiple of its desired rows."""
    low: Sequence[Ranks]
    """For each column (cells,), as `Touch.classes` gives them."""
    high: Sequence[Ranks]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Segments:
    """Runs of cells that may become a file: those which end in cell j are columns of one row of `cost`."""

    first: Ints
    """(cells,) first cell of the longest run that ends in this cell."""
    cost: npt.NDArray[np.float32]
    """(cells, longest): at [j, o] the cost of the run of o + 1 cells ending in j; inf if it is too large."""
    files: Ints
    """(cells,) files of the cell by itself: more than 1 if it is too large for one."""


def cut_cells(cells: Cells, touch: Touch) -> list[Ints]:
    """Choose for each partition the cells that start its second and later files.

    The runs minimize rows x share of the workload that meets the run's box + lambda for each file; lambda is the
    smallest that yields at most the desired number of files. Returns an ascending array of cell numbers per partition.
    """
    segments = _segments(cells, touch)
    partitions = len(cells.files)
    grid = np.tile(np.concatenate([[0.0], np.geomspace(1e-4, 8.0, _LAMBDAS - 1)]), (partitions, 1))
    for refinement in range(_REFINEMENTS + 1):
        origin, counts = solve(cells, segments, grid)
        enough = np.argmax(counts <= cells.files[:, None], axis=1)
        enough[~(counts <= cells.files[:, None]).any(axis=1)] = _LAMBDAS - 1
        if refinement < _REFINEMENTS:
            rows = np.arange(partitions)
            grid = np.linspace(grid[rows, np.maximum(enough - 1, 0)], grid[rows, enough], _LAMBDAS, axis=1)
    return _backtrack(cells, origin, enough)


def _segments(cells: Cells, touch: Touch) -> _Segments:
    count = len(cells.size)
    before = np.concatenate([[0.0], np.cumsum(cells.size)])
    start_of = np.searchsorted(cells.partition, np.arange(len(cells.files)))[cells.partition]
    reach = np.searchsorted(before, before[1:] - LARGEST - 1e-9)
    first = np.minimum(np.maximum(reach, start_of), np.arange(count))
    longest = int((np.arange(count) - first).max(initial=0)) + 1
    cost = np.full((count, longest), np.inf, np.float32)
    low, high = [x.copy() for x in cells.low], [x.copy() for x in cells.high]
    ends = np.arange(count)
    for offset in range(longest):
        alive = ends - offset >= first[ends]
        ends, low, high = ends[alive], [x[alive] for x in low], [x[alive] for x in high]
        starts = ends - offset
        for d in range(len(low)):
            np.minimum(low[d], cells.low[d][starts], out=low[d])
            np.maximum(high[d], cells.high[d][starts], out=high[d])
        size = before[ends + 1] - before[starts]
        values = np.full(len(ends), _TOO_SMALL)
        fits = size >= cells.smallest - 1e-9
        values[fits] = size[fits] * touch.share([x[fits] for x in low], [x[fits] for x in high])
        cost[ends, offset] = values
    return _Segments(first=first, cost=cost, files=own_files(cells.size))


def own_files(sizes: Floats) -> Ints:
    """The files of each cell by itself: several if a run of one key is too large for one.

    >>> own_files(np.array([0.1, 1.5, 1.6, 3.1])).tolist()
    [1, 1, 2, 3]
    """
    return np.maximum(np.ceil(sizes / LARGEST - 1e-9), 1).astype(np.int64)


def solve(cells: Cells, segments: _Segments, grid: Floats) -> tuple[npt.NDArray[np.int32], Ints]:
    """Solve the program for all lambdas of each partition at once.

    grid: (partitions, lambdas). Returns the first cell of the best run ending in each cell, (cells, lambdas), and the
    number of files in each partition, (partitions, lambdas).
    """
    count, lambdas = len(cells.size), grid.shape[1]
    best = np.zeros((count + 1, lambdas))
    files = np.zeros((count + 1, lambdas), np.int64)
    origin = np.empty((count, lambdas), np.int32)
    counts = np.zeros((len(cells.files), lambdas), np.int64)
    each = np.arange(lambdas)
    backwards = segments.cost[:, ::-1].astype(np.float64)
    longest = backwards.shape[1]
    first, own_files, partition = segments.first.tolist(), segments.files.tolist(), cells.partition.tolist()
    for end in range(count):
        here = partition[end]
        if end and partition[end - 1] != here:
            counts[partition[end - 1]] = files[end]
            best[end] = 0.0
            files[end] = 0
        start = first[end]
        totals = best[start : end + 1] + backwards[end, longest - 1 - (end - start) :, None]
        chosen = totals.argmin(axis=0)
        best[end + 1] = totals[chosen, each] + grid[here]
        chosen += start
        origin[end] = chosen
        files[end + 1] = files[chosen, each] + 1
        if own_files[end] > 1:
            files[end + 1] += own_files[end] - 1
    if count:
        counts[partition[-1]] = files[count]
    return origin, counts


def _backtrack(cells: Cells, origin: npt.NDArray[np.int32], chosen: Ints) -> list[Ints]:
    edges = np.searchsorted(cells.partition, np.arange(len(cells.files) + 1))
    cuts = []
    for partition, column in enumerate(chosen.tolist()):
        start, cell = int(edges[partition]), int(edges[partition + 1])
        starts = []
        while cell > start:
            cell = int(origin[cell - 1, column])
            starts.append(cell)
        cuts.append(np.array(starts[-2::-1], np.int64))
    return cuts
