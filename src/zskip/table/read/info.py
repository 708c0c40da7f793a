"""What lies at a path."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zskip.errors import IndexFormatError, InputError, StorageError
from zskip.index import BoundIndex, list_indexed_parts
from zskip.prune import clustering
from zskip.records import ClusteringInfo, IndexedPart, LayoutInfo, Snapshot, TableInfo
from zskip.table.handle import Handle
from zskip.table.index_binding import load_index
from zskip.table.journal import CLUSTERING_OPERATIONS, Clustering, read_clustering, read_journal
from zskip.table.predicates import table_columns
from zskip.table.read.query import known_rows
from zskip.table.session import is_case_sensitive
from zskip.table.snapshot import read_snapshot


def describe(handle: Handle, by: Sequence[str] | str | None) -> TableInfo:
    """Files, rows, columns, partitions, index and layout of a table, and how the columns `by` are clustered.

    Raises ColumnError for an unknown column and InputError for one whose type has no order.
    """
    return describe_snapshot(handle, read_snapshot(handle), by)


def describe_snapshot(
    handle: Handle, snapshot: Snapshot, by: Sequence[str] | str | None, bound: BoundIndex | None = None
) -> TableInfo:
    """The same of a snapshot.

    bound: its index, where that is at hand.
    """
    layout = layout_of(handle, snapshot, read_clustering(read_journal(handle.home), snapshot))
    chosen = _chosen(handle, snapshot, by, layout)
    bound = _bound(handle, snapshot) if bound is None else bound
    return TableInfo(
        path=handle.storage.root,
        format=handle.format.name,
        version=snapshot.version,
        files=len(snapshot),
        bytes=snapshot.bytes,
        rows=None if bound is None else known_rows(bound, np.ones(len(snapshot), np.bool_)),
        columns={field.name: str(field.type) for field in (*snapshot.fields, *snapshot.partition_fields)},
        partition_columns=(*(field.name for field in snapshot.partition_fields), *snapshot.grouped_by),
        partitions=len(snapshot.partitions),
        index=None if bound is None else bound.info(),
        layout=layout,
        clustering=() if bound is None else _clustering(bound, chosen),
    )


def describe_index(handle: Handle) -> tuple[IndexedPart, ...]:
    """What the index keeps of each column and expression; raises InputError where there is none."""
    index = load_index(handle)
    if index is None:
        raise InputError(f'"{handle.storage.root}" has no index; build it with Table.index()')
    return list_indexed_parts(index.bind(read_snapshot(handle), case_sensitive=is_case_sensitive(handle)))


def _bound(handle: Handle, snapshot: Snapshot) -> BoundIndex | None:
    if snapshot.reader is not None:
        return None
    try:
        index = load_index(handle)
    except (IndexFormatError, StorageError):
        return None
    return None if index is None else index.bind(snapshot, case_sensitive=is_case_sensitive(handle))


def _chosen(handle: Handle, snapshot: Snapshot, by: Sequence[str] | str | None, layout: LayoutInfo | None) -> list[str]:
    if by is None:
        known = {field.name for field in (*snapshot.fields, *snapshot.partition_fields)}
        return [name for name in layout.by if name in known] if layout else []
    return orderable(handle, snapshot, by)


def orderable(handle: Handle, snapshot: Snapshot, by: Sequence[str] | str) -> list[str]:
    """Names of columns as the table writes them.

    Raises ColumnError for an unknown column and InputError for one whose type has no order.
    """
    columns = table_columns(handle, snapshot)
    fields = [columns.resolve((name,)) for name in ([by] if isinstance(by, str) else by)]
    for field in fields:
        if field.type.form is None:
            raise InputError(f'column "{field.name}" is of type {field.type}, which has no order to cluster by')
    return [field.name for field in fields]


def _clustering(bound: BoundIndex, names: list[str]) -> tuple[ClusteringInfo, ...]:
    found = [(name, bound.column((name,))) for name in names]
    return tuple(clustering(name, stats) for name, stats in found if stats is not None)


def last_layout(handle: Handle, snapshot: Snapshot) -> LayoutInfo | None:
    """How the table was last clustered; None where it never was."""
    return layout_of(handle, snapshot, read_clustering(read_journal(handle.home), snapshot))


def layout_of(handle: Handle, snapshot: Snapshot, kept: Clustering | None) -> LayoutInfo | None:
    """How the table was last clustered; None where it never was.

    kept: what its journal says.
    """
    return _of_log(handle) if kept is None else _of_journal(kept, snapshot)


def _of_journal(kept: Clustering, snapshot: Snapshot) -> LayoutInfo:
    of = kept.newest.operation
    times = [run.operation.time_ms for run, members in zip(kept.runs, kept.members, strict=True) if members.any()]
    inside = kept.files
    return LayoutInfo(
        version=of.version,
        by=of.by,
        curve=of.curve or "",
        build=of.build or "",
        since_ms=min(times, default=None),
        files=int(inside.sum()),
        bytes=int(snapshot.sizes[inside].sum()),
        files_since=int((~inside).sum()),
        bytes_since=int(snapshot.sizes[~inside].sum()),
    )


def _of_log(handle: Handle) -> LayoutInfo | None:
    """What the format's own log says of the last rewrite, where the table keeps no record."""
    latest = handle.format.last_operation()
    if latest is None or latest[1].get("operation") not in CLUSTERING_OPERATIONS or not latest[1].get("by"):
        return None
    version, info = latest
    return LayoutInfo(version=version, by=tuple(info["by"]), curve=info["curve"], build=info["build"])
