"""Sketches in the index: which there are, the states of files, and those that a predicate can use.

The states of one sketch lie in segments of their own, Parquet files with one row for each data file: its path, size and
modification time, the state as bytes, or why there is none. A state counts for just that file, as entries do.
"""

from __future__ import annotations

import io
import threading
import uuid
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zskip.errors import IndexFormatError, StorageError, ZskipError
from zskip.index.match import find_places, warn_damaged
from zskip.index.segment import INDEX_DIR
from zskip.predicate import Columns, Predicate, columns_of
from zskip.records import Bools, SketchInfo, Snapshot
from zskip.sketch import Made, Read, Sketched, SketchOn, parse_sketch_on, read
from zskip.storage import Storage

STATES_SCHEMA = pa.schema(
    {
        "path": pa.string(),
        "size": pa.int64(),
        "mtime_ms": pa.int64(),
        "state": pa.binary(),
        "reason": pa.string(),
    }
)
_MAX_SEGMENTS = 8
"""More segments of one sketch than this are merged."""

BuildSketches = Callable[[Sequence[SketchOn], Sequence[str], Sequence[Bools]], Sequence[Mapping[int, Made]]]
"""From sketches, for each its time zone and the files that lack it, to what was made, by places in the snapshot."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SketchSegment:
    """All that the manifest says of a file with states."""

    name: str
    files: int
    bytes: int
    crc: int

    @property
    def path(self) -> str:
        """Where it lies."""
        return f"{INDEX_DIR}/{self.name}.parquet"


@dataclass(frozen=True, kw_only=True, slots=True)
class SketchRecord:
    """One sketch of an index."""

    spec: str
    """As `parse_sketch_on` reads it."""
    timezone: str
    """In which expressions of timestamps are meant."""
    segments: tuple[SketchSegment, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SketchChange:
    """What a refresh does to one sketch; one without segments adds it."""

    spec: str
    timezone: str
    gone: frozenset[str] = frozenset()
    """Names of segments."""
    added: tuple[SketchSegment, ...] = ()


def write_states(storage: Storage, snapshot: Snapshot, made: Mapping[int, Made]) -> SketchSegment:
    """Write the states of files at some places of a snapshot; they count once a manifest names the segment."""
    places = sorted(made)
    files = [snapshot.file(place) for place in places]
    return _write(
        storage,
        pa.table(
            {
                "path": [file.path for file in files],
                "size": [file.size for file in files],
                "mtime_ms": [file.mtime_ms for file in files],
                "state": [made[place].data for place in places],
                "reason": [made[place].reason or None for place in places],
            },
            schema=STATES_SCHEMA,
        ),
    )


def _write(storage: Storage, table: pa.Table) -> SketchSegment:
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", use_dictionary=False, write_statistics=False)
    data = sink.getvalue()
    segment = SketchSegment(
        name=f"sketch-{uuid.uuid4().hex}", files=table.num_rows, bytes=len(data), crc=zlib.crc32(data)
    )
    storage.write(segment.path, data)
    return segment


def _read(storage: Storage, segment: SketchSegment) -> pa.Table:
    """Read a segment whole; raises IndexFormatError where it is missing or damaged."""
    try:
        data = storage.read(segment.path)
        if len(data) != segment.bytes or zlib.crc32(data) != segment.crc:
            raise ValueError("it is damaged")
        table = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
        if table.schema.remove_metadata() != STATES_SCHEMA or table.num_rows != segment.files:
            raise ValueError("it does not hold the states the manifest tells of")
        return table
    except (pa.ArrowException, OSError, ValueError, StorageError) as error:
        raise IndexFormatError(f"cannot read {segment.path}: {error}") from error


class BoundSketches:
    """The sketches of an index seen from one snapshot; states are read when a predicate first needs them.

    Safe to share between threads. A state that is missing, stale or damaged leaves its file unknown.
    """

    def __init__(self, storage: Storage, snapshot: Snapshot, records: Sequence[SketchRecord], columns: Columns) -> None:
        self._storage = storage
        self._snapshot = snapshot
        self._lock = threading.Lock()
        self._cache: dict[int, Read] = {}
        self.held: list[tuple[SketchRecord, SketchOn]] = []
        for record in records:
            try:
                self.held.append((record, parse_sketch_on(record.spec, columns, timezone=record.timezone)))
            except ZskipError:
                continue  # Its column is gone, or its kind is not registered here: its files stay.

    def for_predicate(self, predicate: Predicate) -> Sketched | None:
        """The sketches on columns that a predicate speaks of; None where there are none."""
        named = set(columns_of(predicate)) if self.held else set()
        wanted = [i for i, (_, on) in enumerate(self.held) if named & set(on.columns)]
        if not wanted:
            return None
        return Sketched(len(self._snapshot), tuple((self.held[i][1], self._states(i)) for i in wanted))

    def _states(self, number: int) -> Read:
        with self._lock:
            if number not in self._cache:
                record, on = self.held[number]
                self._cache[number] = read(on.sketch, self.blobs(record))
            return self._cache[number]

    def blobs(self, record: SketchRecord) -> list[bytes | None]:
        """The state of each file of the snapshot as bytes."""
        found: list[bytes | None] = [None] * len(self._snapshot)
        for table, places in self._tables(record):
            for place, state in zip(places.tolist(), table["state"].to_pylist(), strict=True):
                if place >= 0:
                    found[place] = state
        return found

    def looked_at(self, record: SketchRecord) -> Bools:
        """(files,) those of which there is a state, or a reason why there is none."""
        found: Bools = np.zeros(len(self._snapshot), np.bool_)
        for _, places in self._tables(record):
            found[places[places >= 0]] = True
        return found

    def info(self) -> tuple[SketchInfo, ...]:
        """How many files each sketch covers, and what it takes."""
        return tuple(self._info(record, on) for record, on in self.held)

    def _info(self, record: SketchRecord, on: SketchOn) -> SketchInfo:
        states: dict[int, tuple[bytes | None, str | None]] = {}
        for table, places in self._tables(record):
            rows = zip(table["state"].to_pylist(), table["reason"].to_pylist(), strict=True)
            states |= {place: row for place, row in zip(places.tolist(), rows, strict=True) if place >= 0}
        reasons = [reason for state, reason in states.values() if state is None and reason]
        return SketchInfo(
            spec=str(on),
            files=sum(state is not None for state, _ in states.values()),
            bytes=sum(len(state) for state, _ in states.values() if state is not None),
            left_out=len(reasons),
            reason=reasons[0] if reasons else "",
        )

    def _tables(self, record: SketchRecord) -> list[tuple[pa.Table, Any]]:
        """The sound segments of a sketch, each with the places of its files in the snapshot, -1 for others."""
        found = []
        for segment in record.segments:
            try:
                table = _read(self._storage, segment)
            except IndexFormatError as error:
                warn_damaged(error)
                continue
            found.append((table, self._places(table)))
        return found

    def _places(self, table: pa.Table) -> Any:
        snapshot = self._snapshot
        places = find_places(table["path"].combine_chunks(), pa.array(snapshot.paths, pa.string()), snapshot.paths)
        at = np.maximum(places, 0)
        if not len(snapshot):
            return places
        same = (table["size"].to_numpy() == snapshot.sizes[at]) & (
            table["mtime_ms"].to_numpy() == snapshot.mtimes_ms[at]
        )
        return np.where(same, places, -1)

    def change(self, record: SketchRecord, made: Mapping[int, Made]) -> SketchChange:
        """New states of a sketch; many segments, or those mostly of files that are gone, become one."""
        added = (write_states(self._storage, self._snapshot, made),) if made else ()
        kept = self._tables(record)
        held, live = sum(s.files for s in record.segments), sum(int((places >= 0).sum()) for _, places in kept)
        if len(kept) == len(record.segments) and len(kept) + len(added) <= _MAX_SEGMENTS and 2 * live >= held:
            return SketchChange(spec=record.spec, timezone=record.timezone, added=added)
        tables = [table.filter(pa.array(places >= 0)) for table, places in kept]
        tables += [_read(self._storage, segment) for segment in added]
        whole = pa.concat_tables([*tables, STATES_SCHEMA.empty_table()])
        return SketchChange(
            spec=record.spec,
            timezone=record.timezone,
            gone=frozenset(segment.name for segment in record.segments),
            added=(_write(self._storage, whole),) if whole.num_rows else (),
        )


def update(bound: BoundSketches, build: BuildSketches, files: Bools) -> list[SketchChange]:
    """Build the states that files lack; the changes for the manifest.

    files: (files of the snapshot,) those that may be read.
    """
    lacking = [files & ~bound.looked_at(record) for record, _ in bound.held]
    wanted = [i for i, missing in enumerate(lacking) if missing.any()]
    held = [bound.held[i] for i in wanted]
    zones = [record.timezone for record, _ in held]
    made = build([on for _, on in held], zones, [lacking[i] for i in wanted]) if wanted else []
    by_number = dict(zip(wanted, made, strict=True))
    changes = [bound.change(record, by_number.get(i, {})) for i, (record, _) in enumerate(bound.held)]
    return [change for change in changes if change.gone or change.added]


def changed(
    records: Sequence[SketchRecord], changes: Sequence[SketchChange], dropped: Collection[str]
) -> tuple[SketchRecord, ...]:
    """The sketches of the next version of an index, on top of those of whichever version is the newest."""
    found = {record.spec: record for record in records if record.spec not in dropped}
    for change in changes:
        if change.spec not in found and (change.gone or change.added):
            continue  # Another refresh has just dropped it.
        old = found.get(change.spec) or SketchRecord(spec=change.spec, timezone=change.timezone)
        kept = tuple(segment for segment in old.segments if segment.name not in change.gone)
        found[change.spec] = replace(old, segments=(*kept, *change.added))
    return tuple(found.values())
