"""How far the ranges of a column overlap among files, from their bounds alone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zskip.records import ClusteringInfo, ColumnStats, Floats, Ints, Values
from zskip.types import Form

Numbers = Ints | Floats

_EXACT_DEPTHS = 16
"""Up to this depth each has its own bucket, as in Snowflake's histogram; above it, buckets double."""


def clustering(column: str, stats: ColumnStats) -> ClusteringInfo:
    """Measure the overlap and depth of a column's ranges, as Snowflake's `SYSTEM$CLUSTERING_INFORMATION` defines them.

    Files without known bounds (all null, no statistics) are counted separately. Takes O(files * log(files)) time.
    """
    known = stats.bounded
    if stats.type.form is Form.FLOAT:
        known = known & (stats.lower <= stats.upper)  # Files that hold only NaN have an empty range.
    lower, upper = to_numbers(stats.lower[known], stats.upper[known])
    one_value = (lower == upper) & (stats.nulls[known] == 0) & ~stats.may_nan[known]
    by_start = np.argsort(lower)  # Searches are many times faster for nearly sorted needles.
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


def to_numbers(lower: Values, upper: Values) -> tuple[Numbers, Numbers]:
    """Replace bounds by numbers in the same order; lower, upper: (files,)."""
    if lower.dtype != np.object_:
        return lower, upper  # type: ignore[return-value]
    both = pa.array(np.concatenate([lower, upper]), pa.large_binary())
    ranks = pc.rank(both, tiebreaker="dense").to_numpy().astype(np.int64)
    return ranks[: len(lower)], ranks[len(lower) :]


def overlaps_and_depths(lower: Numbers, upper: Numbers) -> tuple[Ints, Ints]:
    """For each closed range: how many others meet it, and how many at most (with itself) share one of its points.

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
    """Maximum of values[first:stop] for each pair, from a sparse table kept one level at a time."""
    maxima = np.zeros(len(first), np.int64)
    level_of = np.frexp((stop - first).astype(np.float64))[1] - 1  # The exact floor of the binary logarithm.
    level, width = values, 1
    for power in range(int(level_of.max(initial=-1)) + 1):
        pairs = np.flatnonzero(level_of == power)
        maxima[pairs] = np.maximum(level[first[pairs]], level[stop[pairs] - width])
        level = np.maximum(level[:-width], level[width:])
        width *= 2
    return maxima


def _histogram(depths: Ints) -> dict[int, int]:
    """Count files by depth; a bucket is named by its upper end."""
    powers = 2 ** np.ceil(np.log2(np.maximum(depths, 1))).astype(np.int64)
    buckets, counts = np.unique(np.where(depths <= _EXACT_DEPTHS, depths, powers), return_counts=True)
    return dict(zip(buckets.tolist(), counts.tolist(), strict=True))
