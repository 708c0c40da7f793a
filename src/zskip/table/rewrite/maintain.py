"""Keep a table clustered while others write to it: plan, rewrite and commit batches until no more are worth it."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from zskip.advisor.maintenance.planner import Batch
from zskip.errors import ConflictError
from zskip.records import FileSizes, Ints, Maintenance, Snapshot, identify_files
from zskip.table.handle import Handle
from zskip.table.index_binding import check_index_version
from zskip.table.optimize_request import OptimizeRequest, RewriteJob
from zskip.table.rewrite.compact import BINS_AT_ONCE, compact_files
from zskip.table.rewrite.file_bounds import weigh_other_files
from zskip.table.rewrite.maintenance_plan import PlannedTable, plan_table
from zskip.table.rewrite.maintenance_request import MaintenanceRequest
from zskip.table.rewrite.optimize import optimize
from zskip.table.rewrite.refit import Refit, find_refit
from zskip.table.rewrite.rewrite import check_rewritable
from zskip.table.version import TableVersion, open_version

_MOST_CONFLICTS = 5
"""Batches in a row that other writers may spoil before maintain gives up."""
_log = logging.getLogger("zskip")


@dataclass(kw_only=True, slots=True)
class MaintenanceProgress:
    """What a call has committed of a table so far."""

    batches: int = 0
    removed: int = 0
    """Files."""
    added: int = 0
    written: int = 0
    """Bytes."""
    spent: int = 0
    """Bytes of the files read for it."""
    eligible: frozenset[str] | None = None
    """Paths of the files that lay there before the first commit: what came since is for the next call."""
    version: int = 0
    deleted_rows: int = 0


def maintain(handle: Handle, request: MaintenanceRequest) -> Maintenance:
    """Rewrite what is worth it, one commit a batch; committed batches stay if a later one fails."""
    started = time.monotonic()
    version = open_version(handle)
    if not request.dry_run:
        handle.need_spark("maintain()")
        check_rewritable(version)
    check_index_version(handle)
    progress = MaintenanceProgress()
    table = first = _plan(version, request, progress)
    refit = find_refit(handle, request, table)
    refit_text = "" if refit is None else str(refit)
    if request.dry_run:
        return _predict(handle, table, started, refit_text)
    if isinstance(refit, Refit) and request.refit:
        files = refit.choose_files(table, request.budget)
        _rewrite_by_new_tree(handle, request, table, refit, files, progress)
        refit_text += f"; {len(files):,} of {len(table.snapshot):,} files were rewritten by one"
        table = _plan(open_version(handle), request, progress)
    stopped, failures = "", 0
    while not stopped:
        batches_before = progress.batches
        try:
            stopped = _rewrite_batches(handle, request, table, progress, started)
        except ConflictError as error:
            failures = failures + 1 if progress.batches == batches_before else 1
            if failures == _MOST_CONFLICTS:
                raise ConflictError(
                    f'other writers keep rewriting "{handle.storage.root}"; {progress.batches:,} batches are '
                    "committed, the others were given up; try again later"
                ) from error
            _log.info("%s; planning again", error)
            table = _plan(open_version(handle), request, progress)
    kept_after = _plan(open_version(handle), request, progress).plan.kept if progress.batches else first.plan.kept
    return Maintenance(
        path=handle.storage.root,
        version=progress.version or first.snapshot.version,
        by=first.by,
        batches=progress.batches,
        bytes_written=progress.written,
        files_removed=progress.removed,
        files_added=progress.added,
        kept_before=first.plan.kept,
        kept_after=kept_after,
        stopped=stopped,
        seconds=round(time.monotonic() - started, 3),
        dry_run=False,
        refit=refit_text,
        deleted_rows=progress.deleted_rows,
    )


def _plan(version: TableVersion, request: MaintenanceRequest, progress: MaintenanceProgress) -> PlannedTable:
    return plan_table(version, request, spent=progress.spent, eligible=progress.eligible)


def _rewrite_batches(
    handle: Handle, request: MaintenanceRequest, table: PlannedTable, progress: MaintenanceProgress, started: float
) -> str:
    """Rewrite the batches of a plan, and return why there are no more.

    Raises ConflictError; `progress` then has what was committed before.
    """
    merges = [batch for batch in table.plan.batches if batch.merges]
    commits: list[Sequence[Batch]] = [[batch] for batch in table.plan.batches if not batch.merges]
    commits += [merges[i : i + BINS_AT_ONCE] for i in range(0, len(merges), BINS_AT_ONCE)]
    for batches in commits:
        if request.seconds is not None and time.monotonic() - started >= request.seconds:
            return "seconds"
        rewrite_batches(handle, request, table, batches, progress)
    return table.plan.stopped


def rewrite_batches(
    handle: Handle,
    request: MaintenanceRequest,
    table: PlannedTable,
    batches: Sequence[Batch],
    progress: MaintenanceProgress,
) -> None:
    """Rewrite one batch of a plan, or merge several, in one commit; raises ConflictError where others were faster."""
    if batches[0].merges:
        merge_batches(handle, table.snapshot, batches, progress)
        return
    result = optimize(handle, _job(table, batches[0], request))
    _record(progress, result.removed, result.added, result.version, table.snapshot)
    progress.deleted_rows += batches[0].deleted


def merge_batches(handle: Handle, snapshot: Snapshot, batches: Sequence[Batch], progress: MaintenanceProgress) -> None:
    """Merge the files of each batch in one commit, without those that others have changed."""
    merged = compact_files(handle, [identify_files(snapshot, batch.positions) for batch in batches], "maintain")
    if merged is not None:
        _record(progress, merged.removed, merged.added, merged.version, snapshot)
        progress.deleted_rows += sum(batch.deleted for batch in batches)


def _rewrite_by_new_tree(
    handle: Handle,
    request: MaintenanceRequest,
    table: PlannedTable,
    refit: Refit,
    places: Ints,
    progress: MaintenanceProgress,
) -> None:
    """Rewrite some files by a tree fitted anew, in one commit."""
    size = int(table.snapshot.sizes[places].sum())
    batch = Batch(positions=places, files=max(1, round(size / table.target)), bytes=size, saves=0.0)
    job = dataclasses.replace(_job(table, batch, request), guide=refit.layout)
    result = optimize(handle, job)
    _record(progress, result.removed, result.added, result.version, table.snapshot)


def _record(
    progress: MaintenanceProgress, removed: FileSizes, added: FileSizes, version: int, planned: Snapshot
) -> None:
    """Count a commit; planned: the version that it was planned for."""
    progress.batches += 1
    progress.removed += removed.files
    progress.spent += removed.bytes
    progress.added += added.files
    progress.written += added.bytes
    progress.version = version
    progress.eligible = frozenset(planned.paths) if progress.eligible is None else progress.eligible


def _job(table: PlannedTable, batch: Batch, request: MaintenanceRequest) -> RewriteJob:
    options = OptimizeRequest(
        by=table.by,
        curve=table.curve,
        build=table.build,
        files=batch.files,
        workload=None if table.layout is None else request.workload,
        unseen=request.unseen,
    )
    return RewriteJob(
        options=options,
        operation="maintain",
        only=frozenset(identify_files(table.snapshot, batch.positions)),
        long_term_file_size=table.target,
        beside=weigh_other_files(table.columns, table.rows, batch.positions),
        guide=table.layout,
    )


def _predict(handle: Handle, table: PlannedTable, started: float, refit: str) -> Maintenance:
    batches = table.plan.batches
    merges = sum(batch.merges for batch in batches)
    return Maintenance(
        path=handle.storage.root,
        version=table.snapshot.version,
        by=table.by,
        batches=len(batches) - merges + -(-merges // BINS_AT_ONCE),
        bytes_written=sum(batch.bytes for batch in batches),
        files_removed=sum(len(batch.positions) for batch in batches),
        files_added=sum(batch.files for batch in batches),
        kept_before=table.plan.kept,
        kept_after=table.plan.kept_after,
        stopped=table.plan.stopped,
        seconds=round(time.monotonic() - started, 3),
        dry_run=True,
        refit=refit,
        deleted_rows=sum(batch.deleted for batch in batches),
    )
