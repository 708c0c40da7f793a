"""Keep a table clustered while others write to it: plan, rewrite and commit batches until no more are worth it."""

from __future__ import annotations

import dataclasses
import logging
import time
from dataclasses import dataclass, field

from zskip.errors import ConflictError
from zskip.records import FileSizes, Ints, Maintenance, RewriteResult, identify_files
from zskip.table.advice.choose_sketches import check_queries, choose_now
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
class _Progress:
    """What a call has committed of a table so far."""

    commits: list[RewriteResult] = field(default_factory=list)
    eligible: frozenset[str] | None = None
    """Paths of the files that lay there before the first commit: what came since is for the next call."""
    deleted_rows: int = 0

    def plan(self, handle: Handle, request: MaintenanceRequest, version: TableVersion | None = None) -> PlannedTable:
        """Plan what is left to do, by default of the version that is current now."""
        spent = sum(commit.removed.bytes for commit in self.commits)
        return plan_table(version or open_version(handle), request, spent=spent, eligible=self.eligible)

    def add(self, commit: RewriteResult | None, table: PlannedTable, deleted_rows: int = 0) -> None:
        """Count a commit, if there was one; table: the plan that it belongs to."""
        if commit is None:
            return
        self.commits.append(commit)
        self.eligible = frozenset(table.snapshot.paths) if self.eligible is None else self.eligible
        self.deleted_rows += deleted_rows


def maintain(handle: Handle, request: MaintenanceRequest) -> Maintenance:
    """Rewrite what is worth it, one commit a batch; committed batches stay if a later one fails."""
    if request.sketches is not None:
        check_queries(handle, request.workload)
    done = _rewrite(handle, request)
    if request.sketches is None:
        return done
    choices = choose_now(handle, request.workload, dry_run=request.dry_run)
    return dataclasses.replace(done, sketches=choices)


def _rewrite(handle: Handle, request: MaintenanceRequest) -> Maintenance:
    started = time.monotonic()
    version = open_version(handle)
    if not request.dry_run:
        handle.need_session("maintain()")
        check_rewritable(version)
    check_index_version(handle)
    progress = _Progress()
    table = first = progress.plan(handle, request, version)
    refit = find_refit(table, request.unseen)
    refit_text = "" if refit is None else str(refit)
    if request.dry_run:
        predicted = _predict(first)
        return _result(first, predicted, first.plan.kept_after, started, request, first.plan.stopped, refit_text)
    if isinstance(refit, Refit) and request.refit:
        files = refit.choose_files(table, request.budget)
        count = max(1, round(int(table.snapshot.sizes[files].sum()) / table.target))
        job = dataclasses.replace(_job(table, files, count, request), guide=refit.layout)
        progress.add(optimize(handle, job), table)
        refit_text += f"; {len(files):,} of {len(table.snapshot):,} files were rewritten by one"
        table = progress.plan(handle, request)
    stopped, failures = "", 0
    while not stopped:
        commits_before = len(progress.commits)
        try:
            stopped = _rewrite_batches(handle, request, table, progress, started)
        except ConflictError as error:
            failures = failures + 1 if len(progress.commits) == commits_before else 1
            if failures == _MOST_CONFLICTS:
                raise ConflictError(
                    f'other writers keep rewriting "{handle.storage.root}"; {len(progress.commits):,} batches are '
                    "committed, the others were given up; try again later"
                ) from error
            _log.info("%s; planning again", error)
            table = progress.plan(handle, request)
    kept_after = progress.plan(handle, request).plan.kept if progress.commits else first.plan.kept
    return _result(first, progress, kept_after, started, request, stopped, refit_text)


def _rewrite_batches(
    handle: Handle, request: MaintenanceRequest, table: PlannedTable, progress: _Progress, started: float
) -> str:
    """Rewrite the batches of a plan, and return why there are no more.

    Raises ConflictError; `progress` then has what was committed before.
    """
    for batch in table.plan.batches:
        if batch.merges:
            continue
        if _is_over(request, started):
            return "seconds"
        job = _job(table, batch.positions, batch.files, request)
        progress.add(optimize(handle, job), table, batch.deleted)
    merges = [batch for batch in table.plan.batches if batch.merges]
    for i in range(0, len(merges), BINS_AT_ONCE):
        if _is_over(request, started):
            return "seconds"
        batches = merges[i : i + BINS_AT_ONCE]
        bins = [identify_files(table.snapshot, batch.positions) for batch in batches]
        progress.add(compact_files(handle, bins, "maintain"), table, sum(batch.deleted for batch in batches))
    return table.plan.stopped


def _is_over(request: MaintenanceRequest, started: float) -> bool:
    return request.seconds is not None and time.monotonic() - started >= request.seconds


def _job(table: PlannedTable, files: Ints, new_files: int, request: MaintenanceRequest) -> RewriteJob:
    options = OptimizeRequest(
        by=table.by,
        curve=table.curve,
        build=table.build,
        files=new_files,
        workload=None if table.layout is None else request.workload,
        unseen=request.unseen,
    )
    return RewriteJob(
        options=options,
        operation="maintain",
        only=frozenset(identify_files(table.snapshot, files)),
        long_term_file_size=table.target,
        beside=weigh_other_files(table.columns, table.rows, files),
        guide=table.layout,
    )


def _predict(table: PlannedTable) -> _Progress:
    """What the batches of a plan would commit."""
    batches = table.plan.batches
    merges = sum(batch.merges for batch in batches)
    commit = RewriteResult(
        path=table.snapshot.root,
        version=table.snapshot.version,
        batches=len(batches) - merges + -(-merges // BINS_AT_ONCE),
        added=FileSizes(files=sum(batch.files for batch in batches), bytes=sum(batch.bytes for batch in batches)),
        removed=FileSizes(files=sum(len(batch.positions) for batch in batches)),
    )
    return _Progress(commits=[commit], deleted_rows=sum(batch.deleted for batch in batches))


def _result(
    table: PlannedTable,
    progress: _Progress,
    kept_after: float,
    started: float,
    request: MaintenanceRequest,
    stopped: str,
    refit: str,
) -> Maintenance:
    """table: before the first commit."""
    root = table.version.handle.storage.root
    total = RewriteResult(path=root, version=table.snapshot.version).add(progress.commits)
    return Maintenance(
        path=root,
        version=total.version,
        by=table.by,
        batches=total.batches,
        bytes_written=total.added.bytes,
        files_removed=total.removed.files,
        files_added=total.added.files,
        kept_before=table.plan.kept,
        kept_after=kept_after,
        stopped=stopped,
        seconds=round(time.monotonic() - started, 3),
        dry_run=request.dry_run,
        refit=refit,
        deleted_rows=progress.deleted_rows,
    )
