"""The query side, on one page: a DataFrame over pruned files, and the list of those files.

    snapshot -> bind the index to its files -> (for each query) predicate -> prune -> the files to read

`open_frame` hands this line to Spark, which calls it with the filters of each scan (`spark/scan/rule/bound_files.py`);
`plan_scan` runs it once, without Spark. A predicate or index that cannot be used keeps its files.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from zskip.advisor.workload.predicate_text import text_of
from zskip.index import BoundIndex, prune_row_groups
from zskip.predicate import Predicate
from zskip.records import PruneResult, ScanReport, Snapshot
from zskip.table.handle import Handle
from zskip.table.index_binding import bind_index, known_rows
from zskip.table.predicates import read_where
from zskip.table.read.plan import ScanPlan
from zskip.table.session import is_case_sensitive
from zskip.table.version import open_metadata, open_reader
from zskip.table.workload.recording import collect_from, home_of, recorder, scan_listener

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from zskip.spark.scan.relation import Pruning
    from zskip.spark.scan.rule.reports import OnFilters

_log = logging.getLogger("zskip.scan")


def open_frame(handle: Handle, on_scan: Callable[[ScanReport], None] | None = None) -> DataFrame:
    """A DataFrame over the files that are live now, of which each query reads those that its filters leave.

    on_scan: takes its scans, which then belong to the workload, too.
    Tables that only the format's own reader reads rightly are read by it, if the session has it.
    """
    handle.need_spark("df()")

    def prune(snapshot: Snapshot) -> Pruning:
        from zskip.spark.scan.relation import Pruning

        return Pruning(
            index=bind_index(handle, snapshot),
            case_sensitive=is_case_sensitive(handle),
            on_scan=on_scan,
            on_filters=None if on_scan is None else recording(handle, snapshot),
        )

    from zskip.spark.jvm.failures import translated

    with translated(f'open "{handle.storage.root}"'):
        return open_reader(handle).frame(prune)


def recording(handle: Handle, snapshot: Snapshot) -> OnFilters | None:
    """Notes scans for the workload; None where it is not recorded."""
    fields = (*snapshot.fields, *snapshot.partition_fields)
    listener = scan_listener(home_of(handle), fields, is_case_sensitive(handle))
    if listener is not None:
        collect_from(handle.need_spark("df()"))
    return listener


def report_scans(handle: Handle) -> None:
    """Have the scans reported that only the session's JVM knows."""
    if handle.spark is None:
        return
    from zskip.spark.jvm.gateway import Jvm
    from zskip.spark.scan.rule.reports import collect_scans

    try:
        collect_scans(Jvm.of(handle.spark))
    except Exception:
        _log.debug("scans are not reported", exc_info=True)


def plan_scan(handle: Handle, where: str | pc.Expression | None, *, deletes: bool = True) -> ScanPlan:
    """Plan a scan of the version that is current now.

    deletes: whether the caller applies what deletes rows of the files. Raises UnsupportedError where the files, even
    so, are not the rows.
    """
    reader = open_metadata(handle)
    reader.check_files(deletes=deletes)
    return plan_snapshot(handle, reader.snapshot, where)


def plan_snapshot(handle: Handle, snapshot: Snapshot, where: str | pc.Expression | None) -> ScanPlan:
    """Plan a scan of a snapshot, which counts for the workload.

    Files whose row groups are all ruled out are dropped. Rows of the files may be deleted.
    """
    predicate = read_where(handle, snapshot, where)
    plan = plan_bound(handle, bind_index(handle, snapshot, warn=where is not None), predicate, where)
    note_scan(handle, predicate, plan.report)
    return plan


def plan_bound(
    handle: Handle, bound: BoundIndex, predicate: Predicate, where: str | pc.Expression | None = None
) -> ScanPlan:
    """Plan a scan of the snapshot of an index; where: what the user wrote."""
    started, snapshot = time.perf_counter(), bound.snapshot
    result = bound.prune(predicate)
    row_groups = prune_row_groups(bound, predicate, result.kept)
    groups_by_file = {} if row_groups is None else row_groups.by_file
    kept = np.array([i for i in np.flatnonzero(result.kept).tolist() if groups_by_file.get(i) != ()], np.int64)
    if len(kept) < result.files:
        result = replace(result, kept=np.isin(np.arange(len(snapshot)), kept))
    counts = [len(groups_by_file[i]) for i in kept.tolist() if i in groups_by_file]
    report = replace(
        _report(snapshot, bound, result, time.perf_counter() - started),
        row_groups=sum(counts) if row_groups is not None and len(counts) == len(kept) else None,
        row_groups_total=None if row_groups is None else row_groups.total,
    )
    return ScanPlan(
        where=where,
        condition=predicate,
        report=report,
        handle=handle,
        bound=bound,
        kept=kept,
        row_groups=groups_by_file,
    )


def note_scan(handle: Handle, predicate: Predicate, report: ScanReport) -> None:
    """Have a scan count for the workload, if it is recorded."""
    workload_recorder = recorder(home_of(handle))
    if workload_recorder is not None:
        workload_recorder.note(lambda: text_of([predicate]), report)


def _report(snapshot: Snapshot, bound: BoundIndex, result: PruneResult, seconds: float) -> ScanReport:
    return ScanReport(
        files=result.files,
        files_total=len(snapshot),
        bytes=int(snapshot.sizes[result.kept].sum()),
        bytes_total=snapshot.bytes,
        rows=known_rows(bound, result.kept),
        rows_total=known_rows(bound, np.ones_like(result.kept)),
        seconds=seconds,
        leaves=result.leaves,
    )
