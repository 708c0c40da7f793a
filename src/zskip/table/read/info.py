"""Describe a table: files, rows, columns, index, layout, and how well it is clustered."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from zskip.errors import ColumnError, IndexFormatError, InputError, StorageError
from zskip.index import BoundIndex, list_indexed_parts
from zskip.layout.curves import curve_traits
from zskip.layout.layout import Layout
from zskip.layout.tree.tree import Tree
from zskip.predicate import Column, Columns, Compare, IsNull, Not, Predicate, find_key, to_sql
from zskip.prune import clustering
from zskip.records import (
    ClusteringInfo,
    ColumnCuts,
    Field,
    IndexedPart,
    LayoutInfo,
    Operation,
    Snapshot,
    TableInfo,
    TreeCut,
    TreeInfo,
)
from zskip.table.handle import Handle
from zskip.table.index_binding import bind_loaded, known_rows, load_index
from zskip.table.journal import CLUSTERING_OPERATIONS, Clustering, read_clustering, read_history, read_journal
from zskip.table.version import TableVersion
from zskip.table.workload.recording import read_reservoir

_LEVELS = 3
"""Levels of cuts to show."""


def describe(version: TableVersion, by: Sequence[str] | str | None, bound: BoundIndex | None = None) -> TableInfo:
    """Describe files, rows, columns, partitions, index and layout, and how well the columns `by` are clustered.

    bound: the index, if at hand. Raises ColumnError for an unknown column and InputError for one whose type has no
    order.
    """
    handle, snapshot = version.handle, version.snapshot
    layout = last_layout(version)
    if by is None:
        names = () if layout is None else layout.by
        fields = find_known(names, snapshot, case_sensitive=version.case_sensitive)
    else:
        fields = resolve_orderable(version, by)
    bound = _bind(version) if bound is None else bound
    return TableInfo(
        path=handle.storage.root,
        format=handle.format.name,
        version=snapshot.version,
        files=len(snapshot),
        bytes=snapshot.bytes,
        rows=None if bound is None else known_rows(bound, np.ones(len(snapshot), np.bool_)),
        columns={field.name: str(field.type) for field in (*snapshot.fields, *snapshot.partition_fields)},
        partition_columns=snapshot.partition_names,
        partitions=len(snapshot.partitions),
        index=None if bound is None else bound.info(),
        layout=layout,
        clustering=() if bound is None else _clustering(bound, fields),
    )


def describe_index(version: TableVersion) -> tuple[IndexedPart, ...]:
    """Describe what the index keeps of each column and expression; raises InputError where there is none."""
    index = load_index(version.handle)
    if index is None:
        raise InputError(f'"{version.handle.storage.root}" has no index; build it with Table.index()')
    return list_indexed_parts(bind_loaded(version.handle, index, version.snapshot))


def _bind(version: TableVersion) -> BoundIndex | None:
    if version.snapshot.reading.opaque:
        return None
    try:
        index = load_index(version.handle)
    except (IndexFormatError, StorageError):
        return None
    return None if index is None else bind_loaded(version.handle, index, version.snapshot)


def find_known(names: Sequence[str], snapshot: Snapshot, *, case_sensitive: bool) -> list[Field]:
    """Find those keys that a table still has the columns of."""
    columns = Columns((*snapshot.fields, *snapshot.partition_fields), case_sensitive=case_sensitive)
    fields = []
    for name in names:
        with suppress(ColumnError):
            fields.append(find_key(columns, name, timezone="UTC"))
    return fields


def resolve_orderable(version: TableVersion, by: Sequence[str] | str) -> list[Field]:
    """Find columns, fields inside structs, or expressions of them.

    Raises ColumnError for an unknown column and InputError for one whose type has no order.
    """
    names = [by] if isinstance(by, str) else by
    fields = [find_key(version.columns, name, timezone=version.timezone) for name in names]
    for field in fields:
        if field.type.form is None:
            raise InputError(f'column "{field.name}" is of type {field.type}, which has no order to cluster by')
    return fields


def _clustering(bound: BoundIndex, fields: Sequence[Field]) -> tuple[ClusteringInfo, ...]:
    stats_by_name = [(field.name, bound.column(field.path)) for field in fields]
    return tuple(clustering(name, stats) for name, stats in stats_by_name if stats is not None)


def last_layout(version: TableVersion) -> LayoutInfo | None:
    """How the table was last clustered; None where it never was."""
    handle, snapshot = version.handle, version.snapshot
    return layout_of(handle, snapshot, read_clustering(read_journal(handle.home), snapshot))


def layout_of(handle: Handle, snapshot: Snapshot, latest: Clustering | None) -> LayoutInfo | None:
    """How the table was last clustered; None where it never was.

    latest: its clustering by the journal.
    """
    if latest is None:
        return _layout_from_log(handle)
    operation = latest.newest.operation
    times = [run.operation.time_ms for run, files in zip(latest.runs, latest.live_files, strict=True) if files]
    clustered = latest.files
    return LayoutInfo(
        version=operation.version,
        by=operation.by,
        curve=operation.curve or "",
        build=operation.build or "",
        since_ms=min(times, default=None),
        files=int(clustered.sum()),
        bytes=int(snapshot.sizes[clustered].sum()),
        files_since=int((~clustered).sum()),
        bytes_since=int(snapshot.sizes[~clustered].sum()),
        tree=describe_tree(latest.largest_run.layout()) if curve_traits(operation.curve).needs_workload else None,
    )


def history(handle: Handle) -> tuple[Operation, ...]:
    """All operations, the latest first, each with what the scans recorded after it read."""
    operations = [record.operation for record in reversed(read_history(handle.home))]
    times = sorted({operation.time_ms for operation in operations})
    measured = dict(zip(times, read_reservoir(handle).shares_since(times), strict=True)) if times else {}
    with_scans = ((operation, *measured[operation.time_ms]) for operation in operations)
    return tuple(dataclasses.replace(o, share_measured=share, scans=scans) for o, share, scans in with_scans)


def _layout_from_log(handle: Handle) -> LayoutInfo | None:
    """Read the last rewrite from the format's own log, where the journal has no record."""
    latest = handle.format.last_operation()
    if latest is None or latest[1].get("operation") not in CLUSTERING_OPERATIONS or not latest[1].get("by"):
        return None
    version, info = latest
    return LayoutInfo(version=version, by=tuple(info["by"]), curve=info["curve"], build=info["build"])


def describe_tree(layout: Layout | None) -> TreeInfo | None:
    """Describe the tree of a layout; None without one."""
    if layout is None or (tree := layout.curve.tree) is None:
        return None
    columns = []
    for column, (field, bounds) in enumerate(zip(layout.fields, layout.bounds, strict=True)):
        cuts = tree.cuts[tree.columns == column]
        values = bounds[np.unique(cuts[cuts <= len(bounds)]) - 1]
        lowest, highest = (_literal(field, values[end]) for end in (0, -1)) if len(values) else ("", "")
        columns.append(ColumnCuts(column=field.name, cuts=len(cuts), lowest=lowest, highest=highest))
    return TreeInfo(
        leaves=len(layout.spread), levels=tree.levels, columns=tuple(columns), first=tuple(_first(layout, tree))
    )


def _first(layout: Layout, tree: Tree) -> list[TreeCut]:
    """The cuts of the first levels of the largest tree, each before those below it."""
    cuts: list[TreeCut] = []

    def show(node: int, way: str) -> None:
        if node < 0 or len(way) == _LEVELS:
            return
        reason = tree.reasons[node] if node < len(tree.reasons) else ""
        cuts.append(TreeCut(way=way, left=to_sql(_condition(layout, tree, node)), reason=reason))
        show(int(tree.left[node]), way + "L")
        show(int(tree.right[node]), way + "R")

    show(0 if len(tree.columns) else -1, "")
    return cuts


def _condition(layout: Layout, tree: Tree, node: int) -> Predicate:
    """What is true of the rows that go to the left."""
    field, bounds = layout.fields[tree.columns[node]], layout.bounds[tree.columns[node]]
    column = Column(field.path, field.type)
    cut = int(tree.cuts[node]) - 1
    return Compare("<", column, _value(bounds[cut])) if cut < len(bounds) else Not(IsNull(column))


def _literal(field: Field, value: Any) -> str:
    return to_sql(Compare("=", Column(field.path, field.type), _value(value))).partition(" = ")[2]


def _value(value: Any) -> Any:
    return value if isinstance(value, bytes) else value.item()
