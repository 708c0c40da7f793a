"""Sketches in the index: which there are, the states of files, and those that a predicate can use.

The states of one sketch lie in segments of their own, Parquet files with one row for each data file: its path, size and
modification time, the type of the values, the state as bytes, or why there is none. A state counts for just that file,
as entries do, and while its values are of just that type: the same number is other bits in a wider one.
"""

from __future__ import annotations

import io
import threading
import uuid
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zskip.errors import IndexFormatError, StorageError, ZskipError
from zskip.index.store.bound_segments import WarnOnce, match_live_files, path_array
from zskip.index.store.segment import INDEX_DIR
from zskip.predicate import Columns, Predicate, columns_of
from zskip.records import Bools, Ints, SketchInfo, Snapshot
from zskip.sketch import BuiltState, FileSketches, SketchOn, StackedStates, fit_budget, parse_sketch_on, read_states
from zskip.storage import Storage

STATES_SCHEMA = pa.schema(
    {
        "path": pa.string(),
        "size": pa.int64(),
        "mtime_ms": pa.int64(),
        "type": pa.string(),
        "state": pa.binary(),
        "reason": pa.string(),
    }
)
_FILE = ("path", "size", "mtime_ms", "type")
_LEFT_OUT, _UNSEEN = -1, -2
_MAX_SEGMENTS = 8
"""More segments of one sketch than this are merged."""

BuildSketches = Callable[[Sequence[SketchOn], Sequence[str], Sequence[Bools]], Sequence[Mapping[int, BuiltState]]]
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


def write_states(storage: Storage, snapshot: Snapshot, on: SketchOn, made: Mapping[int, BuiltState]) -> SketchSegment:
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
                "type": [_type_of(on)] * len(files),
                "state": [made[place].data for place in places],
                "reason": [made[place].reason or None for place in places],
            },
            schema=STATES_SCHEMA,
        ),
    )


def _type_of(on: SketchOn) -> str:
    return ", ".join(term.type.name for term in on.terms)


def _write(storage: Storage, table: pa.Table) -> SketchSegment:
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", use_dictionary=False, write_statistics=False)
    data = sink.getvalue()
    segment = SketchSegment(
        name=f"sketch-{uuid.uuid4().hex}", files=table.num_rows, bytes=len(data), crc=zlib.crc32(data)
    )
    storage.write(segment.path, data)
    return segment


def _read(storage: Storage, segment: SketchSegment, columns: Sequence[str] = STATES_SCHEMA.names) -> pa.Table:
    """Read some columns of a segment; raises IndexFormatError where it is missing or damaged."""
    try:
        data = storage.read(segment.path)
        if len(data) != segment.bytes or zlib.crc32(data) != segment.crc:
            raise ValueError("it is damaged")
        source = pq.ParquetFile(pa.BufferReader(data))
        if source.schema_arrow.remove_metadata() != STATES_SCHEMA or source.metadata.num_rows != segment.files:
            raise ValueError("it does not hold the states the manifest tells of")
        table = source.read(list(columns), use_threads=False)
        if any(table[name].null_count for name in _FILE):
            raise ValueError("it does not say of which files it speaks")
        return table
    except (pa.ArrowException, OSError, ValueError, StorageError) as error:
        raise IndexFormatError(f"cannot read {segment.path}: {error}") from error


class BoundSketches:
    """The sketches of an index seen from one snapshot; states are read when a predicate first needs them.

    Safe to share between threads. A state that is missing, stale or damaged leaves its file unknown.
    """

    def __init__(
        self,
        storage: Storage,
        snapshot: Snapshot,
        records: Sequence[SketchRecord],
        columns: Columns,
        *,
        warn: WarnOnce | None = None,
    ) -> None:
        self._storage = storage
        self._snapshot = snapshot
        self._warn = warn or WarnOnce()
        self._lock = threading.Lock()
        self._cache: dict[int, StackedStates] = {}
        self.held: list[tuple[SketchRecord, SketchOn]] = []
        for record in records:
            try:
                self.held.append((record, parse_sketch_on(record.spec, columns, timezone=record.timezone)))
            except ZskipError:
                continue  # Its column is gone, or its kind is not registered here: its files stay.

    def for_predicate(self, predicate: Predicate) -> FileSketches | None:
        """The sketches on columns that a predicate speaks of; None where there are none."""
        named = set(columns_of(predicate)) if self.held else set()
        wanted = [i for i, (_, on) in enumerate(self.held) if named & set(on.columns)]
        if not wanted:
            return None
        return FileSketches(len(self._snapshot), tuple((self.held[i][1], self._states(i)) for i in wanted))

    def _states(self, number: int) -> StackedStates:
        with self._lock:
            if number not in self._cache:
                record, on = self.held[number]
                self._cache[number] = read_states(on.sketch, self.blobs(record, on))
            return self._cache[number]

    def blobs(self, record: SketchRecord, on: SketchOn) -> list[bytes | None]:
        """The state of each file of the snapshot as bytes."""
        found: list[bytes | None] = [None] * len(self._snapshot)
        for table, places in self._tables(record, on, ("state",)):
            for place, state in zip(places.tolist(), table["state"].to_pylist(), strict=True):
                if place >= 0:
                    found[place] = state
        return found

    def coverage(self, record: SketchRecord, on: SketchOn) -> _Coverage:
        """Of which files there is a state, or a reason why there is none."""
        looked_at: Bools = np.zeros(len(self._snapshot), np.bool_)
        sound = live = 0
        for _, places in self._tables(record, on, ()):
            at = places[places >= 0]
            looked_at[at] = True
            sound, live = sound + 1, live + len(at)
        return _Coverage(looked_at=looked_at, sound=sound, live=live)

    def info(self) -> tuple[SketchInfo, ...]:
        """How many files each sketch covers, and what it takes."""
        return tuple(self._info(record, on) for record, on in self.held)

    def _info(self, record: SketchRecord, on: SketchOn) -> SketchInfo:
        lengths: Ints = np.full(len(self._snapshot), _UNSEEN, np.int64)
        reasons: dict[int, str | None] = {}
        for table, places in self._tables(record, on, ("state", "reason")):
            live = pa.array(places >= 0)
            at, states = places[places >= 0], table["state"].filter(live)
            lengths[at] = pc.binary_length(states).fill_null(_LEFT_OUT).to_numpy()
            without = states.is_null()
            given = table["reason"].filter(live).filter(without).to_pylist()
            reasons |= zip(at[without.to_numpy()].tolist(), given, strict=True)
        left_out = np.flatnonzero(lengths == _LEFT_OUT)
        return SketchInfo(
            spec=str(on),
            files=int((lengths >= 0).sum()),
            bytes=int(lengths[lengths >= 0].sum()),
            left_out=len(left_out),
            reason=(reasons[int(left_out[0])] or "") if len(left_out) else "",
        )

    def _tables(self, record: SketchRecord, on: SketchOn, columns: Sequence[str]) -> list[tuple[pa.Table, Ints]]:
        """The sound segments of a sketch, each with the places of its files in the snapshot, -1 for others."""
        found = []
        for segment in record.segments:
            try:
                table = _read(self._storage, segment, (*_FILE, *columns))
            except IndexFormatError as error:
                self._warn(error)
                continue
            paths = table["path"].combine_chunks()
            sizes, mtimes_ms = table["size"].to_numpy(), table["mtime_ms"].to_numpy()
            places = match_live_files(self._snapshot, self.paths, paths, sizes, mtimes_ms)
            places[~np.asarray(pc.equal(table["type"], _type_of(on)).fill_null(False))] = -1
            found.append((table, places))
        return found

    @cached_property
    def paths(self) -> pa.Array:
        """Of the snapshot; empty where they are not UTF-8, so that no state can name them."""
        return path_array(self._snapshot.paths)

    def change(
        self, record: SketchRecord, on: SketchOn, covered: _Coverage, made: Mapping[int, BuiltState]
    ) -> SketchChange:
        """New states of a sketch; many segments, or those mostly of files that are gone, become one."""
        added = (write_states(self._storage, self._snapshot, on, made),) if made else ()
        held, segments = sum(s.files for s in record.segments), len(record.segments)
        if covered.sound == segments and segments + len(added) <= _MAX_SEGMENTS and 2 * covered.live >= held:
            return SketchChange(spec=record.spec, timezone=record.timezone, added=added)
        tables = [
            table.filter(pa.array(places >= 0)) for table, places in self._tables(record, on, ("state", "reason"))
        ]
        tables += [_read(self._storage, segment) for segment in added]
        merged = pa.concat_tables([*tables, STATES_SCHEMA.empty_table()])
        return SketchChange(
            spec=record.spec,
            timezone=record.timezone,
            gone=frozenset(segment.name for segment in record.segments),
            added=(_write(self._storage, merged),) if merged.num_rows else (),
        )


class _Coverage(NamedTuple):
    looked_at: Bools
    """(files,) whether there is a state, or a reason why there is none."""
    sound: int
    """Segments that can be read."""
    live: int
    """Their rows that are about live files."""


def update_sketches(
    bound: BoundSketches, build: BuildSketches, files: Bools, total_budget: int | None = None
) -> list[SketchChange]:
    """Build the states that files lack; the changes for the manifest.

    files: (files of the snapshot,) those that may be read; total_budget: see `refresh_sketches`.
    """
    named = np.asarray(pc.not_equal(bound.paths, ""))
    covered = [bound.coverage(record, on) for record, on in bound.held]
    lacking = [files & named & ~found.looked_at for found in covered]
    wanted = [i for i, missing in enumerate(lacking) if missing.any()]
    held = [bound.held[i] for i in wanted]
    zones = [record.timezone for record, _ in held]
    made = build([on for _, on in held], zones, [lacking[i] for i in wanted]) if wanted else []
    if total_budget is not None:
        made = fit_budget(made, total_budget, sum(info.bytes for info in bound.info()))
    by_number = dict(zip(wanted, made, strict=True))
    changes = [bound.change(record, on, covered[i], by_number.get(i, {})) for i, (record, on) in enumerate(bound.held)]
    return [change for change in changes if change.gone or change.added]


def apply_changes(
    records: Sequence[SketchRecord], changes: Sequence[SketchChange], dropped: Collection[str]
) -> tuple[SketchRecord, ...]:
    """The sketches of the next version of an index, on top of those of whichever version is the newest."""
    found = {record.spec: record for record in records if record.spec not in dropped}
    for change in changes:
        if change.spec not in found and (change.gone or change.added):
            continue  # Another refresh has just dropped it.
        old = found.get(change.spec) or SketchRecord(spec=change.spec, timezone=change.timezone)
        if old.timezone != change.timezone:
            continue  # Another refresh has just made it in that zone.
        kept = tuple(segment for segment in old.segments if segment.name not in change.gone)
        found[change.spec] = replace(old, segments=(*kept, *change.added))
    return tuple(found.values())
