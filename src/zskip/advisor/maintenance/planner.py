"""The planner of maintenance: choose files to rewrite together, by the reads saved for each byte written.

A file costs the share of the workload's queries that its bounds cannot rule out, times its rows, so a small box is
good. Files added since the table was clustered have wide boxes and cost most; the files of a small batch are wider than
those of a large one. So a batch of a partition is its k widest files, for the best k: few if little is new, more if
small batches have piled up, all if nothing less pays. This is the merging of log-structured trees without levels. It
needs no record of each file's origin, so other writers may change the table in between.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast

import numpy as np

from zskip.advisor.fitting.predicate_boxes import drop_unlimited, mix_workloads
from zskip.advisor.maintenance.bin_packing import pack
from zskip.advisor.maintenance.row_scale import Bounds, Scale, scale_of
from zskip.layout.workload import ANY_LOWER, ANY_UPPER, UNSEEN, Touch, Workload, synthetic_workload
from zskip.records import Bools, Floats, Ints, Snapshot

Ranges = Mapping[int, tuple[Any, Any]]
"""Lowest and highest value by the number of the column, None for an open end; in the form of its type."""
WORTH = 0.7
"""A batch of the whole table must lower the rows that queries read by this part of the least possible, a smaller batch
by less in proportion to its bytes. A higher value writes less, a lower one reads less."""
_STAYS = 0.4
"""A factor of WORTH for neighboring files that lie apart from all others. Later files, such as another day's, will
hardly overlap them, so the rewritten files stay."""
_FINER, _SMALL = 0.45, 0.4
"""The part by which files of a small batch are smaller than the target, and the part of it below which files are merged
out of order. The fewer files a batch has, the wider they are; smaller ones are read less until a larger batch takes
them in."""
_CANDIDATES = 8, 96, 16_000
"""Batch sizes to try in each partition, twice: the fewest, the most, and the total over all partitions."""
_GRID, _ROUNDING = 1 << 13, 1e-6
"""Steps of the scale of synthetic queries, and the distance within which two ends are equal."""
_MOSTLY_DELETED = 0.3
"""The share of deleted rows from which a file is worth a rewrite by itself: Iceberg's `delete-ratio-threshold`."""
_CALIBRATED = (0.4, 2.5)
"""Bounds of the ratio between a layout's reads and the formula's."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Batch:
    """Files of one partition to rewrite together."""

    positions: Ints
    """Of the files in the snapshot."""
    files: int
    """Number of new files."""
    bytes: int
    """Of the removed files, without deleted rows."""
    saves: float
    """Mean number of rows that a query no longer reads; negative if merged small files were apart."""
    merges: bool = False
    """Whether files are only concatenated, to have fewer of them or to drop deleted rows."""
    deleted: int = 0
    """Deleted rows in the removed files, estimated."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MaintenancePlan:
    """Batches, the best for their bytes first."""

    batches: tuple[Batch, ...]
    kept: float
    """Mean share (0 to 1) of the rows that lie in the files a query reads now."""
    rows: int
    reads: Floats
    """(files,) share (0 to 1) of the queries that read each file now."""
    stopped: str
    """The reason why there are no more batches."""

    @property
    def kept_after(self) -> float:
        """The same after all batches, predicted."""
        return max(0.0, self.kept - sum(batch.saves for batch in self.batches) / max(self.rows, 1))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Costs:
    """Files on the scales of a workload."""

    snapshot: Snapshot
    rows: Ints
    """(files,) without deleted rows."""
    deleted: Ints
    """(files,) deleted rows, which queries read in vain."""
    first: tuple[Floats, ...]
    """For each column (files,): the start of a file's box on the scale."""
    last: tuple[Floats, ...]
    met: Floats
    """(files,) share of queries that read each file."""
    starts: tuple[Floats, ...]
    """For each column (queries,), as are `ends`."""
    ends: tuple[Floats, ...]
    free: tuple[Bools, ...]
    """For each column (queries,): whether a query leaves it out."""
    weights: Floats
    linear: bool


def plan_maintenance(
    snapshot: Snapshot,
    rows: Ints,
    columns: Sequence[Bounds],
    *,
    target: int,
    deleted: Ints | None = None,
    budget: int | None = None,
    linear: bool = False,
    reference: Ints | None = None,
    settled: Bools | None = None,
    runs: Ints | None = None,
    queries: Sequence[tuple[Ranges, float]] = (),
    unseen: float = UNSEEN,
    worth: float = WORTH,
) -> MaintenancePlan:
    """Choose the batches that are worth their bytes.

    rows: (files,) including deleted ones; target: the desired bytes of a new file; deleted: (files,) estimated deleted
    rows; budget: bytes for all batches together, which the last may exceed by one file; linear: whether rows are
    ordered by the first column before all others; reference: positions of files that were clustered together and
    calibrate the predictions; settled: (files,) whether a file stays as it is; runs: (files,) one number for all files
    that were clustered together, -1 for others: clustering only such files again would change nothing; queries: ranges
    with weights; unseen: the weight of synthetic queries beside them.
    """
    deleted = np.zeros(len(rows), np.int64) if deleted is None else np.minimum(deleted, rows)
    if deleted.any():
        sizes = np.ceil(snapshot.sizes * (1 - deleted / np.maximum(rows, 1))).astype(np.int64)
        snapshot = replace(snapshot, sizes=np.maximum(sizes, 1))
    costs = _costs(snapshot, rows, deleted, columns, linear, queries, unseen)
    free = np.ones(len(snapshot), np.bool_) if settled is None else ~settled
    batches = []
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
    for positions in np.split(by_partition, starts[1:]) if len(starts) else ():
        batch = _best(costs, positions, terms)
        batches += [] if batch is None else [batch]
    batches.sort(key=lambda batch: -batch.saves / batch.bytes)
    chosen, remaining = _within(batches, budget)
    merged, merges_left_out = _merges(costs, free, chosen, target, None if budget is None else remaining)
    more = len(chosen) < len(batches) or merges_left_out
    return MaintenancePlan(
        batches=(*chosen, *merged),
        kept=_kept(costs),
        rows=int(rows.sum()),
        reads=costs.met,
        stopped="budget" if more or _limited(chosen, budget) else "nothing left that is worth its bytes",
    )


def kept_share(snapshot: Snapshot, rows: Ints, columns: Sequence[Bounds], *, linear: bool = False) -> float:
    """Predict the mean share (0 to 1) of the rows that lie in the files a query reads, from the files' bounds.

    The queries are synthetic; rows, linear: as in `plan_maintenance`.
    """
    return _kept(_costs(snapshot, rows, np.zeros(len(rows), np.int64), columns, linear, (), UNSEEN))


def _kept(costs: _Costs) -> float:
    rows = costs.rows + costs.deleted
    return min(1.0, float((costs.met * rows).sum() / max(int(rows.sum()), 1)))


def _limited(chosen: Sequence[Batch], budget: int | None) -> bool:
    return budget is not None and sum(batch.bytes for batch in chosen) >= budget


def _costs(
    snapshot: Snapshot,
    rows: Ints,
    deleted: Ints,
    columns: Sequence[Bounds],
    linear: bool,
    queries: Sequence[tuple[Ranges, float]],
    unseen: float,
) -> _Costs:
    scales = [scale_of(column, rows) for column in columns]
    spans = [scale.spans(column) for scale, column in zip(scales, columns, strict=True)]
    workload = mix_workloads(drop_unlimited(_on_grid(queries, scales)), _made_up(len(columns)), unseen)
    low = [np.minimum((start * _GRID + _ROUNDING).astype(np.int32), _GRID - 1) for start, _ in spans]
    high = [np.ceil(end * _GRID - _ROUNDING).astype(np.int32) - 1 for _, end in spans]
    high = [np.maximum(upper, lower) for lower, upper in zip(low, high, strict=True)]
    touch = Touch(workload)
    free = (workload.lower == ANY_LOWER) & (workload.upper == ANY_UPPER)
    return _Costs(
        snapshot=snapshot,
        rows=rows - deleted,
        deleted=deleted,
        first=tuple(start for start, _ in spans),
        last=tuple(end for _, end in spans),
        met=touch.share(*touch.classes(low, high)),
        starts=tuple(workload.lower[:, i] / _GRID for i in range(len(columns))),
        ends=tuple((workload.upper[:, i] + 1.0) / _GRID for i in range(len(columns))),
        free=tuple(free[:, i] for i in range(len(columns))),
        weights=workload.weights,
        linear=linear,
    )


@cache
def _made_up(columns: int) -> Workload:
    """Synthetic queries, drawn on the scale itself, which all columns share."""
    return synthetic_workload([np.arange(_GRID, dtype=np.int32)] * columns)


def _on_grid(queries: Sequence[tuple[Ranges, float]], scales: Sequence[Scale]) -> Workload:
    """Put the ranges of queries on the grid of the scales."""
    lower = np.full((len(queries), len(scales)), ANY_LOWER, np.int32)
    upper = np.full((len(queries), len(scales)), ANY_UPPER, np.int32)
    for row, (ranges, _) in enumerate(queries):
        for column, (low, high) in ranges.items():
            start = 0.0 if low is None else scales[column].share_below(low, after=False)
            end = 1.0 if high is None else scales[column].share_below(high, after=True)
            lower[row, column] = min(int(start * _GRID + _ROUNDING), _GRID - 1)
            upper[row, column] = max(int(np.ceil(end * _GRID - _ROUNDING)) - 1, lower[row, column])
    weights = np.array([weight for _, weight in queries], np.float64)
    return Workload(lower=lower, upper=upper, weights=weights / max(float(weights.sum()), 1e-300))


def _splits(files: int, widths: Sequence[float], linear: bool) -> list[int]:
    """Count the pieces of each column if files lie like the tiles of a floor, the widest column cut first.

    >>> _splits(8, [1.0, 1.0, 1.0], linear=False), _splits(5, [1.0, 0.5], linear=False)
    ([2, 2, 2], [3, 2])
    >>> _splits(5, [0.1, 1.0], linear=True)
    [5, 1]
    """
    if linear:
        return [files] + [1] * (len(widths) - 1)
    splits = [1] * len(widths)
    while math.prod(splits) < files:
        splits[int(np.argmax([width / count for width, count in zip(widths, splits, strict=True)]))] += 1
    return splits


def _tiled(costs: _Costs, low: Sequence[float], high: Sequence[float], files: int) -> float:
    """Predict the mean share of a box's rows that a query reads if the files are tiles of the box."""
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
    """Divide the reads of a layout's files by those of tiles."""
    if reference is None or len(reference) < 2 or not costs.rows[reference].sum():
        return 1.0
    actual = float(np.average(costs.met[reference], weights=costs.rows[reference]))
    tiled = _tiled(costs, *_box(costs, reference), len(reference))
    return float(np.clip(actual / max(tiled, 1e-9), *_CALIBRATED))


def _box(costs: _Costs, positions: Ints) -> tuple[list[float], list[float]]:
    return [float(c[positions].min()) for c in costs.first], [float(c[positions].max()) for c in costs.last]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Terms:
    """The terms by which batches are chosen."""

    free: Bools
    """(files,) whether a file may be rewritten."""
    runs: Ints
    target: int
    scale: float
    """The reads of a layout's files divided by those of tiles."""
    worth: float
    budget: int | None
    tries: int


def _best(costs: _Costs, positions: Ints, terms: _Terms) -> Batch | None:
    """Choose the best batch of one partition: its widest files, or the widest and its neighbors, as many as pay."""
    sizes, rows = costs.snapshot.sizes, costs.rows
    size, row_count = int(sizes[positions].sum()), int(rows[positions].sum())
    files = min(_files(size, terms.target), max(row_count, 1))
    least = terms.scale * _tiled(costs, *_box(costs, positions), files) * row_count
    order = positions[terms.free[positions] & (rows[positions] > 0)]
    order = order[np.argsort(-costs.met[order], kind="stable")]
    if not len(order) or least <= 0:
        return None
    candidates = [_prefix(costs, order, terms, least, size, terms.worth)]
    gaps = _gaps(costs, order)
    if gaps.any():
        near = order[np.argsort(gaps, kind="stable")]
        candidates.append(_prefix(costs, near, terms, least, size, _STAYS * terms.worth))
    return max((batch for batch in candidates if batch is not None), key=lambda c: c[0], default=(0.0, None))[1]


def _gaps(costs: _Costs, order: Ints) -> Floats:
    """Sum the distances of files from the first of them over all columns, on the scale."""
    gaps = np.zeros(len(order))
    for first, last in zip(costs.first, costs.last, strict=True):
        start, end = first[order], last[order]
        gaps += np.maximum(np.maximum(start - end[0], start[0] - end), 0.0)
    return cast(Floats, np.round(gaps, 3))


def _prefix(
    costs: _Costs, order: Ints, terms: _Terms, least: float, size: int, worth: float
) -> tuple[float, Batch] | None:
    """Choose the number of first files that pays best, and its value; least, size: of their partition."""
    sizes, rows, runs = costs.snapshot.sizes, costs.rows, terms.runs
    bytes_, reads = np.cumsum(sizes[order]), np.cumsum(costs.met[order] * rows[order])
    row_counts = np.cumsum(rows[order])
    low = [np.minimum.accumulate(c[order]) for c in costs.first]
    high = [np.maximum.accumulate(c[order]) for c in costs.last]
    most = len(order) if terms.budget is None else int(np.searchsorted(bytes_, terms.budget)) + 1
    same_run = int(np.argmax(np.append(runs[order] != runs[order[0]], True))) if runs[order[0]] >= 0 else 0
    best: tuple[float, Batch] | None = None
    for k in _ks(min(most, len(order)), terms.tries):
        files = min(_files(int(bytes_[k - 1]), terms.target), int(row_counts[k - 1]))
        if k <= same_run or (k == 1 and files == 1):
            continue
        box = [float(c[k - 1]) for c in low], [float(c[k - 1]) for c in high]
        after = min(1.0, (terms.scale if files > 1 else 1.0) * _tiled(costs, *box, files)) * float(row_counts[k - 1])
        saves = float(reads[k - 1]) - after
        net = saves / least - worth * float(bytes_[k - 1]) / size
        if saves > 0 and net > (0.0 if best is None else best[0]):
            best = net, _batch(costs, np.sort(order[:k]), _finer(files, float(bytes_[k - 1]) / size), saves)
    return best


def _finer(files: int, share: float) -> int:
    """The number of files of a batch with a share (0 to 1) of its partition; what it saves is counted without that.

    >>> _finer(100, 1.0), _finer(10, 0.1)
    (100, 17)
    """
    return round(files / (1 - _FINER * math.sqrt(max(1 - share, 0.0))))


def _batch(costs: _Costs, positions: Ints, files: int, saves: float) -> Batch:
    """A batch that saves reads of live rows, and all reads of deleted ones."""
    deleted = costs.deleted[positions]
    return Batch(
        positions=positions,
        files=files,
        bytes=int(costs.snapshot.sizes[positions].sum()),
        saves=saves + float(costs.met[positions] @ deleted),
        deleted=int(deleted.sum()),
    )


def _ks(most: int, tries: int) -> list[int]:
    """Return some numbers from 1 to `most`, including all small ones.

    >>> _ks(3, 96), _ks(100, 4)
    ([1, 2, 3], [1, 2, 3, 4, 21, 100])
    """
    return sorted({*range(1, min(most, tries) + 1), *np.geomspace(1, most, tries).astype(int).tolist(), most})


def _files(size: int, target: int) -> int:
    return max(1, round(size / target))


def _within(batches: Sequence[Batch], budget: int | None) -> tuple[list[Batch], int]:
    """Choose the first batches that fit into a budget, always the very first; also return the remaining budget."""
    if budget is None:
        return list(batches), 0
    chosen: list[Batch] = []
    remaining = budget
    for batch in batches:
        if not chosen or batch.bytes <= remaining:
            chosen.append(batch)
            remaining -= batch.bytes
    return chosen, max(remaining, 0)


def _merges(
    costs: _Costs, free: Bools, chosen: Sequence[Batch], target: int, remaining: int | None
) -> tuple[list[Batch], bool]:
    """Merge the remaining small files, and rewrite those that are mostly deleted.

    Also tells whether the budget leaves some out.
    """
    snapshot, deleted = costs.snapshot, costs.deleted
    others = free.copy()
    for batch in chosen:
        others[batch.positions] = False
    positions = np.flatnonzero(others)
    bins = [positions[small] for small in pack(snapshot.take(positions), target, math.ceil(_SMALL * target))]
    is_alone = others & (deleted > 0) & (deleted >= _MOSTLY_DELETED * (costs.rows + deleted))
    is_alone[[position for files in bins for position in files]] = False
    merges, limited = [], False
    for files in [*np.flatnonzero(is_alone).reshape(-1, 1), *bins]:
        batch = replace(_batch(costs, files, 1, 0.0), merges=True)
        if remaining is not None and batch.bytes > remaining:
            limited = True
            continue
        remaining = None if remaining is None else remaining - batch.bytes
        merges.append(batch)
    return merges, limited
