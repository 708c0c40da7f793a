"""Summarizes how the files of a table spread along one column, so that a million files can be drawn.

Values get positions on a scale from 0 to 1 on which rows are evenly distributed, assuming that the rows of each file
are evenly distributed between its bounds. So any ordered type can be drawn, one date in the year 9999 does not squeeze
the others together, and the mean over the scale is what a query for one value reads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from zskip.prune import clustering
from zskip.prune.overlap import to_numbers
from zskip.records import ALL_NULL, Bools, ClusteringInfo, ColumnStats, Floats, Ints, Values
from zskip.report.values import show_value
from zskip.types import DataType, Encoded, Form

_TICKS = 6
_BOUNDS = 1 << 16
"""Most distinct bounds that are used."""
_POINTS = 240
"""Points of the line of depths."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Spread:
    """The files along one column."""

    name: str
    stats: ColumnStats
    known: Bools
    """(files,) whether the file has a known range of values."""
    empty: Bools
    """(files,) whether the file holds only nulls or NaN."""
    first: Floats
    """(files,) start of the file's range on the scale; 0 if unknown."""
    last: Floats
    """(files,) end of the file's range; 1 if unknown."""
    ticks: tuple[tuple[float, str], ...]
    """Positions on the scale, and the values there."""
    depth: Ints
    """(steps,) the largest number of files that hold a value of the step; steps are equally wide."""
    share: float
    """Share (0 to 1) of the table's bytes in files that may hold a value, mean over the scale."""
    clustering: ClusteringInfo

    @property
    def unknown(self) -> int:
        """The number of files without known bounds, which every query reads."""
        return int((~self.known & ~self.empty).sum())

    def range_of(self, index: int) -> str:
        """Describe the values of a file."""
        if self.empty[index]:
            return "nulls alone"
        if not self.known[index]:
            return "unknown"
        data_type = self.stats.type
        lower, upper = (show_value(side[index], data_type) for side in (self.stats.lower, self.stats.upper))
        return lower if lower == upper else f"{lower} to {upper}"


def spread_of(name: str, stats: ColumnStats, rows: Ints, sizes: Ints) -> Spread:
    """Place the files of a table along a column.

    rows: (files,) -1 where unknown; sizes: (files,) bytes. Takes O(files * log(files)) time.
    """
    empty = (stats.nulls == ALL_NULL) | ((rows >= 0) & (stats.nulls == rows))
    known = stats.bounded & ~empty
    if stats.type.form is Form.FLOAT:
        empty = empty | (stats.bounded & ~(stats.lower <= stats.upper))  # Only NaN.
        known = known & ~empty
    lower, upper = to_numbers(stats.lower[known], stats.upper[known])
    starts, ends = np.argsort(lower, kind="stable"), np.argsort(upper, kind="stable")
    cover = _Cover(lower=lower[starts], upper=upper[ends], starts=starts, ends=ends)
    points = _points(lower, upper)
    values = points if stats.lower.dtype != np.object_ else _values(stats, known, points, cover)
    begun = np.searchsorted(points, lower, side="right") - 1
    ended = np.searchsorted(points, upper, side="left")
    numbers = _numbers(values)
    widths = _widths(numbers, np.maximum(rows[known], 1), begun, ended, _unit(stats.type.form))
    edges = np.concatenate([[0.0], np.cumsum(widths)])
    first, last = np.zeros(len(rows)), np.ones(len(rows))
    first[known], last[known] = edges[2 * begun], edges[2 * ended + 1]
    total = max(int(sizes.sum()), 1)
    unknown = float(sizes[~known & ~empty].sum()) / total
    return Spread(
        name=name,
        stats=stats,
        known=known,
        empty=empty,
        first=first,
        last=last,
        ticks=_ticks(edges, values, stats.type),
        depth=_steps(cover.at(points, np.ones(len(lower), np.int64)), edges),
        share=min(1.0, float((cover.at(points, sizes[known]) * widths).sum()) / total + unknown),
        clustering=clustering(name, stats),
    )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Cover:
    """The ranges of files, sorted by start and by end."""

    lower: Ints | Floats
    upper: Ints | Floats
    starts: npt.NDArray[np.intp]
    ends: npt.NDArray[np.intp]

    def at(self, points: Ints | Floats, weights: Ints) -> Ints:
        """(2 * points,) weight of the ranges at each point, and just after it."""
        begun, ended = (
            np.concatenate([[0], np.cumsum(weights[order], dtype=np.int64)]) for order in (self.starts, self.ends)
        )
        before = begun[np.searchsorted(self.lower, points, side="right")]
        closed = (ended[np.searchsorted(self.upper, points, side=side)] for side in ("left", "right"))
        return np.stack([before - weight for weight in closed], 1).ravel()


def _points(lower: Ints | Floats, upper: Ints | Floats) -> Ints | Floats:
    """Return the distinct bounds in order; of very many, an even selection with the outermost."""
    bounds = np.unique(np.concatenate([lower, upper]))
    if len(bounds) <= _BOUNDS:
        return bounds
    return bounds[np.linspace(0, len(bounds) - 1, _BOUNDS).astype(np.int64)]


def _values(stats: ColumnStats, known: Bools, points: Ints | Floats, cover: _Cover) -> Values:
    """Return the bounds at some ranks."""
    ranks = np.searchsorted(cover.lower, points).clip(0, max(len(cover.lower) - 1, 0))
    values: Values = np.empty(len(points), np.object_)
    starts = cover.lower[ranks] == points if len(points) else np.zeros(0, np.bool_)
    values[starts] = stats.lower[known][cover.starts[ranks[starts]]]
    values[~starts] = stats.upper[known][cover.ends[np.searchsorted(cover.upper, points[~starts])]]
    return values


def _unit(form: Form | None) -> float:
    """Return the width of a single value."""
    return 1.0 if form is Form.INT else 0.0


def _numbers(values: Values) -> Floats:
    """Convert sorted values to numbers from 0 on, with the same distances."""
    if not len(values):
        return np.zeros(0)
    if values.dtype == np.int64:
        return (values.view(np.uint64) - values[:1].view(np.uint64)).astype(np.float64)
    if values.dtype == np.object_:
        ends = zip(values[0], values[-1], strict=False)
        same = next((i for i, (a, b) in enumerate(ends) if a != b), min(len(values[0]), len(values[-1])))
        heads = np.array([value[same : same + 8] for value in values.tolist()], "S8")
        return heads.view(">u8").astype(np.float64)
    numbers = values.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    if not len(finite):
        return np.zeros(len(numbers))
    numbers = np.clip(numbers, finite[0], finite[-1])
    most = max(abs(finite[0]), abs(finite[-1]), 1e-300)
    scaled: Floats = numbers / most - finite[0] / most
    return scaled


def _widths(
    numbers: Floats, rows: Ints, begun: npt.NDArray[np.intp], ended: npt.NDArray[np.intp], unit: float
) -> Floats:
    """(2 * points,) share of the rows at each point, and in the gap after it.

    numbers: (points,) ascending; rows, begun, ended: (files,) with the points at which each file begins and ends.
    """
    count = len(numbers)
    lengths = numbers[ended] - numbers[begun] + unit
    spread = lengths > 0
    density = np.where(spread, rows / np.where(spread, lengths, 1.0), 0.0)
    weights = np.zeros((count, 2))
    if not count:
        return weights.ravel()
    covering = np.cumsum(np.bincount(begun, density, count + 1) - np.bincount(ended + 1, density, count + 1))[:count]
    weights[:, 0] = covering * unit + np.bincount(begun[~spread], rows[~spread], count)
    inside = np.cumsum(np.bincount(begun, density, count + 1) - np.bincount(ended, density, count + 1))[:count]
    weights[:-1, 1] = inside[:-1] * np.maximum(np.diff(numbers) - unit, 0.0)
    # Sums of large and small densities are inexact: a gap has at most the rows of the files over it.
    most = np.cumsum(np.bincount(begun, rows, count + 1) - np.bincount(ended, rows, count + 1))[:count]
    weights[:, 1] = np.minimum(weights[:, 1], np.rint(most))
    weights = np.maximum(weights, 0.0)
    return (weights / weights.sum() if weights.sum() > 0 else np.full((count, 2), 0.5 / count)).ravel()


def _steps(depth: Ints, edges: Floats) -> Ints:
    """(steps,) the greatest depth in each of several equal steps of the scale.

    depth: of the pieces between the edges.
    """
    if not len(depth):
        return depth
    count = min(len(depth), _POINTS)
    steps = np.arange(count + 1) / count
    begin = np.maximum(np.searchsorted(edges, steps[:-1], side="right") - 1, 0)
    end = np.maximum(np.searchsorted(edges, steps[1:], side="left"), begin + 1)
    pairs = np.minimum(np.stack([begin, end], 1), len(depth)).ravel()
    deepest: Ints = np.maximum.reduceat(np.append(depth, 0), pairs)[::2]
    return deepest


def _ticks(edges: Floats, values: Values, data_type: DataType) -> tuple[tuple[float, str], ...]:
    """Choose values evenly along the scale; for text, nearby bounds."""
    if not len(values):
        return ()
    positions = np.linspace(0, 1, _TICKS)
    if data_type.form is Form.BYTES:
        middles = (edges[:-1:2] + edges[1::2]) / 2
        chosen = np.unique(np.searchsorted(middles, positions).clip(0, len(values) - 1))
        candidates = [(float(middles[i]), values[i]) for i in chosen.tolist()]
    else:
        numbers = _numbers(values)
        inner = np.interp(positions, edges[:-1], np.stack([numbers, numbers + _unit(data_type.form) / 2], 1).ravel())
        indexes = np.searchsorted(numbers, inner, side="right").clip(1, len(values)) - 1
        step = 1_000_000 if data_type.name.startswith("timestamp") else 1
        candidates = [
            (position, _after(values[i], number - numbers[i], numbers, values, step))
            for position, i, number in zip(positions.tolist(), indexes.tolist(), inner.tolist(), strict=True)
        ]
    ticks: dict[str, float] = {}
    for position, value in candidates:
        text = show_value(value, data_type)
        if not ticks or position - max(ticks.values()) >= 0.5 / _TICKS:
            ticks.setdefault(text, round(position, 5))
    return tuple((position, text) for text, position in ticks.items())


def _after(value: Encoded, distance: float, numbers: Floats, values: Values, step: int) -> Encoded:
    """Return the value at a distance along the numbers, in whole steps."""
    if isinstance(value, int | np.integer):
        return int(value) + int(distance) // step * step
    if not numbers[-1] or not np.isfinite(value):
        return value
    finite = values[np.isfinite(values.astype(np.float64))].astype(np.float64)
    return float(value) + distance * max(abs(float(finite[0])), abs(float(finite[-1])), 1e-300)
