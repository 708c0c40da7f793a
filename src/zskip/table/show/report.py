"""A report of a table, on one page of steps: read metadata, summarize, draw, write; the table stays unchanged.

snapshot, index, journal -> spreads along columns, what queries read -> one HTML file, renamed into place when whole
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from zskip.advisor.advice.advice import Advice
from zskip.advisor.workload.workload import Query, Workload, shape
from zskip.errors import InputError, StorageError, ZskipError, ZskipWarning
from zskip.index import BoundIndex, KeptRowGroups, list_indexed_parts, prune_row_groups
from zskip.predicate import Predicate, columns_of, conjunction, conjuncts
from zskip.prune import prune
from zskip.records import Bools, Field, IndexedPart, LeafReport, Maintenance, Snapshot, TableInfo
from zskip.report import Facts, Queries, QueryReads, Spread, figure, need_libraries, spread_of, to_html
from zskip.table.advice.advise import advise
from zskip.table.advice.read_workload import describe_workload, read_predicates
from zskip.table.handle import Handle
from zskip.table.index_binding import bind_index
from zskip.table.optimize_request import AUTO, Given, check_arguments, check_request
from zskip.table.predicates import is_only_about
from zskip.table.read.info import describe, find_known, history, resolve_orderable
from zskip.table.rewrite.maintain import maintain
from zskip.table.rewrite.maintenance_request import MaintenanceRequest
from zskip.table.version import TableVersion, open_version
from zskip.version import __version__

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_MOST_COLUMNS = 5
_MOST_ENTRIES = 20_000_000
"""Columns times files; beyond that, the report describes only the drawn columns of the index."""
_MOST_QUERIES = 1_000
_MOST_FILES_READ = 200_000_000
"""Queries times files; a very large table gets fewer queries."""
_FEWEST_QUERIES = 50


def report(
    handle: Handle, path: str | os.PathLike[str] | None, workload: Given, by: Sequence[str] | str | None
) -> Path:
    """Write a report of a table; see `Table.report`."""
    need_libraries("jinja2", "plotly")
    target = check_target(_default_name(handle) if path is None else path)
    facts, bound = gather(handle, workload, by)
    write_page(target, to_html(facts, bound.rows))
    return target


def plot(handle: Handle, by: Sequence[str] | str | None) -> Figure:
    """Draw the files of a table over one or two columns; see `Table.plot`."""
    need_libraries("plotly")
    import plotly.graph_objects as go

    names = None if by is None else [by] if isinstance(by, str) else list(by)
    if names is not None and not 1 <= len(names) <= 2:
        raise InputError(f"by={names!r} names {len(names)} columns; a picture shows one or two")
    version = open_version(handle)
    snapshot, bound = version.snapshot, bind_index(handle, version.snapshot)
    spreads = _spreads(bound, _columns(version, bound, names, None)[:2], names is not None)
    if not spreads:
        raise InputError(f'"{snapshot.root}" has no columns with bounds to draw; build an index with Table.index()')
    return go.Figure(figure(spreads, snapshot, bound.rows))


def gather(handle: Handle, workload: Given, by: Sequence[str] | str | None) -> tuple[Facts, BoundIndex]:
    """Gather the facts of a report, and the index."""
    version = open_version(handle)
    snapshot = version.snapshot
    if workload is not None and not isinstance(workload, str | Workload):
        workload = Workload.of(workload)
    notes: list[str] = []
    bound = _bound(handle, snapshot, notes)
    info = describe(version, by, bound if bound.info().version else None)
    queries = _measure_queries(handle, snapshot, bound, workload, notes)
    fields = _columns(version, bound, by, (info, queries))
    spreads = _spreads(bound, fields, by is not None)
    now = dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    facts = Facts(
        info=info,
        snapshot=snapshot,
        created=f"zskip {__version__} report, {now}",
        spreads=spreads,
        parts=_parts(bound, fields) if info.index is not None else (),
        history=history(handle),
        queries=queries,
        upkeep=_upkeep(handle, info, workload, notes),
        advice=None if queries is None else _advice(handle, info, workload, notes),
        notes=tuple(notes),
    )
    return facts, bound


def _bound(handle: Handle, snapshot: Snapshot, notes: list[str]) -> BoundIndex:
    """Bind the index; its problems become notes instead of warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ZskipWarning)
        bound = bind_index(handle, snapshot)
    notes += [str(warning.message) for warning in caught if issubclass(warning.category, ZskipWarning)]
    feature = snapshot.reading.feature
    if feature is not None:
        notes.append(f"The format's own code reads this table, since it uses {feature}.")
    return bound


def _columns(
    version: TableVersion,
    bound: BoundIndex,
    by: Sequence[str] | str | None,
    known: tuple[TableInfo, Queries | None] | None,
) -> list[Field]:
    """Choose the given columns, else those of the layout and of queries, else the first with bounds."""
    if by is not None:
        return resolve_orderable(version, by)
    info, queries = known or (describe(version, None), None)
    candidates = dict.fromkeys(info.layout.by if info.layout is not None else ())
    for query in queries.entries if queries is not None else ():
        candidates |= dict.fromkeys(query.columns)
    named = find_known(list(candidates), version.snapshot, case_sensitive=bound.case_sensitive)
    fields = [field for field in named if field.type.form is not None][:_MOST_COLUMNS]
    if fields:
        return fields
    for field in version.columns.fields:
        stats = bound.column(field.path) if field.type.form is not None and len(fields) < 2 else None
        if stats is not None and stats.bounded.any():
            fields.append(field)
    return fields


def _spreads(bound: BoundIndex, fields: Sequence[Field], show_all: bool) -> tuple[Spread, ...]:
    """show_all: whether to show columns without statistics too."""
    stats_by_name = ((field.name, bound.column(field.path)) for field in fields)
    return tuple(
        spread_of(name, stats, bound.rows, bound.snapshot.sizes)
        for name, stats in stats_by_name
        if stats is not None and (show_all or stats.bounded.any() or len(fields) <= _MOST_COLUMNS)
    )


def _parts(bound: BoundIndex, fields: Sequence[Field]) -> tuple[IndexedPart, ...]:
    is_small = len(bound.snapshot) * len(bound.snapshot.fields) <= _MOST_ENTRIES
    return list_indexed_parts(bound, None if is_small else {field.path[0] for field in fields})


def _upkeep(handle: Handle, info: TableInfo, workload: Given, notes: list[str]) -> Maintenance | None:
    """Predict a maintain, where the index covers all files."""
    if info.layout is None or info.index is None or info.index.files < info.index.files_total:
        return None
    request = check_arguments(MaintenanceRequest, workload=workload, dry_run=True)
    try:
        return maintain(handle, request)
    except ZskipError as error:
        notes.append(f"zskip cannot predict what maintain would do: {error}")
        return None


def _advice(handle: Handle, info: TableInfo, workload: Given, notes: list[str]) -> Advice | None:
    """Compare layouts on the workload, with files of the current size, where Spark can draw a sample."""
    if handle.session is None or not info.files:
        return None
    try:
        size = max(1, info.bytes // info.files)
        return advise(handle, check_request(by=AUTO, curve=AUTO, target_file_size=size, workload=workload))
    except ZskipError as error:
        notes.append(f"There is no advice: {error}")
        return None


def _measure_queries(
    handle: Handle, snapshot: Snapshot, bound: BoundIndex, queries: Given, notes: list[str]
) -> Queries | None:
    """Measure what each query of a workload reads, by default of the recorded one; None where there is none.

    Raises InputError where none of the given queries is usable.
    """
    most = max(_FEWEST_QUERIES, min(_MOST_QUERIES, _MOST_FILES_READ // max(len(snapshot), 1)))
    try:
        workload, predicates = read_predicates(handle, snapshot, queries, most=most)
    except ZskipError as error:
        if queries is not None:
            raise
        notes.append(f"The recorded workload is not shown: {error}")
        return None
    if not predicates:
        return None
    costs: list[QueryReads] = []
    reads = np.zeros(len(snapshot))
    for query, predicate in zip(workload.queries, predicates, strict=True):
        cost, kept = _measure_query(bound, predicate, query)
        costs.append(cost)
        reads[kept] += query.weight
    return Queries(
        source=describe_workload(workload),
        entries=tuple(costs),
        problems=tuple(str(problem) for problem in workload.problems),
        reads=reads / workload.weight,
    )


def _measure_query(bound: BoundIndex, predicate: Predicate, query: Query) -> tuple[QueryReads, Bools]:
    snapshot = bound.snapshot
    result = bound.prune(predicate)
    kept = result.kept
    names: set[tuple[str, ...]] = {(name,) for name in snapshot.partition_names}
    partition_parts = [part for part in conjuncts(predicate) if is_only_about(part, names)]
    by_partitions = prune(conjunction(tuple(partition_parts)), bound).kept if partition_parts else np.ones_like(kept)
    by_bounds = by_partitions & (kept if bound.sketches is None else prune(predicate, bound).kept | kept)
    row_groups = prune_row_groups(bound, predicate, kept)
    share, idle = None, None
    if row_groups is not None and row_groups.total:
        share = sum(map(len, row_groups.by_file.values())) / row_groups.total
        idle = _idle(snapshot, row_groups)
    columns = {".".join(column.path) for column in columns_of(predicate)}
    cost = QueryReads(
        where=query.where,
        shape=shape(query.where),
        weight=query.weight,
        columns=tuple(sorted(columns)),
        files=int(kept.sum()),
        bytes=int(snapshot.sizes[kept].sum()),
        by_partitions=int((~by_partitions).sum()),
        by_bounds=int((by_partitions & ~by_bounds).sum()),
        by_sketches=int((by_bounds & ~kept).sum()),
        row_groups=share,
        reason=_reason(result.leaves, int(kept.sum()), len(snapshot)),
        idle_files=None if idle is None else idle[0],
        idle_bytes=None if idle is None else idle[1],
    )
    return cost, kept


def _idle(snapshot: Snapshot, row_groups: KeptRowGroups) -> tuple[int, int]:
    """Count kept files without a matching row group, and the bytes in all row groups without a match."""
    files = np.array(list(row_groups.by_file), np.int64)
    needed = np.array([len(numbers) for numbers in row_groups.by_file.values()], np.int64)
    idle = 1 - needed / np.maximum(row_groups.counts[files], 1)
    return int((needed == 0).sum()), int((snapshot.sizes[files] * idle).sum())


def _reason(leaves: Sequence[LeafReport], files: int, total: int) -> str:
    """Explain why a query does not read less."""
    reasons = [f"{leaf.sql}: {leaf.reason}" for leaf in leaves if leaf.reason]
    if reasons:
        return "; ".join(dict.fromkeys(reasons))
    if not leaves:
        return "it has no condition"
    return f"{files:,} of {total:,} files have matching values within their bounds" if files else ""


def _default_name(handle: Handle) -> str:
    name = re.sub(r"[^\w.-]+", "-", handle.storage.root.rstrip("/\\").replace("\\", "/").rpartition("/")[2])
    return f"{name.strip('-.') or 'table'}-report.html"


def check_target(path: str | os.PathLike[str]) -> Path:
    """Check the path of a report before the work; raises InputError where no page can be written there."""
    if not str(path):
        raise InputError("the report's path is empty; name a file, or leave it out")
    target = Path(path).expanduser().absolute()
    if target.is_dir():
        raise InputError(f'"{target}" is a directory; name a file in it, such as "{target / "report.html"}"')
    if target.exists() and not target.is_file():
        raise InputError(f'"{target}" is not a file that a report may replace; name another')
    if not target.parent.is_dir():
        raise InputError(f'there is no directory "{target.parent}" to write the report to; make it, or name another')
    return target


def write_page(target: Path, page: str) -> None:
    """Rename the complete page into place, so that nobody sees a partial one."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", dir=target.parent, prefix=".", suffix=".html", delete=False, encoding="utf-8", newline="\n"
        ) as file:
            written = Path(file.name)
            try:
                file.write(page)
                file.close()
                mask = os.umask(0)
                os.umask(mask)
                written.chmod(0o666 & ~mask)
                written.replace(target)
            except BaseException:
                file.close()
                with contextlib.suppress(OSError):
                    written.unlink()
                raise
    except OSError as error:
        raise StorageError(
            f'cannot write the report to "{target}": {error.strerror or error}; name another place'
        ) from error
