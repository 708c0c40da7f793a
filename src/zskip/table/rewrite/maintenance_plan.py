"""What a maintain should rewrite: the table at one moment, its layout, and the batches that are worth their bytes."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from zskip.advisor.fitting.cross_validation import ParsedWorkload
from zskip.advisor.fitting.predicate_boxes import ONLY_NULLS, boxes_of
from zskip.advisor.maintenance.planner import MaintenancePlan, plan_maintenance
from zskip.advisor.maintenance.row_scale import Bounds
from zskip.errors import ColumnError, InputError
from zskip.index import BoundIndex
from zskip.layout.curves import curve_traits, default_curve
from zskip.layout.layout import Layout
from zskip.records import Field, Ints, Snapshot
from zskip.table.advice.read_workload import parse_workload
from zskip.table.index_binding import bind_metadata
from zskip.table.journal import Clustering, read_clustering, read_journal
from zskip.table.optimize_request import DEFAULT_FILE_SIZE
from zskip.table.predicates import clustering_fields, name_keys
from zskip.table.read.info import layout_of
from zskip.table.rewrite.file_bounds import bind_fresh_index, read_bounds
from zskip.table.rewrite.maintenance_request import MaintenanceRequest
from zskip.table.version import TableVersion
from zskip.units import show_size

MOST_QUERIES = 300
"""Queries of the workload to choose batches by; of more, some are drawn by weight."""
_log = logging.getLogger("zskip")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PlannedTable:
    """A version of the table, and the batches to rewrite."""

    version: TableVersion
    bound: BoundIndex
    by: tuple[str, ...]
    fields: tuple[Field, ...]
    """The same columns."""
    curve: str
    build: str
    target: int
    """Bytes of a file."""
    layout: Layout | None
    """The fitted layout by which new files are placed; None of other curves."""
    clustering: Clustering | None
    rows: Ints
    columns: Sequence[Bounds]
    parsed: ParsedWorkload
    """The queries that chose the batches."""
    plan: MaintenancePlan

    @property
    def snapshot(self) -> Snapshot:
        """The table's files."""
        return self.bound.snapshot


def plan_table(
    version: TableVersion,
    request: MaintenanceRequest,
    *,
    spent: int = 0,
    eligible: Set[str] | None = None,
    bound: BoundIndex | None = None,
    parsed: ParsedWorkload | None = None,
) -> PlannedTable:
    """Read the bounds of the files, and plan; raises what is wrong with the table or the request.

    spent: bytes of the budget; eligible: paths of files that may be rewritten, by default all; bound: the
    files to plan for, those of today by default; parsed: the request's workload, if it is parsed already.
    """
    handle = version.handle
    bound = _bind(version, dry_run=request.dry_run) if bound is None else bound
    snapshot = bound.snapshot
    clustering = read_clustering(read_journal(handle.home), snapshot)
    by, curve, build = _choose_layout(version, snapshot, clustering, request)
    target = request.target_file_size
    target = target or (clustering.newest.target_file_size if clustering else None) or DEFAULT_FILE_SIZE
    if request.budget is not None and request.budget < target and not request.any_budget:
        raise InputError(
            f"budget={request.budget} is less than one file of {show_size(target)}; give more, or a smaller "
            "target_file_size"
        )
    fields = _find_keys(version, snapshot, by)
    if clustering is not None and clustering.newest.operation.by != tuple(field.name for field in fields):
        clustering = None
    if parsed is None:
        parsed = parse_workload(handle, snapshot, request.workload)[1]
    queries = dataclasses.replace(parsed, predicates=name_keys(handle, snapshot, fields, parsed.predicates))
    rows = np.maximum(bound.rows, 0)
    columns = read_bounds(bound, fields, None if clustering is None else clustering.largest_run.layout())
    plan = plan_maintenance(
        snapshot,
        rows,
        columns,
        target=target,
        deleted=_count_deleted_rows(version, snapshot),
        budget=None if request.budget is None else max(request.budget - spent, 0),
        linear=curve_traits(curve).is_lexicographic,
        reference=None if clustering is None else _largest_run(clustering),
        settled=np.array([eligible is not None and path not in eligible for path in snapshot.paths], np.bool_),
        runs=None if clustering is None else clustering.run_numbers,
        queries=_read_ranges(fields, queries),
        unseen=request.unseen,
    )
    return PlannedTable(
        version=version,
        bound=bound,
        by=by,
        fields=fields,
        curve=curve,
        build=build,
        target=target,
        layout=clustering.largest_run.layout() if clustering and curve_traits(curve).needs_workload else None,
        clustering=clustering,
        rows=rows,
        columns=columns,
        parsed=parsed,
        plan=plan,
    )


def _bind(version: TableVersion, *, dry_run: bool) -> BoundIndex:
    version.metadata.check()
    if version.metadata.indexes_files:
        return bind_fresh_index(version, version.snapshot, writes=not dry_run)
    return bind_metadata(version.handle, version.snapshot)


def _count_deleted_rows(version: TableVersion, snapshot: Snapshot) -> Ints | None:
    """(files,) the deleted rows of each file, None where files are their rows or nobody can tell."""
    try:
        return version.metadata.count_deleted_rows(snapshot)
    finally:
        version.metadata.release()


def _find_keys(version: TableVersion, snapshot: Snapshot, by: Sequence[str]) -> tuple[Field, ...]:
    return clustering_fields(by, snapshot, case_sensitive=version.case_sensitive, timezone=version.timezone)


def _choose_layout(
    version: TableVersion, snapshot: Snapshot, clustering: Clustering | None, request: MaintenanceRequest
) -> tuple[tuple[str, ...], str, str]:
    """Choose columns, curve and build: those of the last time, or new ones."""
    last = layout_of(version.handle, snapshot, clustering)
    if request.by is not None:
        by = tuple(field.name for field in _find_keys(version, snapshot, request.by))
        if last is None or last.by != by:
            if last is not None:
                _log.info("%s changes from %s to %s, batch by batch", snapshot.root, last.by, by)
            return by, default_curve(len(by)), "sample"
    if last is None:
        raise InputError(
            f'"{snapshot.root}" was never clustered, so maintain() does not know the columns; give them once, such as '
            'by=["a", "b"]'
        )
    try:
        _find_keys(version, snapshot, last.by)
    except ColumnError as error:
        raise ColumnError(
            f'"{snapshot.root}" was clustered by {", ".join(last.by)}, which is no longer possible: {error}. Give "by" '
            "with the columns to cluster by from now on"
        ) from error
    return last.by, last.curve, last.build


def _largest_run(clustering: Clustering) -> Ints | None:
    """The files of the operation that clustered the most of the live ones."""
    files = np.flatnonzero(clustering.run_numbers == clustering.largest)
    return files if len(files) else None


def _read_ranges(fields: Sequence[Field], parsed: ParsedWorkload) -> list[tuple[dict[int, tuple[Any, Any]], float]]:
    """Read the ranges of the clustering columns in queries, with weights."""
    parsed = parsed.draw(MOST_QUERIES, 0)
    numbers = {field.path: i for i, field in enumerate(fields)}
    weighted_ranges = []
    for predicate, weight in zip(parsed.predicates, parsed.weights.tolist(), strict=True):
        boxes = boxes_of(predicate)
        ranges = [
            {numbers[path]: ends for path, ends in box.items() if path in numbers and ends is not ONLY_NULLS}
            for box in boxes
        ]
        weighted_ranges += [(by_column, weight / len(boxes)) for by_column in ranges]
    return weighted_ranges
