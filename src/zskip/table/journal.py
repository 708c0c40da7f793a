"""The journal of a table: one record for each operation of zskip, with its layout and the files it wrote.

Records are `operations/<time>-<id>.json.gz` below zskip's home in the table. Once there are many, they are folded into
one `operations/<time>-<id>.records.gz`, and those without live files into one `operations/<time>-<id>.history.gz`,
which appends and plans do not read, so that thousands of operations cost them no more than some. Correctness never
depends on records: where one is lost, damaged or of another version of zskip, its files count as not clustered.
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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from zskip.errors import InputError, StorageError, ZskipError, ZskipWarning
from zskip.formats import OPERATIONS
from zskip.layout.layout import Layout
from zskip.records import Bools, Ints, Operation, RewriteResult, Snapshot
from zskip.storage import Storage
from zskip.table.handle import Handle

if TYPE_CHECKING:
    from zskip.table.version import TableVersion

CLUSTERING_OPERATIONS = ("optimize", "maintain", "write", "append")
"""Operations that put rows in the order of a layout."""
_FORMAT = 1
_NOT_STORED = ("share_measured", "scans")
"""What a record leaves out of an operation."""
_MAX_RECORDS = 1_000
"""Without live files; older ones are deleted."""
_MOST_SINGLE = 16
"""More records with a file of their own are folded."""
_MOST_LAYOUTS = 2
"""Records that keep their layouts when they are folded: the latest clustering, and those with the most live files."""
_SINGLE, _FOLDED, _PAST = _KINDS = ".json.gz", ".records.gz", ".history.gz"
_TRIES = 3
UNREADABLE = (OSError, EOFError, ValueError, KeyError, TypeError, zlib.error)
"""Errors of a damaged file of records."""
_log = logging.getLogger("zskip")


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
    layout_data: Mapping[str, Any] | None = None
    """The layout's JSON document, which may be large, as it was read."""

    @property
    def clusters(self) -> bool:
        """Whether it put rows in the order of a layout."""
        return bool(self.operation.by)

    def layout(self) -> Layout | None:
        """The layout; None where it is unknown or of another version."""
        try:
            return None if self.layout_data is None else Layout.from_json(json.dumps(self.layout_data))
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
    """Read the records that tell how the table's files lie, the oldest first."""
    return _read(home, (_SINGLE, _FOLDED))


def read_history(home: Storage) -> list[Record]:
    """Read all records that this version of zskip understands, the oldest first."""
    return _read(home, _KINDS)


def _read(home: Storage, kinds: tuple[str, ...]) -> list[Record]:
    for _ in range(_TRIES):
        parts = [_read_file(home, name) for name in _list_files(home, kinds)]
        if None not in parts:
            break
    return _merge(part for part in parts if part is not None)


def _list_files(home: Storage, kinds: tuple[str, ...]) -> list[str]:
    names = (file.path.rpartition("/")[2] for file in home.list_dir(OPERATIONS))
    return sorted(name for name in names if name.endswith(kinds))


def _merge(parts: Iterable[Sequence[Record]]) -> list[Record]:
    """The records of some files, the oldest first, each once."""
    records = {record.name: record for part in parts for record in part}
    return [records[name] for name in sorted(records)]


def _read_file(home: Storage, name: str) -> list[Record] | None:
    """The records in a file, none where it cannot be understood; None where another process has just folded it."""
    try:
        content = load_record(home, name)
        if name.endswith(_SINGLE):
            return [_read_record(name, content)]
        return [_read_record(str(record["name"]), record) for record in content["records"]]
    except FileNotFoundError:
        return None
    except UNREADABLE as error:
        _log.info("ignoring %s: %s", home.uri(f"{OPERATIONS}/{name}"), error)
        return []


def load_record(home: Storage, name: str) -> dict[str, Any]:
    """Read a file of records; raises one of UNREADABLE."""
    content: dict[str, Any] = json.loads(gzip.decompress(home.read(f"{OPERATIONS}/{name}")))
    if content.pop("format") != _FORMAT:
        raise ValueError("it has the format of another version of zskip")
    return content


def save_record(home: Storage, name: str, content: Mapping[str, Any], *, overwrite: bool = False) -> None:
    """Write a file of records."""
    text = json.dumps({"format": _FORMAT, **content}, separators=(",", ":")).encode()
    home.write(f"{OPERATIONS}/{name}", gzip.compress(text, 5, mtime=0), overwrite=overwrite)


def _read_record(name: str, content: Mapping[str, Any]) -> Record:
    operation = content["operation"]
    return Record(
        name=name,
        operation=Operation(**{**operation, "by": tuple(operation["by"])}),
        target_file_size=content["target_file_size"],
        files=content["files"],
        layout_data=content["layout"],
    )


def record_operation(
    version: TableVersion,
    operation: Operation,
    *,
    names: Iterable[str] = (),
    layout: Layout | None = None,
    follows: bool = False,
    target_file_size: int | None = None,
) -> None:
    """Record a committed operation; a failure costs a warning only.

    version: the one that it made; names: of the files it wrote by the layout, without directories; follows: whether
    that was the table's own, which an earlier record has.
    """
    try:
        handle, snapshot = version.handle, version.snapshot
        written = set(names)
        files = {
            path: size
            for path, size in zip(snapshot.paths, snapshot.sizes.tolist(), strict=True)
            if path.rpartition("/")[2] in written
        }
        record = Record(
            name=_new_name(_SINGLE),
            operation=operation,
            target_file_size=target_file_size,
            files=files if follows or layout is not None else None,
            layout_data=None if layout is None else json.loads(layout.to_json()),
        )
        save_record(handle.home, record.name, _record_json(record))
        fold_journal(handle)
    except ZskipError as error:
        warnings.warn(
            f"the operation is committed, but its record could not be written: {error}", ZskipWarning, stacklevel=4
        )


def record_result(
    version: TableVersion,
    result: RewriteResult,
    operation: str,
    *,
    where: str | None = None,
    fitted_to: str | None = None,
    **written: Any,
) -> None:
    """Record what a verb did.

    operation, where, fitted_to: as in `Operation`; written: as `record_operation` takes it.
    """
    record = Operation(
        version=result.version,
        time_ms=int(1000 * time.time()),
        operation=operation,
        by=result.by,
        curve=result.curve if result.by else None,
        build=result.build or None,
        where=where,
        rows=result.rows,
        files_removed=result.removed.files,
        files_added=result.added.files,
        bytes_removed=result.removed.bytes,
        bytes_added=result.added.bytes,
        share_before=result.predicted_share_before,
        share_after=result.predicted_share_after,
        seconds=round(sum(result.seconds.values()), 3),
        fitted_to=fitted_to,
    )
    record_operation(version, record, **written)


def _new_name(ending: str) -> str:
    return f"{time.time_ns() // 1_000:016d}-{uuid.uuid4().hex[:8]}{ending}"


def _record_json(record: Record) -> dict[str, Any]:
    operation = {
        name: getattr(record.operation, name) for name in Operation.__dataclass_fields__ if name not in _NOT_STORED
    }
    return {
        "operation": {**operation, "by": list(record.operation.by)},
        "target_file_size": record.target_file_size,
        "files": record.files,
        "layout": record.layout_data,
    }


def fold_journal(handle: Handle) -> None:
    """Write the records of many files to two, without what is no longer needed of them; few are left as they are.

    Two processes may do this at once: both write all records, and readers take each once.
    """
    home = handle.home
    names = _list_files(home, _KINDS)
    if sum(name.endswith(_SINGLE) for name in names) <= _MOST_SINGLE:
        return
    parts = {name: _read_file(home, name) for name in names}
    if None in parts.values():
        return
    records_by_file = {name: records for name, records in parts.items() if records}
    # After the records, so that files which are not in it are gone.
    snapshot = handle.format.snapshot()
    kept, past = _expire(_merge(records_by_file.values()), snapshot)
    for ending, records in ((_PAST, past), (_FOLDED, kept)):
        contents = [{"name": record.name, **_record_json(record)} for record in records]
        if contents:
            save_record(home, _new_name(ending), {"records": contents})
    for name in records_by_file:
        with contextlib.suppress(StorageError, FileNotFoundError):
            home.delete(f"{OPERATIONS}/{name}")


def _expire(records: Sequence[Record], snapshot: Snapshot) -> tuple[list[Record], list[Record]]:
    """Divide records into those with live files, of which most lose their layouts, and the latest of the others.

    Of those only the operations are left.
    """
    live = _count_runs(_run_numbers(records, snapshot), len(records)).tolist()
    # The latest clustering stays, since the next one continues it.
    laid_out = [i for i, record in enumerate(records) if record.layout_data is not None]
    latest = {max((i for i, record in enumerate(records) if record.clusters), default=-1), *laid_out[-1:]}
    most = sorted((i for i in laid_out if live[i]), key=lambda i: (live[i], i), reverse=True)
    with_layouts = {*latest, *most[:_MOST_LAYOUTS]}
    kept, past = [], []
    for i, record in enumerate(records):
        if live[i] or i in latest:
            kept.append(record if i in with_layouts else replace(record, layout_data=None))
        else:
            past.append(replace(record, files=None, layout_data=None))
    return kept, past[-_MAX_RECORDS:]


def _run_numbers(runs: Sequence[Record], snapshot: Snapshot) -> Ints:
    """(files,) the position of the record that wrote each file of a snapshot; -1 for none."""
    positions = {path: i for i, path in enumerate(snapshot.paths)}
    sizes, numbers = snapshot.sizes.tolist(), np.full(len(snapshot), -1, np.int64)
    for number, run in enumerate(runs):
        for path, size in (run.files or {}).items():
            position = positions.get(path)
            if position is not None and sizes[position] == size:
                numbers[position] = number
    return numbers


def _count_runs(numbers: Ints, runs: int) -> Ints:
    counts: Ints = np.bincount(numbers[numbers >= 0], minlength=runs)
    return counts


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Clustering:
    """The layout that a table is clustered by, and the files in it."""

    newest: Record
    runs: tuple[Record, ...]
    """All operations by the same columns, curve and build, the oldest first."""
    run_numbers: Ints
    """(files,) the position in `runs` of the one that wrote the file; -1 for none."""

    @property
    def live_files(self) -> Ints:
        """(runs,) how many files of each run are live."""
        return _count_runs(self.run_numbers, len(self.runs))

    @property
    def largest(self) -> int:
        """The position of the run with a layout that wrote the most of the live files, the last of several."""
        has_layout = np.array([run.layout_data is not None for run in self.runs])
        live = np.where(has_layout, self.live_files, -1)
        return len(self.runs) - 1 - int(np.argmax(live[::-1]))

    @property
    def largest_run(self) -> Record:
        """The operation with a layout that wrote the most of the live files, the last of several."""
        return self.runs[self.largest]

    @property
    def files(self) -> Bools:
        """(files,) whether the file is in the layout."""
        files: Bools = self.run_numbers >= 0
        return files


def read_clustering(records: Sequence[Record], snapshot: Snapshot) -> Clustering | None:
    """Find the table's clustering in its records; None where it was never clustered."""
    clusterings = [record for record in records if record.clusters]
    if not clusterings:
        return None
    newest = clusterings[-1]
    runs = [record for record in clusterings if _layout_kind(record.operation) == _layout_kind(newest.operation)]
    return Clustering(newest=newest, runs=tuple(runs), run_numbers=_run_numbers(runs, snapshot))


def _layout_kind(operation: Operation) -> tuple[Any, ...]:
    return operation.by, operation.curve, operation.build
