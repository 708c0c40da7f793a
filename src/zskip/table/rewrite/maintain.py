"""Keep a table clustered while it is written: look, plan, rewrite a batch and commit it, until it is not worth more."""

from __future__ import annotations

import dataclasses
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zskip.advisor.fitting.predicate_boxes import ONLY_NULLS, boxes_of
from zskip.advisor.maintenance.planner import Batch, Bounds, MaintenancePlan, plan_maintenance
from zskip.advisor.maintenance.row_scale import scale_of
from zskip.errors import ColumnError, ConflictError, InputError, UnsupportedError
from zskip.index import BoundIndex, refresh
from zskip.layout.fit import check_curve
from zskip.records import ALL_NULL, Field, Floats, Ints, Maintenance, Snapshot, Values
from zskip.storage.overlay import Overlay
from zskip.table.advice.advise import parse_workload
from zskip.table.handle import Handle
from zskip.table.index_binding import bind_index, check_index_version
from zskip.table.journal import Clustering, Record, count_depths, read_clustering, read_journal
from zskip.table.optimize_request import (
    DEFAULT_FILE_SIZE,
    Given,
    OptimizeRequest,
    clustering_fields,
    make_repeatable,
    read_size,
)
from zskip.table.read.info import layout_of
from zskip.table.refresh_index import refresh_index
from zskip.table.rewrite.compact import BINS_AT_ONCE, compact_files
from zskip.table.rewrite.optimize import optimize
from zskip.table.rewrite.writers import choose_engine
from zskip.table.session import is_case_sensitive
from zskip.table.snapshot import check_files_are_rows, read_snapshot
from zskip.table.unchanged_files import identify_files
from zskip.units import show_size

_MOST_QUERIES = 300
"""Of the workload that batches are chosen by; of more, some are drawn by weight."""
_CONFLICTS = 5
"""Batches in a row that others may spoil before it is given up."""
_log = logging.getLogger("zskip")


@dataclass(frozen=True, kw_only=True, slots=True)
class MaintenanceRequest:
    """The arguments of `Table.maintain`, each valid by itself."""

    budget: int | None
    """Bytes."""
    seconds: float | None
    target_file_size: int | None
    """Bytes; None for that of the last time."""
    by: tuple[str, ...] | None
    workload: Given
    """By which batches are chosen; None for the recorded one."""
    dry_run: bool


def check_maintenance(
    *,
    budget: int | str | None,
    seconds: float | None,
    target_file_size: int | str | None,
    by: Sequence[str] | str | None,
    workload: Given,
    dry_run: bool,
) -> MaintenanceRequest:
    """Check what can be checked without looking at the table; raises InputError."""
    names = None if by is None else (by,) if isinstance(by, str) else tuple(by)
    if names is not None:
        check_curve(names, _curve(names), "sample")
    if seconds is not None and (isinstance(seconds, bool) or not (math.isfinite(seconds) and seconds > 0)):
        raise InputError(f"seconds={seconds!r} is no time to work; give a number above 0, or leave it out")
    return MaintenanceRequest(
        budget=None if budget is None else read_size("budget", budget),
        seconds=seconds,
        target_file_size=None if target_file_size is None else read_size("target_file_size", target_file_size),
        by=names,
        workload=make_repeatable(workload),
        dry_run=dry_run,
    )


def _curve(by: Sequence[str]) -> str:
    return "zorder" if len(by) > 1 else "linear"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Look:
    """The table at one moment, and what is to be done."""

    bound: BoundIndex
    by: tuple[str, ...]
    fields: tuple[Field, ...]
    """The same columns."""
    curve: str
    build: str
    target: int
    rows: Ints
    columns: Sequence[Bounds]
    plan: MaintenancePlan

    @property
    def snapshot(self) -> Snapshot:
        """The table's files."""
        return self.bound.snapshot


@dataclass(kw_only=True, slots=True)
class _Work:
    """What is done so far."""

    batches: int = 0
    removed: int = 0
    """Files."""
    added: int = 0
    written: int = 0
    """Bytes."""
    spent: int = 0
    """Bytes of the files that were read for it."""
    settled: set[str] = field(default_factory=set)
    """Paths that are not looked at again: files that this call has written."""
    version: int = 0


def maintain(handle: Handle, request: MaintenanceRequest) -> Maintenance:
    """Rewrite what is worth it, a commit a batch; what is committed stays, whatever comes after."""
    started = time.monotonic()
    if not request.dry_run:
        spark = handle.need_spark("maintain()")
        choose_engine(spark, handle)
    check_index_version(handle)
    work = _Work()
    look = first = _look(handle, request, work)
    if request.dry_run:
        return _predicted(handle, look, started)
    stopped, failures = "", 0
    while not stopped:
        done = work.batches
        try:
            stopped = _until_late(handle, request, look, work, started)
        except ConflictError as error:
            failures = failures + 1 if work.batches == done else 1
            if failures == _CONFLICTS:
                raise ConflictError(
                    f'"{handle.storage.root}" is rewritten by others over and over at this moment; {work.batches:,} '
                    "batches are committed, the others were given up; try again later"
                ) from error
            _log.info("%s; it is planned again", error)
            look = _look(handle, request, work)
    kept = _look(handle, request, work).plan.kept if work.batches else first.plan.kept
    return Maintenance(
        path=handle.storage.root,
        version=work.version or first.snapshot.version,
        by=first.by,
        batches=work.batches,
        bytes_written=work.written,
        files_removed=work.removed,
        files_added=work.added,
        kept_before=first.plan.kept,
        kept_after=kept,
        stopped=stopped,
        seconds=round(time.monotonic() - started, 3),
        dry_run=False,
    )


def _until_late(handle: Handle, request: MaintenanceRequest, look: _Look, work: _Work, started: float) -> str:
    """Do the batches of a plan; returns why there are no more. Raises ConflictError, with what is done in `work`."""
    merges = [batch for batch in look.plan.batches if batch.merges]
    steps: list[Sequence[Batch]] = [[batch] for batch in look.plan.batches if not batch.merges]
    steps += [merges[i : i + BINS_AT_ONCE] for i in range(0, len(merges), BINS_AT_ONCE)]
    for batches in steps:
        if request.seconds is not None and time.monotonic() - started >= request.seconds:
            return "seconds"
        _do(handle, look, batches, work)
    return look.plan.stopped


def _do(handle: Handle, look: _Look, batches: Sequence[Batch], work: _Work) -> None:
    before = set(look.snapshot.paths)
    if batches[0].merges:
        done = compact_files(handle, [identify_files(look.snapshot, batch.places) for batch in batches], "maintain")
        if done is None:
            return
        removed, added, version = done.removed, done.added, done.version
    else:
        depths = None if work.batches else count_depths(look.bound, look.fields)
        result = optimize(handle, dataclasses.replace(_request(look, batches[0]), depths=depths))
        removed, added, version = result.removed, result.added, result.version
    work.batches += 1
    work.removed += removed.files
    work.spent += removed.bytes
    work.added += added.files
    work.written += added.bytes
    work.version = version
    # What others add meanwhile is not looked at again, either: it is there for the next call.
    work.settled |= set(handle.format.snapshot().paths) - before


def _request(look: _Look, batch: Batch) -> OptimizeRequest:
    return OptimizeRequest(
        by=look.by,
        curve=look.curve,
        build=look.build,
        files=batch.files,
        target_file_size=None,
        where=None,
        into=None,
        sort_within_files=True,
        sampling="bernoulli",
        seed=0,
        operation="maintain",
        only=frozenset(identify_files(look.snapshot, batch.places)),
        long_term_file_size=look.target,
        beside=beside(look.columns, look.rows, batch.places),
    )


def _look(handle: Handle, request: MaintenanceRequest, work: _Work) -> _Look:
    """Read the snapshot and the bounds of its files, and plan; raises what is wrong with the table or the request."""
    bound = _bounds(handle, dry_run=request.dry_run)
    snapshot = bound.snapshot
    kept = read_clustering(read_journal(handle.home), snapshot)
    by, curve, build = _layout(handle, snapshot, kept, request)
    target = request.target_file_size or (kept.newest.target_file_size if kept else None) or DEFAULT_FILE_SIZE
    if request.budget is not None and request.budget < target:
        raise InputError(
            f"budget={request.budget} is less than one file of {show_size(target)}; give more, or a smaller "
            "target_file_size"
        )
    fields = clustering_fields(by, snapshot, case_sensitive=is_case_sensitive(handle))
    same = kept is not None and kept.newest.operation.by == tuple(field.name for field in fields)
    settled = np.fromiter((path in work.settled for path in snapshot.paths), np.bool_, len(snapshot))
    rows, columns = np.maximum(bound.rows, 0), bounds_of(bound, fields, kept if same else None)
    plan = plan_maintenance(
        snapshot,
        rows,
        columns,
        target=target,
        budget=None if request.budget is None else max(request.budget - work.spent, 0),
        linear=curve == "linear",
        reference=None if kept is None or not same else _reference(kept),
        settled=settled,
        runs=_runs(kept, snapshot) if same else None,
        asked=_asked(handle, snapshot, fields, request.workload),
    )
    return _Look(
        bound=bound,
        by=by,
        fields=fields,
        curve=curve,
        build=build,
        target=target,
        rows=rows,
        columns=columns,
        plan=plan,
    )


def _bounds(handle: Handle, *, dry_run: bool) -> BoundIndex:
    snapshot = read_snapshot(handle)
    check_files_are_rows(snapshot)
    if snapshot.reader is not None:
        raise UnsupportedError(
            f'maintain() has to know the bounds of files, and "{snapshot.root}" uses {snapshot.reader}, so that '
            "files are not its rows; use optimize() or compact()"
        )
    return known_bounds(handle, snapshot, writes=not dry_run)


def known_bounds(handle: Handle, snapshot: Snapshot, *, writes: bool) -> BoundIndex:
    """What is known of the files of a snapshot; writes: whether the index may be brought up to date on disk."""
    if writes:
        refresh_index(handle, new_only=True)
        return bind_index(handle, snapshot, warn=False)
    # In memory.
    apart = None if handle.index_storage is None else Overlay(handle.index_storage)
    case_sensitive = is_case_sensitive(handle)
    index = refresh(
        Overlay(handle.home),
        snapshot,
        case_sensitive=case_sensitive,
        check=False,
        index_storage=apart,
        workers=handle.workers,
    )
    return index.bind(snapshot, case_sensitive=case_sensitive)


def _layout(
    handle: Handle, snapshot: Snapshot, kept: Clustering | None, request: MaintenanceRequest
) -> tuple[tuple[str, ...], str, str]:
    """Columns, curve and build: those of the last time, or new ones."""
    last = layout_of(handle, snapshot, kept)
    if request.by is not None and (last is None or last.by != request.by):
        if last is not None:
            _log.info("%s goes over from %s to %s, batch by batch", snapshot.root, last.by, request.by)
        return request.by, _curve(request.by), "sample"
    if last is None:
        raise InputError(
            f'"{snapshot.root}" was never clustered, so that maintain() does not know by which columns; give them '
            'once, such as by=["a", "b"]'
        )
    try:
        clustering_fields(last.by, snapshot, case_sensitive=is_case_sensitive(handle))
    except ColumnError as error:
        raise ColumnError(
            f'"{snapshot.root}" was clustered by {", ".join(last.by)}, which is no longer possible: {error}. Give "by" '
            "with the columns to cluster by from now on"
        ) from error
    return last.by, last.curve, last.build


def bounds_of(bound: BoundIndex, fields: Sequence[Field], kept: Clustering | None = None) -> list[Bounds]:
    """What an index knows of the clustering columns; kept: by what the table was clustered, where that is known."""
    layout = None if kept is None else _largest(kept).layout()
    found = []
    for i, of in enumerate(fields):
        stats = bound.column((of.name,))
        if stats is None:
            none = np.zeros(len(bound.snapshot), np.int64)
            found.append(Bounds(lower=none, upper=none, bounded=none != 0))
            continue
        known = layout is not None and layout.build == "sample" and layout.fields[i].type == of.type
        splits = layout.bounds[i] if layout is not None and known else None
        lower, upper, bounded = stats.lower.copy(), stats.upper.copy(), stats.bounded
        empty = ((stats.nulls == ALL_NULL) | ((stats.nulls == bound.rows) & (bound.rows >= 0))) & (bound.rows != 0)
        if empty.any() and (bounded & ~empty).any():
            # No range meets a null: the file lies beside all values, at their end.
            last = upper[bounded & ~empty][np.argmax(upper[bounded & ~empty])]
            for ends in (lower, upper):
                ends[empty] = last
            bounded = bounded | empty
        found.append(Bounds(lower=lower, upper=upper, bounded=bounded, splits=splits))
    return found


def beside(columns: Sequence[Bounds], rows: Ints, places: Ints) -> tuple[tuple[Values, Floats], ...]:
    """For each column values of the files that are not in a batch, and how many rows each of them stands for.

    rows: (files,); places: of the batch's files.
    """
    others = np.ones(len(rows), np.bool_)
    others[places] = False
    found = []
    for c in columns if others.any() else ():
        scale = scale_of(c.lower[others], c.upper[others], c.bounded[others], rows[others], c.splits)
        found.append((scale.points, np.diff(scale.below) * float(rows[others].sum())))
    return tuple(found)


def _largest(kept: Clustering) -> Record:
    return max(kept.runs, key=lambda run: run.operation.rows)


def _reference(kept: Clustering) -> Ints | None:
    """Files that were clustered together: the most that still are."""
    most = max(kept.members, key=lambda members: int(members.sum()))
    return np.flatnonzero(most) if most.any() else None


def _asked(
    handle: Handle, snapshot: Snapshot, fields: Sequence[Field], given: Given
) -> list[tuple[dict[int, tuple[Any, Any]], float]]:
    """The ranges that queries ask for in the clustering columns, with weights; raises as `read_predicates`."""
    _, parsed = parse_workload(handle, snapshot, given)
    parsed = parsed.drawn(_MOST_QUERIES, 0)
    numbers = {(of.name,): i for i, of in enumerate(fields)}
    found = []
    for predicate, weight in zip(parsed.predicates, parsed.weights.tolist(), strict=True):
        boxes = boxes_of(predicate)
        ranges = [
            {numbers[path]: ends for path, ends in box.items() if path in numbers and ends is not ONLY_NULLS}
            for box in boxes
        ]
        found += [(one, weight / len(boxes)) for one in ranges]
    return found


def _runs(kept: Clustering | None, snapshot: Snapshot) -> Ints:
    """The number of the run of each file, -1 of those in none."""
    found = np.full(len(snapshot), -1, np.int64)
    for number, members in enumerate(kept.members if kept is not None else ()):
        found[members] = number
    return found


def _predicted(handle: Handle, look: _Look, started: float) -> Maintenance:
    plan = look.plan
    removed = sum(len(batch.places) for batch in plan.batches)
    return Maintenance(
        path=handle.storage.root,
        version=look.snapshot.version,
        by=look.by,
        batches=sum(not b.merges for b in plan.batches) + -(-sum(b.merges for b in plan.batches) // BINS_AT_ONCE),
        bytes_written=sum(batch.bytes for batch in plan.batches),
        files_removed=removed,
        files_added=sum(batch.files for batch in plan.batches),
        kept_before=plan.kept,
        kept_after=plan.kept_after,
        stopped=plan.stopped,
        seconds=round(time.monotonic() - started, 3),
        dry_run=True,
    )
