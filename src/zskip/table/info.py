"""What lies at a path."""

from __future__ import annotations

from zskip.errors import IndexFormatError
from zskip.index import Index
from zskip.records import IndexInfo, LayoutInfo, Snapshot, TableInfo
from zskip.table.handle import Handle


def describe(handle: Handle) -> TableInfo:
    """Files, rows, columns, partitions, index and layout of a table."""
    snapshot = handle.snapshot()
    index, rows = _index(handle, snapshot)
    return TableInfo(
        path=handle.storage.root,
        format=handle.format.name,
        version=snapshot.version,
        files=len(snapshot),
        bytes=snapshot.bytes,
        rows=rows,
        columns={field.name: str(field.type) for field in (*snapshot.fields, *snapshot.partition_fields)},
        partition_columns=tuple(field.name for field in snapshot.partition_fields),
        partitions=len(snapshot.partitions),
        index=index,
        layout=_layout(handle),
    )


def _index(handle: Handle, snapshot: Snapshot) -> tuple[IndexInfo | None, int | None]:
    try:
        index = Index.load(handle.storage)
    except IndexFormatError:
        return None, None
    if index is None:
        return None, None
    bound = index.bind(snapshot, case_sensitive=handle.case_sensitive)
    complete = bound.coverage == len(snapshot)
    return bound.info(), int(bound.rows.sum()) if complete else None


def _layout(handle: Handle) -> LayoutInfo | None:
    latest = handle.format.last_operation()
    if latest is None or latest[1].get("operation") != "optimize":
        return None
    version, info = latest
    return LayoutInfo(version=version, by=tuple(info["by"]), curve=info["curve"], build=info["build"])
