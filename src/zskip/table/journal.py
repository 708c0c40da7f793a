"""The journal of a table: one record for each operation of zskip, with its layout and the files it wrote.

Records are `operations/<time>-<id>.json.gz` below zskip's home in the table. Correctness never depends on them: where a
record is lost, damaged or of another version of zskip, its files count as not clustered.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import logging
import time
import uuid
import warnings
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zskip.errors import InputError, StorageError, ZskipError, ZskipWarning
from zskip.formats import OPERATIONS
from zskip.index import BoundIndex
from zskip.layout.layout import Layout
from zskip.prune import clustering
from zskip.records import Bools, Field, Operation, Snapshot
from zskip.storage import Storage
from zskip.table.handle import Handle

CLUSTERING_OPERATIONS = ("optimize", "maintain", "write", "append")
"""Operations that put rows in the order of a layout."""
_FORMAT = 1
_NOT_STORED = ("share_measured", "scans")
"""What a record leaves out of an operation."""
_MAX_RECORDS = 1_000
"""Older records are deleted unless their files are live."""
_log = logging.getLogger("zskip")

Depths = Mapping[str, Mapping[int, int]]
"""The number of files at each depth of each clustering column, as `ClusteringInfo` counts it."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Record:
    """One operation, its layout, and the files it wrote."""

    name: str
    """The name of its file; names sort by time of writing."""
    operation: Operation
    target_file_size: int | None = None
    """Bytes."""
    files: Mapping[str, int] | None = None
    """Paths and bytes of the files it wrote by a layout; None where the record no longer has them."""
    layout_json: str | None = None
    depths: Depths | None = None
    """The whole table's before the operation; None where nobody counted."""

    @property
    def clusters(self) -> bool:
        """Whether it put rows in the order of a layout."""
        return bool(self.operation.by)

    def layout(self) -> Layout | None:
        """The layout; None where it is unknown or of another version."""
        try:
            return None if self.layout_json is None else Layout.from_json(self.layout_json)
        except InputError as error:
            _log.info("ignoring the layout in %s: %s", self.name, error)
            return None

    def members(self, snapshot: Snapshot) -> Bools:
        """(files,) whether the operation wrote each file of a snapshot."""
        sizes = self.files or {}
        is_member = (
            sizes.get(path) == size for path, size in zip(snapshot.paths, snapshot.sizes.tolist(), strict=True)
        )
        return np.fromiter(is_member, np.bool_, len(snapshot))


def read_journal(home: Storage) -> list[Record]:
    """Read all records that this version of zskip understands, the oldest first."""
    records = []
    for file in sorted(home.list_dir(OPERATIONS), key=lambda file: file.path):
        if not file.path.endswith(".json.gz"):
            continue
        try:
            records.append(_read(file.path.rpartition("/")[2], home.read(file.path)))
        except FileNotFoundError:
            continue
        except (OSError, EOFError, ValueError, KeyError, TypeError, zlib.error) as error:
            _log.info("ignoring %s: %s", home.uri(file.path), error)
    return records


def _read(name: str, data: bytes) -> Record:
    content = json.loads(gzip.decompress(data))
    if content["format"] != _FORMAT:
        raise ValueError(f"it has format {content['format']}, this zskip knows {_FORMAT}")
    operation = content["operation"]
    return Record(
        name=name,
        operation=Operation(**{**operation, "by": tuple(operation["by"])}),
        target_file_size=content["target_file_size"],
        files=content["files"],
        layout_json=None if content["layout"] is None else json.dumps(content["layout"]),
        depths=_read_depths(content.get("depths")),
    )


def _read_depths(counts_by_column: Mapping[str, Mapping[str, int]] | None) -> Depths | None:
    if counts_by_column is None:
        return None
    return {name: {int(depth): files for depth, files in counts.items()} for name, counts in counts_by_column.items()}


def record_operation(
    handle: Handle,
    operation: Operation,
    *,
    names: Sequence[str] = (),
    layout: Layout | None = None,
    target_file_size: int | None = None,
    depths: Depths | None = None,
) -> None:
    """Record a committed operation; a failure costs a warning only.

    names: of the files it wrote by the layout, without directories; depths: of the table before it.
    """
    try:
        snapshot = handle.format.snapshot()
        written = set(names)
        files = {
            path: size
            for path, size in zip(snapshot.paths, snapshot.sizes.tolist(), strict=True)
            if path.rpartition("/")[2] in written
        }
        record = Record(
            name=f"{time.time_ns() // 1_000:016d}-{uuid.uuid4().hex[:8]}.json.gz",
            operation=operation,
            target_file_size=target_file_size,
            files=files if layout is not None else None,
            layout_json=None if layout is None else layout.to_json(),
            depths=depths,
        )
        _write(handle.home, record)
        _expire(handle.home, snapshot, record.name)
    except ZskipError as error:
        warnings.warn(
            f"the operation is committed, but its record could not be written: {error}", ZskipWarning, stacklevel=4
        )


def count_depths(bound: BoundIndex, fields: Sequence[Field]) -> Depths:
    """Count files by depth for each clustering column that has statistics."""
    stats_by_name = ((field.name, bound.column(field.path)) for field in fields)
    return {name: clustering(name, stats).depth_histogram for name, stats in stats_by_name if stats is not None}


def _write(home: Storage, record: Record, *, overwrite: bool = False) -> None:
    operation = {
        name: getattr(record.operation, name) for name in Operation.__dataclass_fields__ if name not in _NOT_STORED
    }
    content = {
        "format": _FORMAT,
        "operation": {**operation, "by": list(record.operation.by)},
        "target_file_size": record.target_file_size,
        "files": record.files,
        "layout": None if record.layout_json is None else json.loads(record.layout_json),
        "depths": record.depths,
    }
    text = json.dumps(content, separators=(",", ":")).encode()
    home.write(f"{OPERATIONS}/{record.name}", gzip.compress(text, 5, mtime=0), overwrite=overwrite)


def _expire(home: Storage, snapshot: Snapshot, newest: str) -> None:
    """Drop layouts and file lists without live files, and the oldest records beyond the limit."""
    records = [record for record in read_journal(home) if record.name != newest]
    clustered = [record.name for record in records if record.clusters]
    for i, record in enumerate(reversed(records)):
        # The latest clustering stays, since the next one continues it.
        if record.files is not None and record.name != clustered[-1] and not record.members(snapshot).any():
            with contextlib.suppress(StorageError, FileNotFoundError):
                bare = Record(name=record.name, operation=record.operation, target_file_size=record.target_file_size)
                _write(home, bare, overwrite=True) if i < _MAX_RECORDS else home.delete(f"{OPERATIONS}/{record.name}")
        elif record.files is None and i >= _MAX_RECORDS:
            home.delete(f"{OPERATIONS}/{record.name}")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Clustering:
    """The layout that a table is clustered by, and the files in it."""

    newest: Record
    runs: tuple[Record, ...]
    """All operations by the same columns, curve and build, the oldest first."""
    members: tuple[Bools, ...]
    """For each run (files,) whether it wrote the file."""

    @property
    def largest_run(self) -> Record:
        """The operation that wrote the most of the live files, the last of several."""
        live = [int(members.sum()) for members in self.members]
        return self.runs[len(live) - 1 - int(np.argmax(live[::-1]))]

    @property
    def files(self) -> Bools:
        """(files,) whether the file is in the layout."""
        files: Bools = np.logical_or.reduce(self.members)
        return files


def read_clustering(records: Sequence[Record], snapshot: Snapshot) -> Clustering | None:
    """Find the table's clustering in its records; None where it was never clustered."""
    clusterings = [record for record in records if record.clusters]
    if not clusterings:
        return None
    newest = clusterings[-1]
    runs = [record for record in clusterings if _layout_kind(record.operation) == _layout_kind(newest.operation)]
    return Clustering(newest=newest, runs=tuple(runs), members=tuple(record.members(snapshot) for record in runs))


def _layout_kind(operation: Operation) -> tuple[Any, ...]:
    return operation.by, operation.curve, operation.build
