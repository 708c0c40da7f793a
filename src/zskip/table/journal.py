"""What zskip did to a table, kept beside it: one record an operation, with the layout and the files that are in it.

`operations/<time>-<id>.json.gz` below zskip's home in the table. Nothing that is right or wrong depends on it: a record
that is lost, damaged or of another version of zskip makes the files in it count as not clustered, no more.
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

CLUSTERS = ("optimize", "maintain")
"""Operations that bring rows into the order of a layout."""
_FORMAT = 1
_ASKED = ("share_measured", "scans")
"""What a record does not keep of an operation."""
_KEPT = 1_000
"""Records that stay; older ones go unless their files are live."""
_log = logging.getLogger("zskip")

Depths = Mapping[str, Mapping[int, int]]
"""For columns by which rows are clustered: how many files there are at each depth, as `ClusteringInfo` counts it."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Record:
    """One operation, and which of the table's files it wrote by which layout."""

    name: str
    """Of its file; records sort by it as they were written."""
    operation: Operation
    target_file_size: int | None = None
    """Bytes that a file aimed at."""
    files: Mapping[str, int] | None = None
    """Paths and bytes of the files it wrote by a layout; None where that is not known any more."""
    layout_json: str | None = None
    depths: Depths | None = None
    """Of the whole table as it was before; None where that was not looked at."""

    @property
    def clusters(self) -> bool:
        """Whether it brought rows into the order of a layout."""
        return bool(self.operation.by)

    def layout(self) -> Layout | None:
        """The layout; None where it is not known, or of another version."""
        try:
            return None if self.layout_json is None else Layout.from_json(self.layout_json)
        except InputError as error:
            _log.info("the layout in %s is left out: %s", self.name, error)
            return None

    def members(self, snapshot: Snapshot) -> Bools:
        """(files,) which files of a snapshot it wrote."""
        held = self.files or {}
        found = (held.get(path) == size for path, size in zip(snapshot.paths, snapshot.sizes.tolist(), strict=True))
        return np.fromiter(found, np.bool_, len(snapshot))


def read_journal(home: Storage) -> list[Record]:
    """All records that this zskip can read, the oldest first."""
    found = []
    for file in sorted(home.list_dir(OPERATIONS), key=lambda file: file.path):
        if not file.path.endswith(".json.gz"):
            continue
        try:
            found.append(_read(file.path.rpartition("/")[2], home.read(file.path)))
        except FileNotFoundError:
            continue
        except (OSError, EOFError, ValueError, KeyError, TypeError, zlib.error) as error:
            _log.info("%s is left out: %s", home.uri(file.path), error)
    return found


def _read(name: str, data: bytes) -> Record:
    content = json.loads(gzip.decompress(data))
    if content["format"] != _FORMAT:
        raise ValueError(f"it has format {content['format']}, this zskip knows {_FORMAT}")
    said = content["operation"]
    return Record(
        name=name,
        operation=Operation(**{**said, "by": tuple(said["by"])}),
        target_file_size=content["target_file_size"],
        files=content["files"],
        layout_json=None if content["layout"] is None else json.dumps(content["layout"]),
        depths=_depths(content.get("depths")),
    )


def _depths(said: Mapping[str, Mapping[str, int]] | None) -> Depths | None:
    if said is None:
        return None
    return {name: {int(depth): files for depth, files in counts.items()} for name, counts in said.items()}


def keep(
    handle: Handle,
    operation: Operation,
    *,
    names: Sequence[str] = (),
    layout: Layout | None = None,
    target_file_size: int | None = None,
    depths: Depths | None = None,
) -> None:
    """Write a record of an operation that is committed, so that a failure here is no failure of it.

    names: of the files it wrote by the layout, without directories; depths: of the table before it.
    """
    try:
        snapshot = handle.format.snapshot()
        wanted = set(names)
        files = {
            path: size
            for path, size in zip(snapshot.paths, snapshot.sizes.tolist(), strict=True)
            if path.rpartition("/")[2] in wanted
        }
        record = Record(
            name=f"{time.time_ns() // 1_000_000:016d}-{uuid.uuid4().hex[:8]}.json.gz",
            operation=operation,
            target_file_size=target_file_size,
            files=files if layout is not None else None,
            layout_json=None if layout is None else layout.to_json(),
            depths=depths,
        )
        _write(handle.home, record)
        _forget(handle.home, snapshot, record.name)
    except ZskipError as error:
        warnings.warn(f"it is committed, but the record of it could not be kept: {error}", ZskipWarning, stacklevel=4)


def depths_of(bound: BoundIndex, fields: Sequence[Field]) -> Depths:
    """How deep the files of a table lie in each clustering column of which something is known."""
    found = ((of.name, bound.column((of.name,))) for of in fields)
    return {name: clustering(name, stats).depth_histogram for name, stats in found if stats is not None}


def _write(home: Storage, record: Record, *, overwrite: bool = False) -> None:
    said = {name: getattr(record.operation, name) for name in Operation.__dataclass_fields__ if name not in _ASKED}
    content = {
        "format": _FORMAT,
        "operation": {**said, "by": list(record.operation.by)},
        "target_file_size": record.target_file_size,
        "files": record.files,
        "layout": None if record.layout_json is None else json.loads(record.layout_json),
        "depths": record.depths,
    }
    text = json.dumps(content, separators=(",", ":")).encode()
    home.write(f"{OPERATIONS}/{record.name}", gzip.compress(text, 5, mtime=0), overwrite=overwrite)


def _forget(home: Storage, snapshot: Snapshot, newest: str) -> None:
    """Keep layouts and lists of files only as long as files are live, and not more than some records."""
    records = [record for record in read_journal(home) if record.name != newest]
    clustered = [record.name for record in records if record.clusters]
    for i, record in enumerate(reversed(records)):
        # That of the latest clustering stays: by it the next one goes on.
        if record.files is not None and record.name != clustered[-1] and not record.members(snapshot).any():
            with contextlib.suppress(StorageError, FileNotFoundError):
                bare = Record(name=record.name, operation=record.operation, target_file_size=record.target_file_size)
                _write(home, bare, overwrite=True) if i < _KEPT else home.delete(f"{OPERATIONS}/{record.name}")
        elif record.files is None and i >= _KEPT:
            home.delete(f"{OPERATIONS}/{record.name}")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Clustered:
    """By what a table is clustered, and which files are."""

    newest: Record
    runs: tuple[Record, ...]
    """All that were written by the same columns, curve and build, the oldest first."""
    members: tuple[Bools, ...]
    """For each run (files,) which are its."""

    @property
    def files(self) -> Bools:
        """(files,) which are in the layout."""
        found = np.zeros_like(self.members[0])
        for members in self.members:
            found |= members
        return found


def clustered(records: Sequence[Record], snapshot: Snapshot) -> Clustered | None:
    """What the records say of the files of a snapshot; None where the table was never clustered."""
    clusters = [record for record in records if record.clusters]
    if not clusters:
        return None
    newest = clusters[-1]
    same = [record for record in clusters if _kind(record.operation) == _kind(newest.operation)]
    return Clustered(newest=newest, runs=tuple(same), members=tuple(record.members(snapshot) for record in same))


def _kind(operation: Operation) -> tuple[Any, ...]:
    return operation.by, operation.curve, operation.build
