"""Survey tables: what queries read of each a day, what rewrites would save, and what would be best for it.

Only metadata is read: the format's log or listing, the index, the journal and the recorded scans. The footers of files
that came since are read where the index knows the others.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from zskip.advisor.advice.layout_search import find_queried_columns
from zskip.advisor.fitting.cross_validation import ParsedWorkload
from zskip.advisor.maintenance.bin_packing import pack
from zskip.advisor.maintenance.planner import Batch
from zskip.advisor.workload.reservoir import LIFE_MS
from zskip.advisor.workload.workload import Workload, draw
from zskip.errors import InputError, UnsupportedError, ZskipError
from zskip.index import BoundIndex
from zskip.lake.find import FoundTable
from zskip.lake.ranking import PAY_DAYS, FileReads, Rewrite, rank_rewrites
from zskip.lake.results import INDEX, Survey, TableHealth
from zskip.predicate import Columns, columns_of
from zskip.prune import clustering
from zskip.records import Bools, Field, Floats, LayoutInfo, Snapshot
from zskip.table.advice.read_workload import parse_workload
from zskip.table.handle import Handle
from zskip.table.index_binding import bind_index, complete_in_memory
from zskip.table.journal import read_clustering, read_journal
from zskip.table.optimize_request import DEFAULT_FILE_SIZE
from zskip.table.read.info import find_known, layout_of
from zskip.table.rewrite.maintenance_plan import PlannedTable, plan_table
from zskip.table.rewrite.maintenance_request import MaintenanceRequest
from zskip.table.version import open_version
from zskip.table.workload.recording import read_workload
from zskip.terminal import bar

UNRECORDED = 1.0
"""Made-up queries a day of a table whose scans nobody records."""
_DAY_MS = 24 * 3600 * 1000
_MOST_QUERIES = 40
"""Recorded queries whose reads are measured; of more, some are drawn by weight."""
_NO_QUERIES = ParsedWorkload(predicates=(), weights=np.zeros(0))
_MOST_COLUMNS = 3
_OFTEN = 0.25
"""A column is worth clustering by if queries filter by it at least so often, compared with the most filtered one."""
_AT_ONCE = 32
"""Tables examined at the same time on stores, where each waits for answers."""
_log = logging.getLogger("zskip.lake")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Examined:
    """A table's health, and the rewrites that pay and need no new columns, the best first."""

    health: TableHealth
    snapshot: Snapshot | None = None
    plan: PlannedTable | None = None
    """By the table's layout; None where files are only merged."""
    rewrites: tuple[Rewrite, ...] = ()


def survey(tables: Sequence[FoundTable]) -> Survey:
    """Survey tables; see `Lake.survey`."""
    started = time.monotonic()
    healths = [examined.health for examined in examine_all(tables, min_gain=1.0, budget=None)]
    healths.sort(key=lambda health: (bool(health.error), -health.gain, -health.bytes_read_a_day, health.table))
    return Survey(tables=tuple(healths), seconds=round(time.monotonic() - started, 3))


def examine_all(tables: Sequence[FoundTable], min_gain: float, budget: int | None) -> list[Examined]:
    """Examine tables, several at once where they are far away; min_gain, budget: as in `examine`."""

    def look(table: FoundTable) -> Examined:
        if table.handle is None:
            return Examined(health=TableHealth(table=table.name, error=table.error))
        return examine(table.name, table.handle, min_gain, budget)

    is_far = any(table.handle is not None and table.handle.storage.kind != "disk" for table in tables)
    results: list[Examined] = []
    with bar("examine tables", "tables") as progress, ThreadPoolExecutor(_AT_ONCE if is_far else 1) as pool:
        for examined in pool.map(look, tables):
            results.append(examined)
            progress.update(len(results), len(tables))
    return results


def examine(name: str, handle: Handle, min_gain: float, budget: int | None) -> Examined:
    """Examine a table without Spark; whatever is wrong with it is its line's error.

    min_gain: bytes to save in `PAY_DAYS` for each byte written; budget: bytes.
    """
    try:
        return _examine(name, dataclasses.replace(handle, spark=None, connected=None), min_gain, budget)
    except Exception as error:
        return Examined(health=TableHealth(table=name, error=describe_failure(name, error)))


def describe_failure(table: str, error: Exception) -> str:
    """An error as a table's line; what neither zskip nor the system raises on purpose is logged with its traceback."""
    if isinstance(error, ZskipError | OSError):
        return str(error).strip() or type(error).__name__
    _log.error("%s failed in a way that zskip does not expect", table, exc_info=error)
    return f"{type(error).__name__}: {error}".strip()


def _examine(name: str, handle: Handle, min_gain: float, budget: int | None) -> Examined:
    snapshot = handle.format.snapshot()
    layout = layout_of(handle, snapshot, read_clustering(read_journal(handle.home), snapshot))
    bound = bind_index(handle, snapshot, warn=False)
    known = bound.rows >= 0
    workload, parsed = _read_workload(handle, snapshot)
    queries = queries_a_day(workload)
    if not known.all() and (layout is not None or (len(parsed) and known.any())):
        bound = complete_in_memory(handle, snapshot)
    by = None if layout is not None else _choose_columns(bound, parsed)
    plan, problem = _plan(handle, bound, parsed, by, budget)
    clustered = plan if layout is not None else None
    reads, rows = measure_reads(bound, parsed, clustered), np.maximum(bound.rows, 0)
    rank = partial(rank_rewrites, snapshot, reads=reads, rows=rows, queries=queries, min_gain=min_gain, budget=budget)
    rewrites: tuple[Rewrite, ...] = ()
    if plan is not None:
        rewrites = rank(plan.plan.batches, served=_share_served(plan, parsed), planned_reads=plan.plan.reads)
    small = -(-(DEFAULT_FILE_SIZE if plan is None else plan.target) // 2)
    merges = rewrites if clustered is not None else rank(_merge_small_files(snapshot, small))
    best = merges if sum(r.saved for r in merges) >= sum(r.saved for r in rewrites) else rewrites
    health = _describe_health(name, handle, bound, layout, workload, reads, small)
    if best:
        health = _add_rewrites(health, best, clustered is None, plan)
    else:
        action, reason = _choose_otherwise(health, int((~known).sum()), bool(len(parsed)), problem)
        health = dataclasses.replace(health, action=action, reason=reason)
    return Examined(health=health, snapshot=snapshot, plan=clustered, rewrites=merges)


def _plan(
    handle: Handle, bound: BoundIndex, parsed: ParsedWorkload, by: tuple[str, ...] | None, budget: int | None
) -> tuple[PlannedTable | None, str]:
    """Plan by the table's layout, or by new columns; else say why that is not possible.

    by: new columns, empty for none; None for the table's own.
    """
    if by == ():
        return None, ""
    request = MaintenanceRequest(budget=budget, any_budget=True, by=by, dry_run=True)
    try:
        return plan_table(open_version(handle), request, bound=bound, parsed=parsed), ""
    except (InputError, UnsupportedError) as error:
        return None, str(error)


def _merge_small_files(snapshot: Snapshot, small: int) -> list[Batch]:
    """Merge files below a size in bytes into files of twice that size."""
    return [
        Batch(positions=files, files=1, bytes=int(snapshot.sizes[files].sum()), saves=0.0, merges=True)
        for files in pack(snapshot, 2 * small, small)
    ]


def _describe_health(
    name: str,
    handle: Handle,
    bound: BoundIndex,
    layout: LayoutInfo | None,
    workload: Workload,
    reads: FileReads,
    small: int,
) -> TableHealth:
    """The table as it is, with what queries read of it; small: bytes below which files are."""
    snapshot, queries = bound.snapshot, queries_a_day(workload)
    bytes_read, files_read = queries * float(reads.share @ snapshot.sizes), queries * float(reads.share.sum())
    return TableHealth(
        table=name,
        format=handle.format.name,
        files=len(snapshot),
        bytes=snapshot.bytes,
        rows=int(bound.rows.sum()) if (bound.rows >= 0).all() else None,
        small_files=int((snapshot.sizes < small).sum()) if len(snapshot) > 1 else 0,
        deleted_rows=_count_deleted(snapshot),
        indexed=float((bound.rows >= 0).mean()) if len(snapshot) else 1.0,
        clustered_by=() if layout is None else layout.by,
        overlap=_overlap(bound, layout),
        queries_a_day=queries,
        is_recorded=workload.scans > 0 or workload.recording,
        bytes_read_a_day=bytes_read,
        files_read_a_day=files_read,
        bytes_read_a_day_after=bytes_read,
        files_read_a_day_after=files_read,
    )


def _read_workload(handle: Handle, snapshot: Snapshot) -> tuple[Workload, ParsedWorkload]:
    """Read the recorded workload, and parse some of its queries, drawn by weight."""
    workload = read_workload(handle)
    drawn = dataclasses.replace(workload, queries=draw(workload.queries, _MOST_QUERIES, 0))
    try:
        return workload, parse_workload(handle, snapshot, drawn)[1] if drawn.queries else _NO_QUERIES
    except InputError:  # none of them can be used
        return workload, _NO_QUERIES


def queries_a_day(workload: Workload) -> float:
    """The rate of recorded queries, where recent days count more; of a table that is not recorded, `UNRECORDED`.

    A workload's weights decay over LIFE_MS, so a steady rate r gives them the sum r * LIFE * (1 - exp(-age / LIFE)).
    """
    if not workload.scans:
        return 0.0 if workload.recording else UNRECORDED
    age_ms = 0.0
    if workload.since is not None:
        age_ms = (dt.datetime.now(dt.timezone.utc) - workload.since).total_seconds() * 1000
    # What was recorded for an hour may be all queries of its day.
    days = LIFE_MS / _DAY_MS * -math.expm1(-max(age_ms, _DAY_MS) / LIFE_MS)
    return workload.weight / days


def measure_reads(bound: BoundIndex, parsed: ParsedWorkload, plan: PlannedTable | None) -> FileReads:
    """Which files recorded queries read; without any, what random ones along the layout read, or all files."""
    if len(parsed):
        masks: Bools = np.array([bound.prune(predicate).kept for predicate in parsed.predicates])
        return FileReads(share=parsed.weights @ masks, masks=masks, weights=parsed.weights)
    share: Floats = np.ones(len(bound.snapshot)) if plan is None else plan.plan.reads
    return FileReads(share=share)


def _choose_columns(bound: BoundIndex, parsed: ParsedWorkload) -> tuple[str, ...]:
    """The columns that queries filter by most, if the files' bounds of them are known."""
    if not len(parsed) or not (bound.rows >= 0).all():
        return ()
    snapshot = bound.snapshot
    columns = Columns(snapshot.fields, case_sensitive=bound.case_sensitive)
    fields = [field for field in columns.orderable() if field.path[0] not in snapshot.grouped_by]
    queried = [field for field in find_queried_columns(fields, parsed) if _is_bounded(bound, field)]
    weights = [_weight_of(parsed, [field]) for field in queried]
    often = [field.name for field, weight in zip(queried, weights, strict=True) if weight >= _OFTEN * weights[0]]
    return tuple(often[:_MOST_COLUMNS])


def _is_bounded(bound: BoundIndex, field: Field) -> bool:
    stats = bound.column(field.path)
    return stats is not None and bool(stats.bounded.any())


def _weight_of(parsed: ParsedWorkload, fields: Sequence[Field]) -> float:
    """The share (0 to 1) of queries that filter by one of some columns."""
    paths = {field.path for field in fields}
    mentions = [any(column.path in paths for column in columns_of(p)) for p in parsed.predicates]
    return float(parsed.weights @ np.array(mentions, np.float64)) if mentions else 0.0


def _share_served(plan: PlannedTable | None, parsed: ParsedWorkload) -> float:
    """The share (0 to 1) of a table's queries that its clustering columns serve."""
    return 1.0 if plan is None or not len(parsed) else _weight_of(parsed, plan.fields)


def _count_deleted(snapshot: Snapshot) -> int | None:
    if snapshot.reading.deleted is None or not snapshot.reading.deleted.any():
        return 0
    deletes = {} if snapshot.reading.read_deletes is None else snapshot.reading.read_deletes()
    counts = [None if one.rows is None else len(one.rows) for several in deletes.values() for one in several]
    return None if not counts or None in counts else sum(filter(None, counts))


def _overlap(bound: BoundIndex, layout: LayoutInfo | None) -> float | None:
    fields = () if layout is None else find_known(layout.by, bound.snapshot, case_sensitive=bound.case_sensitive)
    stats = bound.column(fields[0].path) if fields else None
    if stats is None or not stats.bounded.any():
        return None
    info = clustering(stats.type.name, stats)
    return info.average_depth / max(info.files, 1)


def _add_rewrites(health: TableHealth, best: Sequence[Rewrite], is_new: bool, plan: PlannedTable | None) -> TableHealth:
    """Add the action that pays, with its effects a day; is_new: whether the plan's columns are new."""
    by: tuple[str, ...] = ()
    if not is_new:
        action, reason = "maintain", "files that came since, or overlap, are read in vain"
    elif plan is None or all(rewrite.merges for rewrite in best):
        action, reason = "compact", "queries open more files than they need"
    else:
        by, action = plan.by, f"optimize by {', '.join(plan.by)}"
        reason = "queries filter by these columns, and files are in no order"
    if health.small_files > 1:
        reason += f", {health.small_files:,} of {health.files:,} files are small"
    rewritten, saved = sum(rewrite.bytes for rewrite in best), sum(rewrite.saved for rewrite in best)
    saved_bytes, saved_files = (sum(r.saved_bytes for r in best), sum(r.saved_files for r in best))
    return dataclasses.replace(
        health,
        action=action,
        by=by,
        reason=reason,
        bytes_to_rewrite=rewritten,
        saved_bytes_a_day=saved,
        days_to_pay=rewritten / saved if saved > 0 else math.inf,
        bytes_read_a_day_after=max(health.bytes_read_a_day - saved_bytes, 0.0),
        files_read_a_day_after=max(health.files_read_a_day - saved_files, 0.0),
    )


def _choose_otherwise(health: TableHealth, unknown: int, is_queried: bool, problem: str) -> tuple[str, str]:
    """The action where no rewrite pays, and its reason; unknown: files whose values nobody knows."""
    if unknown and health.files > 1 and health.queries_a_day > 0:
        more = "; with an index, it is known whether clustering pays" if is_queried else ""
        files = f"{unknown:,} of {health.files:,} files"
        return INDEX, f"nothing is known of the values in {files}, so queries read them{more}"
    if not health.queries_a_day:
        return "leave", "scans are recorded, and no query has read it"
    return "leave", problem or f"no rewrite saves in {PAY_DAYS} days what it writes"
