"""How the files of a table lie along one column, summed up so that a million of them can be drawn.

All is placed on a scale from 0 to 1 along which the rows lie evenly, as far as the bounds of files tell: each file's
rows spread evenly between its bounds. Any type that has an order can be drawn on it, one date in the year 9999 does
not squeeze all others together, and what a query for a value reads on average is the mean over the scale.
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
"""Distinct bounds that are looked at, the most."""
_POINTS = 240
"""Of the line of depths."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Spread:
    """The files along one column."""

    name: str
    stats: ColumnStats
    known: Bools
    """(files,) files with a range of values."""
    empty: Bools
    """(files,) files that hold no value, only nulls or NaN."""
    first: Floats
    """(files,) where the range of a file begins on the scale; 0 where it is not known."""
    last: Floats
    """(files,) where it ends; 1 where it is not known."""
    ticks: tuple[tuple[float, str], ...]
    """Places on the scale, and the values that lie there."""
    depth: Ints
    """(steps,) the most files that hold a value of each step; the steps divide the scale evenly."""
    share: float
    """Share (0 to 1) of the table's bytes in the files that may hold a value of the scale, mean over it."""
    clustering: ClusteringInfo

    @property
    def unknown(self) -> int:
        """Files of which nothing is known, which every query reads."""
        return int((~self.known & ~self.empty).sum())

    def range_of(self, place: int) -> str:
        """What values a file holds, in words."""
        if self.empty[place]:
            return "nulls alone"
        if not self.known[place]:
            return "unknown"
        of = self.stats.type
        lower, upper = (show_value(side[place], of) for side in (self.stats.lower, self.stats.upper))
        return lower if lower == upper else f"{lower} to {upper}"


def spread_of(name: str, stats: ColumnStats, rows: Ints, sizes: Ints) -> Spread:
    """Place the files of a table along a column.

    rows: (files,) -1 where unknown; sizes: (files,) bytes. Takes O(files * log(files)) time.
    """
    empty = (stats.nulls == ALL_NULL) | ((rows >= 0) & (stats.nulls == rows))
    known = stats.bounded & ~empty
    if stats.type.form is Form.FLOAT:
        empty = empty | (stats.bounded & ~(stats.lower <= stats.upper))  # NaN alone.
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
    """The ranges of files, sorted by where they start and by where they end."""

    lower: Ints | Floats
    upper: Ints | Floats
    starts: npt.NDArray[np.intp]
    ends: npt.NDArray[np.intp]

    def at(self, points: Ints | Floats, weights: Ints) -> Ints:
        """(2 * points,) weight of the ranges that hold each point, and what comes right after it."""
        begun, ended = (
            np.concatenate([[0], np.cumsum(weights[order], dtype=np.int64)]) for order in (self.starts, self.ends)
        )
        before = begun[np.searchsorted(self.lower, points, side="right")]
        gone = (ended[np.searchsorted(self.upper, points, side=side)] for side in ("left", "right"))
        return np.stack([before - weight for weight in gone], 1).ravel()


def _points(lower: Ints | Floats, upper: Ints | Floats) -> Ints | Floats:
    """Distinct bounds in order; of very many some, evenly chosen, the outermost among them."""
    found = np.unique(np.concatenate([lower, upper]))
    if len(found) <= _BOUNDS:
        return found
    return found[np.linspace(0, len(found) - 1, _BOUNDS).astype(np.int64)]


def _values(stats: ColumnStats, known: Bools, points: Ints | Floats, cover: _Cover) -> Values:
    """The bounds at ranks."""
    at = np.searchsorted(cover.lower, points).clip(0, max(len(cover.lower) - 1, 0))
    found: Values = np.empty(len(points), np.object_)
    starts = cover.lower[at] == points if len(points) else np.zeros(0, np.bool_)
    found[starts] = stats.lower[known][cover.starts[at[starts]]]
    found[~starts] = stats.upper[known][cover.ends[np.searchsorted(cover.upper, points[~starts])]]
    return found


def _unit(form: Form | None) -> float:
    """How wide a value is by itself."""
    return 1.0 if form is Form.INT else 0.0


def _numbers(values: Values) -> Floats:
    """Values in order as numbers from 0 on, as far apart as they are."""
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
    """(2 * points,) share of the rows at each point and in the gap after it.

    numbers: (points,) ascending; rows, begun, ended: (files,) with the points at which each file begins and ends.
    """
    count = len(numbers)
    long = numbers[ended] - numbers[begun] + unit
    spread = long > 0
    density = np.where(spread, rows / np.where(spread, long, 1.0), 0.0)
    found = np.zeros((count, 2))
    if not count:
        return found.ravel()
    covering = np.cumsum(np.bincount(begun, density, count + 1) - np.bincount(ended + 1, density, count + 1))[:count]
    found[:, 0] = covering * unit + np.bincount(begun[~spread], rows[~spread], count)
    inside = np.cumsum(np.bincount(begun, density, count + 1) - np.bincount(ended, density, count + 1))[:count]
    found[:-1, 1] = inside[:-1] * np.maximum(np.diff(numbers) - unit, 0.0)
    # Sums of large and small densities are not exact: no more rows lie in a gap than the files over it have.
    most = np.cumsum(np.bincount(begun, rows, count + 1) - np.bincount(ended, rows, count + 1))[:count]
    found[:, 1] = np.minimum(found[:, 1], np.rint(most))
    found = np.maximum(found, 0.0)
    return (found / found.sum() if found.sum() > 0 else np.full((count, 2), 0.5 / count)).ravel()


def _steps(depth: Ints, edges: Floats) -> Ints:
    """(steps,) the greatest depth in each of some even steps of the scale.

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
    """Some values, evenly along the scale; of text, bounds that lie near there."""
    if not len(values):
        return ()
    wanted = np.linspace(0, 1, _TICKS)
    if data_type.form is Form.BYTES:
        middles = (edges[:-1:2] + edges[1::2]) / 2
        chosen = np.unique(np.searchsorted(middles, wanted).clip(0, len(values) - 1))
        found = [(float(middles[i]), values[i]) for i in chosen.tolist()]
    else:
        numbers = _numbers(values)
        inner = np.interp(wanted, edges[:-1], np.stack([numbers, numbers + _unit(data_type.form) / 2], 1).ravel())
        places = np.searchsorted(numbers, inner, side="right").clip(1, len(values)) - 1
        step = 1_000_000 if data_type.name.startswith("timestamp") else 1
        found = [
            (at, _after(values[i], number - numbers[i], numbers, values, step))
            for at, i, number in zip(wanted.tolist(), places.tolist(), inner.tolist(), strict=True)
        ]
    ticks: dict[str, float] = {}
    for at, value in found:
        text = show_value(value, data_type)
        if not ticks or at - max(ticks.values()) >= 0.5 / _TICKS:
            ticks.setdefault(text, round(at, 5))
    return tuple((at, text) for text, at in ticks.items())


def _after(value: Encoded, more: float, numbers: Floats, values: Values, step: int) -> Encoded:
    """The value that lies so much further along the numbers, by a whole number of steps."""
    if isinstance(value, int | np.integer):
        return int(value) + int(more) // step * step
    if not numbers[-1] or not np.isfinite(value):
        return value
    finite = values[np.isfinite(values.astype(np.float64))].astype(np.float64)
    return float(value) + more * max(abs(float(finite[0])), abs(float(finite[-1])), 1e-300)
