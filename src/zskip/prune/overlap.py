"""How far the ranges of a column overlap among files, from their bounds alone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zskip.records import ClusteringInfo, ColumnStats, Floats, Ints, Values
from zskip.types import Form

Numbers = Ints | Floats

_EXACT_DEPTHS = 16
"""Depths with a bucket of their own, as in Snowflake's histogram; above, buckets double."""


def clustering(column: str, stats: ColumnStats) -> ClusteringInfo:
    """Average overlap and depth of a column's ranges, as `SYSTEM$CLUSTERING_INFORMATION` of Snowflake defines them.

    Files without known bounds (all null, no statistics) are counted apart. Takes O(files * log(files)) time.
    """
    known = stats.bounded
    if stats.type.form is Form.FLOAT:
        known = known & (stats.lower <= stats.upper)  # The range of files that hold NaN alone is empty.
    lower, upper = ordered(stats.lower[known], stats.upper[known])
    one_value = (lower == upper) & (stats.nulls[known] == 0) & ~stats.may_nan[known]
    by_start = np.argsort(lower)  # Searches are many times faster where the needles are nearly in order.
    overlaps, depths = overlaps_and_depths(lower[by_start], upper[by_start])
    return ClusteringInfo(
        column=column,
        files=len(lower),
        files_unknown=int(np.count_nonzero(~known)),
        constant_files=int(np.count_nonzero(one_value)),
        average_overlap=float(overlaps.mean()) if len(lower) else 0.0,
        average_depth=float(depths.mean()) if len(lower) else 0.0,
        depth_histogram=_histogram(depths),
    )


def ordered(lower: Values, upper: Values) -> tuple[Numbers, Numbers]:
    """Bounds as numbers of the same order; lower, upper: (files,)."""
    if lower.dtype != np.object_:
        return lower, upper  # type: ignore[return-value]
    both = pa.array(np.concatenate([lower, upper]), pa.large_binary())
    ranks = pc.rank(both, tiebreaker="dense").to_numpy().astype(np.int64)
    return ranks[: len(lower)], ranks[len(lower) :]


def overlaps_and_depths(lower: Numbers, upper: Numbers) -> tuple[Ints, Ints]:
    """For each closed range: how many others meet it, and the most ranges (itself included) that share a point of it.

    lower, upper: (ranges,) with lower <= upper.

    >>> overlaps_and_depths(np.array([0, 1, 3, 9]), np.array([4, 2, 5, 9]))
    (array([2, 1, 1, 0]), array([2, 2, 2, 1]))
    """
    starts, ends = np.sort(lower), np.sort(upper)
    begun = np.searchsorted(starts, upper, side="right")
    ended = np.searchsorted(ends, lower, side="left")
    coverage = np.searchsorted(starts, starts, side="right") - np.searchsorted(ends, starts, side="left")
    first = np.searchsorted(starts, lower, side="left")  # The cover is deepest where a range begins.
    return begun - ended - 1, _range_maxima(coverage, first, begun)


def _range_maxima(values: Ints, first: Ints, stop: Ints) -> Ints:
    """Maximum of values[first:stop] for each pair, by a sparse table of which only one level is held at a time."""
    maxima = np.zeros(len(first), np.int64)
    level_of = np.frexp((stop - first).astype(np.float64))[1] - 1  # The exact floor of the binary logarithm.
    level, width = values, 1
    for power in range(int(level_of.max(initial=-1)) + 1):
        mine = np.flatnonzero(level_of == power)
        maxima[mine] = np.maximum(level[first[mine]], level[stop[mine] - width])
        level = np.maximum(level[:-width], level[width:])
        width *= 2
    return maxima


def _histogram(depths: Ints) -> dict[int, int]:
    """Number of files by depth, each bucket named by its upper end."""
    powers = 2 ** np.ceil(np.log2(np.maximum(depths, 1))).astype(np.int64)
    buckets, counts = np.unique(np.where(depths <= _EXACT_DEPTHS, depths, powers), return_counts=True)
    return dict(zip(buckets.tolist(), counts.tolist(), strict=True))
