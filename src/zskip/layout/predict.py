"""Prediction from a sample: the share of rows that a workload reads, before and after."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zskip.layout.layout import Layout
from zskip.layout.ranks import dense_ranks
from zskip.layout.workload import ANY_UPPER, Ranks, Workload, synthetic_workload
from zskip.records import Bools, Floats, Ints, Sample, Values

_CHUNK_FILES = 1 << 12


def predict_share(layout: Layout, sample: Sample, workload: Workload | None = None) -> float:
    """Predict the mean share (0 to 1) of the rows that lie in files which a query of the workload meets.

    workload: over the dense ranks of this sample; the synthetic one by default. A query reads the files that their
    min and max cannot rule out.
    """
    if not len(sample):
        return 0.0
    ranks = sample_ranks(sample)
    return _mean_share(ranks, *_files(layout, sample, ranks), workload)


def _files(layout: Layout, sample: Sample, ranks: Sequence[Ranks]) -> tuple[list[Ranks], list[Ranks], Floats]:
    """The boxes of a layout's files, and the rows in each."""
    tie = np.random.default_rng(0).integers(0, 2**63, len(sample), dtype=np.uint64)
    files, _ = layout.place(sample.columns, sample.nulls, sample.partition, tie)
    order = np.argsort(files, kind="stable")
    starts = np.flatnonzero(np.diff(files[order], prepend=-1))
    return *boxes(ranks, order, starts), np.add.reduceat(sample.weights[order], starts)


def share_of_boxes(
    sample: Sample,
    lower: Sequence[Values],
    upper: Sequence[Values],
    bounded: Sequence[Bools],
    rows: Ints,
    workload: Workload | None = None,
) -> float:
    """Predict the same share for existing files, from their min and max.

    lower, upper: for each column of the sample (files,), in the form of its type; bounded: for each column (files,)
    whether they are known, else the file is read; rows: (files,) rows of each file.
    """
    if not len(sample) or not rows.sum():
        return 0.0
    lowest, highest = [], []
    for values, nulls, low, high, known in zip(sample.columns, sample.nulls, lower, upper, bounded, strict=True):
        distinct, _ = dense_ranks(values, nulls)
        first = np.zeros(len(rows), np.int32)
        last = np.full(len(rows), ANY_UPPER, np.int32)
        first[known] = np.searchsorted(distinct, low[known], side="left")
        last[known] = np.searchsorted(distinct, high[known], side="right") - 1
        lowest.append(first)
        highest.append(last)
    return _mean_share(sample_ranks(sample), lowest, highest, rows, workload)


def sample_ranks(sample: Sample) -> list[Ranks]:
    """For each column the dense ranks of a sample's values, -1 for null."""
    return [dense_ranks(values, nulls)[1] for values, nulls in zip(sample.columns, sample.nulls, strict=True)]


def boxes(ranks: Sequence[Ranks], order: Ints, starts: Ints) -> tuple[list[Ranks], list[Ranks]]:
    """Lowest and highest rank in each group of rows for each column; a group of nulls alone has an empty range.

    order: (rows,) rows by group; starts: (groups,) where each group starts in `order`.
    """
    lowest = [np.minimum.reduceat(np.where(r < 0, np.int32(ANY_UPPER), r)[order], starts) for r in ranks]
    highest = [np.maximum.reduceat(r[order], starts) for r in ranks]
    return lowest, highest


def _mean_share(
    ranks: list[Ranks], lowest: list[Ranks], highest: list[Ranks], rows: Ints | Floats, workload: Workload | None
) -> float:
    """The mean share of the boxes' rows that a query meets."""
    workload = synthetic_workload(ranks) if workload is None else workload
    read = np.zeros(len(workload.starts))
    for start in range(0, len(rows), _CHUNK_FILES):
        chunk = slice(start, start + _CHUNK_FILES)
        meets = np.ones((len(rows[chunk]), len(workload)), np.bool_)
        for low, high, first, last in zip(lowest, highest, workload.lower.T, workload.upper.T, strict=True):
            meets &= (high[chunk, None] >= first) & (low[chunk, None] <= last)
        read += rows[chunk] @ np.logical_or.reduceat(meets, workload.starts, axis=1)
    read /= max(float(rows.sum()), 1e-300)
    return min(1.0, float(read @ np.add.reduceat(workload.weights, workload.starts)))
