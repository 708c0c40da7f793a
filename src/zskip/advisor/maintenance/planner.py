"""The planner of maintenance: which files to write anew together, by what that saves for each byte it writes.

A file is as good as its box is small: what it costs is the share of the workload's queries that its bounds cannot rule
out, times its rows. Files that came since the table was clustered have wide boxes and cost most; the files of a small
batch are wider than those of a large one. So a batch of a partition is its k widest files, for the best k: few where
a little is new, more where small batches have piled up, all where nothing less would do. That is the merging of
log-structured trees, without levels: no record of which file came from where is needed, and whoever else has changed
the table meanwhile, it is taken as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from zskip.advisor.fitting.predicate_boxes import limiting, mixed
from zskip.advisor.maintenance.bin_packing import pack
from zskip.advisor.maintenance.row_scale import Scale, scale_of
from zskip.layout.workload import ANY_LOWER, ANY_UPPER, UNSEEN, Touch, Workload, synthetic_workload
from zskip.records import Bools, Floats, Ints, Snapshot, Values

Ranges = Mapping[int, tuple[Any, Any]]
"""Lowest and highest value, None where that is open, by the number of the column; in the form of its type."""
WORTH = 0.45
"""A batch of the whole table must lower what queries read by this part of the least there could be, others by less in
proportion to their bytes: higher writes less, lower reads less."""
_STAYS = 0.5
"""The same, as a part of it, for files next to each other that others lie apart from: what comes later, such as another
day, will hardly lie across them, so that what is written once stays."""
_CANDIDATES = 8, 96, 16_000
"""Sizes of a batch that are tried for each partition, twice: the fewest, the most, and in all partitions together."""
_GRID, _ROUNDING = 1 << 13, 1e-6
"""Steps of the scale on which queries are made up, and what two ends may be apart that are one."""
_CALIBRATED = (0.4, 2.5)
"""How far layouts may be from what the formula says."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Bounds:
    """What is known of one clustering column in each file; arrays of (files,)."""

    lower: Values
    upper: Values
    bounded: Bools
    splits: Values | None = None
    """Between each two lie equally many rows of the table as it was clustered; None where that is unknown."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Batch:
    """Files of one partition that are written anew together."""

    places: Ints
    """Of the files in the snapshot."""
    files: int
    """New ones."""
    bytes: int
    """Of the files that go."""
    saves: float
    """Rows that a query no longer reads, mean; below 0 where small files are merged that were apart."""
    merges: bool = False
    """Whether rows are put one after another as they are, for the sake of fewer files."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MaintenancePlan:
    """Batches, the best for their bytes first."""

    batches: tuple[Batch, ...]
    kept: float
    """Share (0 to 1) of the rows that lie in files which a query reads, mean, now."""
    rows: int
    stopped: str
    """Why there are no more batches."""

    @property
    def kept_after(self) -> float:
        """The same after all batches, predicted."""
        return max(0.0, self.kept - sum(batch.saves for batch in self.batches) / max(self.rows, 1))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Costs:
    """Files on the scales of a workload."""

    snapshot: Snapshot
    rows: Ints
    first: tuple[Floats, ...]
    """For each column (files,): where a file's box starts on the scale."""
    last: tuple[Floats, ...]
    met: Floats
    """(files,) share of queries that read each file."""
    starts: tuple[Floats, ...]
    """For each column (queries,), and below where they end."""
    ends: tuple[Floats, ...]
    free: tuple[Bools, ...]
    """For each column (queries,): whether a query names it not."""
    weights: Floats
    linear: bool


def plan_maintenance(
    snapshot: Snapshot,
    rows: Ints,
    columns: Sequence[Bounds],
    *,
    target: int,
    budget: int | None = None,
    linear: bool = False,
    reference: Ints | None = None,
    settled: Bools | None = None,
    runs: Ints | None = None,
    asked: Sequence[tuple[Ranges, float]] = (),
    unseen: float = UNSEEN,
    worth: float = WORTH,
) -> MaintenancePlan:
    """Choose the batches that are worth their bytes.

    rows: (files,); target: bytes a new file aims at; budget: bytes that all batches together may take, over which the
    last goes by one file at most; linear: whether rows are ordered by the first column before all others; reference:
    places of files that were clustered together, by which predictions are calibrated; settled: (files,) files that stay
    as they are; runs: (files,) the same number for files that were clustered together and -1 for others: to cluster
    such files once more, and no others, would change nothing; asked: what queries ask for, with weights, beside which
    made-up ones have the weight `unseen`.
    """
    costs = _costs(snapshot, rows, columns, linear, asked, unseen)
    free = np.ones(len(snapshot), np.bool_) if settled is None else ~settled
    found = []
    by_partition = np.argsort(snapshot.partition_of, kind="stable")
    starts = np.flatnonzero(np.diff(snapshot.partition_of[by_partition], prepend=-1))
    fewest, most, altogether = _CANDIDATES
    terms = _Terms(
        free=free,
        runs=np.full(len(snapshot), -1) if runs is None else runs,
        target=target,
        scale=_calibration(costs, reference),
        worth=worth,
        budget=budget,
        tries=min(max(altogether // max(len(starts), 1), fewest), most),
    )
    for places in np.split(by_partition, starts[1:]) if len(starts) else ():
        batch = _best(costs, places, terms)
        found += [] if batch is None else [batch]
    found.sort(key=lambda batch: -batch.saves / batch.bytes)
    chosen, left = _within(found, budget)
    merged, left_merging = _merges(snapshot, free, chosen, target, None if budget is None else left)
    more = len(chosen) < len(found) or left_merging
    return MaintenancePlan(
        batches=(*chosen, *merged),
        kept=_kept(costs),
        rows=int(rows.sum()),
        stopped="budget" if more or _limited(chosen, budget) else "nothing left that is worth its bytes",
    )


def kept_share(snapshot: Snapshot, rows: Ints, columns: Sequence[Bounds], *, linear: bool = False) -> float:
    """Share (0 to 1) of the rows that lie in files which a query reads, mean, as the bounds of the files tell it.

    The queries are made up; rows, linear: as in `plan_maintenance`.
    """
    return _kept(_costs(snapshot, rows, columns, linear, (), UNSEEN))


def _kept(costs: _Costs) -> float:
    return min(1.0, float((costs.met * costs.rows).sum() / max(int(costs.rows.sum()), 1)))


def _limited(chosen: Sequence[Batch], budget: int | None) -> bool:
    return budget is not None and sum(batch.bytes for batch in chosen) >= budget


def _costs(
    snapshot: Snapshot,
    rows: Ints,
    columns: Sequence[Bounds],
    linear: bool,
    asked: Sequence[tuple[Ranges, float]],
    unseen: float,
) -> _Costs:
    scales = [scale_of(c.lower, c.upper, c.bounded, rows, c.splits) for c in columns]
    spans = [scale.spans(c.lower, c.upper, c.bounded) for scale, c in zip(scales, columns, strict=True)]
    # Queries are made up on the scale itself, which all columns have in common.
    made_up = synthetic_workload([np.arange(_GRID, dtype=np.int32)] * len(columns))
    workload = mixed(limiting(_on_grid(asked, scales)), made_up, unseen)
    low = [np.minimum((start * _GRID + _ROUNDING).astype(np.int32), _GRID - 1) for start, _ in spans]
    high = [np.ceil(end * _GRID - _ROUNDING).astype(np.int32) - 1 for _, end in spans]
    high = [np.maximum(upper, lower) for lower, upper in zip(low, high, strict=True)]
    touch = Touch(workload)
    free = (workload.lower == ANY_LOWER) & (workload.upper == ANY_UPPER)
    return _Costs(
        snapshot=snapshot,
        rows=rows,
        first=tuple(start for start, _ in spans),
        last=tuple(end for _, end in spans),
        met=touch.share(*touch.classes(low, high)),
        starts=tuple(workload.lower[:, i] / _GRID for i in range(len(columns))),
        ends=tuple((workload.upper[:, i] + 1.0) / _GRID for i in range(len(columns))),
        free=tuple(free[:, i] for i in range(len(columns))),
        weights=workload.weights,
        linear=linear,
    )


def _on_grid(asked: Sequence[tuple[Ranges, float]], scales: Sequence[Scale]) -> Workload:
    """What queries ask for, on the grid of the scales."""
    lower = np.full((len(asked), len(scales)), ANY_LOWER, np.int32)
    upper = np.full((len(asked), len(scales)), ANY_UPPER, np.int32)
    for query, (ranges, _) in enumerate(asked):
        for column, (low, high) in ranges.items():
            start = 0.0 if low is None else scales[column].place(low, after=False)
            end = 1.0 if high is None else scales[column].place(high, after=True)
            lower[query, column] = min(int(start * _GRID + _ROUNDING), _GRID - 1)
            upper[query, column] = max(int(np.ceil(end * _GRID - _ROUNDING)) - 1, lower[query, column])
    weights = np.array([weight for _, weight in asked], np.float64)
    return Workload(lower=lower, upper=upper, weights=weights / max(float(weights.sum()), 1e-300))


def _splits(files: int, widths: Sequence[float], linear: bool) -> list[int]:
    """Into how many pieces each column is cut where some files lie like the tiles of a floor: the widest first.

    >>> _splits(8, [1.0, 1.0, 1.0], linear=False), _splits(5, [1.0, 0.5], linear=False)
    ([2, 2, 2], [3, 2])
    >>> _splits(5, [0.1, 1.0], linear=True)
    [5, 1]
    """
    if linear:
        return [files] + [1] * (len(widths) - 1)
    found = [1] * len(widths)
    while math.prod(found) < files:
        found[int(np.argmax([width / count for width, count in zip(widths, found, strict=True)]))] += 1
    return found


def _tiled(costs: _Costs, low: Sequence[float], high: Sequence[float], files: int) -> float:
    """Share of the queries' reads of rows that lie in some files, tiles of one box: of all rows in the box, mean."""
    share = np.ones(len(costs.weights))
    pieces = _splits(files, [end - start for start, end in zip(low, high, strict=True)], costs.linear)
    parts = zip(low, high, pieces, costs.starts, costs.ends, costs.free, strict=True)
    for start, end, count, queried_from, queried_to, free in parts:
        width = max((end - start) / count, 1e-12)
        before = np.clip(np.floor((queried_from - start) / width), 0, count - 1)
        after = np.clip(np.ceil((queried_to - start) / width) - 1, before, count - 1)
        met = np.where((queried_to > start) & (queried_from < end), (after - before + 1) / count, 0.0)
        share *= np.where(free, 1.0, met)
    return float(share @ costs.weights)


def _calibration(costs: _Costs, reference: Ints | None) -> float:
    """How much more, or less, files of a layout are read than tiles would be."""
    if reference is None or len(reference) < 2 or not costs.rows[reference].sum():
        return 1.0
    actual = float(np.average(costs.met[reference], weights=costs.rows[reference]))
    tiled = _tiled(costs, *_box(costs, reference), len(reference))
    return float(np.clip(actual / max(tiled, 1e-9), *_CALIBRATED))


def _box(costs: _Costs, places: Ints) -> tuple[list[float], list[float]]:
    return [float(c[places].min()) for c in costs.first], [float(c[places].max()) for c in costs.last]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Terms:
    """By which batches are chosen."""

    free: Bools
    """(files,) which may be rewritten."""
    runs: Ints
    target: int
    scale: float
    """How much more, or less, files of a layout are read than tiles would be."""
    worth: float
    budget: int | None
    tries: int


def _best(costs: _Costs, places: Ints, terms: _Terms) -> Batch | None:
    """The best batch of one partition: its widest files, or the widest and those next to it, as many as pay."""
    sizes, rows = costs.snapshot.sizes, costs.rows
    size, held = int(sizes[places].sum()), int(rows[places].sum())
    least = terms.scale * _tiled(costs, *_box(costs, places), min(_files(size, terms.target), max(held, 1))) * held
    order = places[terms.free[places] & (rows[places] > 0)]
    order = order[np.argsort(-costs.met[order], kind="stable")]
    if not len(order) or least <= 0:
        return None
    found = [_prefix(costs, order, terms, least, size, terms.worth)]
    gaps = _gaps(costs, order)
    if gaps.any():
        near = order[np.argsort(gaps, kind="stable")]
        found.append(_prefix(costs, near, terms, least, size, _STAYS * terms.worth))
    return max((batch for batch in found if batch is not None), key=lambda of: of[0], default=(0.0, None))[1]


def _gaps(costs: _Costs, order: Ints) -> Floats:
    """How far files lie from the first of them, over all columns, on the scale."""
    gaps = np.zeros(len(order))
    for first, last in zip(costs.first, costs.last, strict=True):
        start, end = first[order], last[order]
        gaps += np.maximum(np.maximum(start - end[0], start[0] - end), 0.0)
    return cast(Floats, np.round(gaps, 3))


def _prefix(
    costs: _Costs, order: Ints, terms: _Terms, least: float, size: int, worth: float
) -> tuple[float, Batch] | None:
    """The first of some files, as many as pay best, and by how much; least, size: of their partition."""
    sizes, rows, runs = costs.snapshot.sizes, costs.rows, terms.runs
    bytes_, reads = np.cumsum(sizes[order]), np.cumsum(costs.met[order] * rows[order])
    held = np.cumsum(rows[order])
    low = [np.minimum.accumulate(c[order]) for c in costs.first]
    high = [np.maximum.accumulate(c[order]) for c in costs.last]
    most = len(order) if terms.budget is None else int(np.searchsorted(bytes_, terms.budget)) + 1
    alone = int(np.argmax(np.append(runs[order] != runs[order[0]], True))) if runs[order[0]] >= 0 else 0
    best: tuple[float, Batch] | None = None
    for k in _ks(min(most, len(order)), terms.tries):
        files = min(_files(int(bytes_[k - 1]), terms.target), int(held[k - 1]))
        if k <= alone or (k == 1 and files == 1):
            continue
        box = [float(c[k - 1]) for c in low], [float(c[k - 1]) for c in high]
        after = min(1.0, (terms.scale if files > 1 else 1.0) * _tiled(costs, *box, files)) * float(held[k - 1])
        saves = float(reads[k - 1]) - after
        net = saves / least - worth * float(bytes_[k - 1]) / size
        if saves > 0 and net > (0.0 if best is None else best[0]):
            best = net, Batch(places=np.sort(order[:k]), files=files, bytes=int(bytes_[k - 1]), saves=saves)
    return best


def _ks(most: int, tries: int) -> list[int]:
    """Some numbers from 1 to `most`, all of the small ones.

    >>> _ks(3, 96), _ks(100, 4)
    ([1, 2, 3], [1, 2, 3, 4, 21, 100])
    """
    return sorted({*range(1, min(most, tries) + 1), *np.geomspace(1, most, tries).astype(int).tolist(), most})


def _files(size: int, target: int) -> int:
    return max(1, round(size / target))


def _within(batches: Sequence[Batch], budget: int | None) -> tuple[list[Batch], int]:
    """The first batches that fit into a budget, the first of them in any case, and what is left of it."""
    if budget is None:
        return list(batches), 0
    chosen: list[Batch] = []
    left = budget
    for batch in batches:
        if not chosen or batch.bytes <= left:
            chosen.append(batch)
            left -= batch.bytes
    return chosen, max(left, 0)


def _merges(
    snapshot: Snapshot, free: Bools, chosen: Sequence[Batch], target: int, left: int | None
) -> tuple[list[Batch], bool]:
    """What small files are left, merged; and whether the budget leaves some out."""
    others = free.copy()
    for batch in chosen:
        others[batch.places] = False
    places = np.flatnonzero(others)
    found, limited = [], False
    for small in pack(snapshot.take(places), target, -(-target // 2)):
        size = int(snapshot.sizes[places[small]].sum())
        if left is not None and size > left:
            limited = True
            continue
        left = None if left is None else left - size
        found.append(Batch(places=places[small], files=1, bytes=size, saves=0.0, merges=True))
    return found, limited
