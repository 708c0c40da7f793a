"""Sketches in the index: their records, the states of files, and the selection for a predicate.

The states of one sketch lie in segments of their own, Parquet files with one row for each data file: its path, size,
modification time and identity, the type of the values, and the state as bytes or the reason why there is none. Like an
entry, a state is valid for exactly that file, and only while the type of its values stays the same, and what else they
depend on: a wider type has other bits for the same number, and another Java may have other time zones.
"""

from __future__ import annotations

import copy
import io
import json
import uuid
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zskip.errors import IndexFormatError, StorageError
from zskip.index.store.bound_segments import WarnOnce, match_live_files, path_array
from zskip.index.store.cache import OwnValues
from zskip.index.store.segment import ENDING, INDEX_DIR
from zskip.index.store.sketch_specs import Specs
from zskip.predicate import Columns, Opaque, Predicate, Term, columns_of, opaque, term_sql
from zskip.predicate.functions.times import zone_name
from zskip.predicate.tree import parts_of
from zskip.predicate.zones import fixed_zone
from zskip.records import Bools, Ints, SketchInfo, Snapshot
from zskip.sketch import BuiltState, FileSketches, Matches, SketchOn, fit_budget, read_states, subjects
from zskip.storage import Storage

STATES_SCHEMA = pa.schema(
    {
        "path": pa.string(),
        "size": pa.int64(),
        "mtime_ms": pa.int64(),
        "identity": pa.int64(),
        "type": pa.string(),
        "state": pa.binary(),
        "reason": pa.string(),
    }
)
_FILE = ("path", "size", "mtime_ms", "identity", "type")
_LEFT_OUT, _NO_STATE = -1, -2
_MAX_SEGMENTS = 8
"""More segments of one sketch than this are merged."""

BuildSketches = Callable[[Sequence[SketchOn], Sequence[str], Sequence[Bools]], Sequence[Mapping[int, BuiltState]]]
"""Maps sketches, their time zones and the files that lack them to new states by positions in the snapshot."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SketchSegment:
    """The manifest's description of a file with states."""

    name: str
    files: int
    bytes: int
    crc: int

    @property
    def path(self) -> str:
        """The path of the file."""
        return f"{INDEX_DIR}/{self.name}{ENDING}"


@dataclass(frozen=True, kw_only=True, slots=True)
class SketchRecord:
    """One sketch of an index."""

    spec: str
    """In the form that `parse_sketch_on` reads."""
    timezone: str
    """The time zone of its timestamp expressions."""
    segments: tuple[SketchSegment, ...] = ()
    chosen_ms: int | None = None
    """When `sketches="auto"` chose it, in milliseconds since 1970; None for one that the user named."""
    condition: str = ""
    """What Spark made of the condition of `matches` (`SketchOn.described`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SketchChange:
    """A refresh's change to one sketch; one without segments adds the sketch."""

    spec: str
    timezone: str
    dropped: frozenset[str] = frozenset()
    """Names of dropped segments."""
    added: tuple[SketchSegment, ...] = ()
    chosen_ms: int | None = None
    """As in `SketchRecord`, of a sketch that is added."""
    condition: str = ""


class Versions(Protocol):
    """The versions of the data of a session by which it computes expressions."""

    def letters(self) -> str:
        """The versions that decide which letter is the lower or upper case of another."""

    def zone(self, name: str) -> str:
        """The version of a time zone's data."""


_LETTERS = frozenset(("lower", "upper", opaque.COLLATION_KEY))
"""Functions that depend on the versions of letters."""


def write_states(
    storage: Storage, snapshot: Snapshot, on: SketchOn, values: str, states: Mapping[int, BuiltState]
) -> SketchSegment:
    """Write the states of files at some positions of a snapshot; they are valid once a manifest names the segment.

    values: as `values_type` names them.
    """
    positions = sorted(states)
    files = [snapshot.file(position) for position in positions]
    return _write(
        storage,
        pa.table(
            {
                "path": [file.path for file in files],
                "size": [file.size for file in files],
                "mtime_ms": [file.mtime_ms for file in files],
                "identity": [file.identity for file in files],
                "type": [values] * len(files),
                "state": [states[position].data for position in positions],
                "reason": [states[position].reason or None for position in positions],
            },
            schema=STATES_SCHEMA,
        ),
    )


def values_type(snapshot: Snapshot, on: SketchOn, *, case_sensitive: bool, versions: Versions | None) -> str:
    """The types of the values, and what else they depend on.

    That is what names their columns in the files where those are not called as in the table, whether the case of names
    counts, and in a line for each the versions of the data by which expressions were computed (none without
    `versions`). A state is valid while this is what it was when the state was made.
    """
    lines = [_types_and_names(snapshot, on, case_sensitive=case_sensitive)]
    parts = [part for term in on.known_terms for part in parts_of(term)]
    if versions is not None:
        if depends_on_letters(on):
            lines.append(f"letters of {versions.letters()}")
        zones = {zone for part in parts if (zone := zone_name(part)) and fixed_zone(zone) is None}
        lines += [f"{zone} of {versions.zone(zone)}" for zone in sorted(zones)]
    return "\n".join(lines)


def depends_on_letters(on: SketchOn) -> bool:
    """Whether the versions of letters decide about values."""
    parts = (part for term in on.known_terms for part in parts_of(term))
    return any(isinstance(part, Opaque) and part.function in _LETTERS for part in parts)


def _types_and_names(snapshot: Snapshot, on: SketchOn, *, case_sensitive: bool) -> str:
    types = ", ".join(_types_of(term) for term in on.terms)
    columns = [column.path for column in on.columns]
    names = snapshot.reading.names
    if names.ids is not None:
        return f"{types} of {', '.join(str(names.ids.ids[path]) for path in columns)}"
    stored = [names.path_in_files(path) for path in columns]
    case = "exact" if case_sensitive else "any"
    return f"{types} in {case} case" if stored == columns else f"{types} of {json.dumps(stored)} in {case} case"


def _types_of(term: Term) -> str:
    """The type of a term, and the types that its values depend on besides: the hash of a wider number is another."""
    hashed = [data_type.name for data_type in opaque.argument_types(term)]
    return f"{term.type.name}({', '.join(hashed)})" if hashed else term.type.name


def _is_in_files(snapshot: Snapshot, on: SketchOn) -> bool:
    """Whether it is known where files hold the columns of a sketch, and they hold all values; some formats fill in."""
    names, columns = snapshot.reading.names, [column.path for column in on.columns]
    if names.ids is not None:
        return all(names.ids.ids.get(path, -1) not in {-1, *names.ids.filled} for path in columns)
    return all(names.path_in_files(path) is not None for path in columns)


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
    """Read some columns of a segment; raises IndexFormatError if it is missing or damaged."""
    try:
        data = storage.read(segment.path)
        if len(data) != segment.bytes or zlib.crc32(data) != segment.crc:
            raise ValueError("it is damaged")
        source = pq.ParquetFile(pa.BufferReader(data))
        if source.schema_arrow.remove_metadata() != STATES_SCHEMA or source.metadata.num_rows != segment.files:
            raise ValueError("its states are not those in the manifest")
        table = source.read(list(columns), use_threads=False)
        if any(table[name].null_count for name in _FILE):
            raise ValueError("it does not name its files")
        return table
    except (pa.ArrowException, OSError, ValueError, StorageError) as error:
        raise IndexFormatError(f"cannot read {segment.path}: {error}") from error


class BoundSketches:
    """The sketches of an index bound to one snapshot; states are read when a predicate first needs them.

    Safe to share between threads. A missing, stale or damaged state leaves its file unknown.
    """

    def __init__(
        self,
        storage: Storage,
        snapshot: Snapshot,
        records: Sequence[SketchRecord],
        columns: Columns,
        *,
        versions: Versions | None = None,
        warn: WarnOnce | None = None,
    ) -> None:
        """versions: of the session that asks; without one the states of every session count."""
        self._storage = storage
        self._versions = versions
        self._case_sensitive = columns.case_sensitive
        self._snapshot = snapshot
        self._warn = warn or WarnOnce()
        self._stacked = OwnValues[str, Any]()
        self._given: Mapping[str, Sequence[bytes | None]] = {}
        self.sketches: list[tuple[SketchRecord, SketchOn]] = []
        specs = Specs(columns)
        for record in records:
            on = specs.read((record.spec, record.timezone, record.condition))
            if on is not None and _is_in_files(snapshot, on):
                self.sketches.append((record, on))

    def for_predicate(self, predicate: Predicate) -> FileSketches | None:
        """The sketches on columns of a predicate; None if there are none."""
        named = set(columns_of(predicate)) if self.sketches else set()
        about = subjects(predicate) if self.sketches else frozenset()
        usable, conditions = list[int](), list[int]()
        for i, (_, on) in enumerate(self.sketches):
            if on.condition is not None:
                conditions += [] if about.isdisjoint(on.subjects) else [i]
            elif named and not named.isdisjoint(on.columns):
                usable.append(i)
        if not usable and not conditions:
            return None
        return FileSketches(
            len(self._snapshot),
            tuple((self.sketches[i][1], self._states(i)) for i in usable),
            tuple((self.sketches[i][1], partial(self._states, i)) for i in conditions),
        )

    def of_parts(self, predicate: Predicate, files: Ints, ends: Ints) -> FileSketches | None:
        """The conditions of a predicate of which it is known where in a file they are true; None if there are none.

        files: (parts,) ascending positions of files; ends: (parts,) the rows of the file up to the end of each part.
        """
        about = subjects(predicate)
        conditions = tuple(
            (on, partial(self._match_parts, record, on, on.sketch, files, ends))
            for record, on in self.sketches
            if isinstance(on.sketch, Matches) and on.sketch.k and not about.isdisjoint(on.subjects)
        )
        return FileSketches(len(files), (), conditions) if conditions else None

    def _match_parts(self, record: SketchRecord, on: SketchOn, sketch: Matches, files: Ints, ends: Ints) -> Bools:
        blobs = self._cached(record, on, list, "parts of ")
        firsts = np.flatnonzero(np.diff(files, prepend=-1))
        may_match: Bools = np.ones(len(files), np.bool_)
        for first, end in zip(firsts.tolist(), [*firsts[1:].tolist(), len(files)], strict=False):
            may_match[first:end] = sketch.might_match_in(blobs[files[first]], ends[first:end])
        return may_match

    def of(self, term: Term | str) -> Iterator[tuple[SketchOn, Any]]:
        """The sketches of a term, or of its SQL in the normal spelling, and the states of the files."""
        for i, (_, on) in enumerate(self.sketches):
            if (on.terms if not isinstance(term, str) else tuple(map(term_sql, on.terms))) == (term,):
                yield on, self._states(i)

    def _states(self, number: int) -> Any:
        record, on = self.sketches[number]
        return self._cached(record, on, partial(read_states, on.sketch))

    def _cached(
        self, record: SketchRecord, on: SketchOn, make: Callable[[Sequence[bytes | None]], Any], what: str = ""
    ) -> Any:
        """What is made of the states of a sketch, read once; what: names it."""

        def read() -> tuple[Any, int]:
            blobs = self.blobs(record, on)
            return make(blobs), sum(len(blob) for blob in blobs if blob is not None)

        return self._stacked.get(f"{what}{record.spec}", read)

    @property
    def own(self) -> list[str]:
        """The specs of the sketches that the user has named."""
        return [record.spec for record, _ in self.sketches if record.chosen_ms is None]

    def select(
        self, specs: Collection[str], add: Mapping[SketchOn, Sequence[bytes | None]] | None = None
    ) -> BoundSketches:
        """Some of these sketches, and others; add: with the states of all files."""
        other, add = copy.copy(self), add or {}
        added = [(SketchRecord(spec=str(on), timezone=""), on) for on in add]
        other.sketches = [*(pair for pair in self.sketches if pair[0].spec in specs), *added]
        other._given = {str(on): states for on, states in add.items()}
        return other

    def blobs(self, record: SketchRecord, on: SketchOn) -> list[bytes | None]:
        """The state of each file of the snapshot as bytes."""
        if record.spec in self._given:
            return list(self._given[record.spec])
        states: list[bytes | None] = [None] * len(self._snapshot)
        for table, positions in self._tables(record, on, ("state",)):
            for position, state in zip(positions.tolist(), table["state"].to_pylist(), strict=True):
                if position >= 0:
                    states[position] = state
        return states

    def coverage(self, record: SketchRecord, on: SketchOn) -> _Coverage:
        """Which files have a state, or a reason why there is none."""
        has_result: Bools = np.zeros(len(self._snapshot), np.bool_)
        readable = live = 0
        for _, positions in self._tables(record, on, ()):
            at = positions[positions >= 0]
            has_result[at] = True
            readable, live = readable + 1, live + len(at)
        return _Coverage(has_result=has_result, readable=readable, live=live)

    def info(self) -> tuple[SketchInfo, ...]:
        """The number of files and bytes that each sketch covers."""
        return tuple(self._info(record, on) for record, on in self.sketches)

    def _info(self, record: SketchRecord, on: SketchOn) -> SketchInfo:
        lengths: Ints = np.full(len(self._snapshot), _NO_STATE, np.int64)
        reasons: dict[int, str | None] = {}
        for table, positions in self._tables(record, on, ("state", "reason")):
            live = pa.array(positions >= 0)
            at, states = positions[positions >= 0], table["state"].filter(live)
            lengths[at] = pc.binary_length(states).fill_null(_LEFT_OUT).to_numpy()
            without = states.is_null()
            new_reasons = table["reason"].filter(live).filter(without).to_pylist()
            reasons |= zip(at[without.to_numpy()].tolist(), new_reasons, strict=True)
        left_out = np.flatnonzero(lengths == _LEFT_OUT)
        return SketchInfo(
            spec=str(on),
            files=int((lengths >= 0).sum()),
            bytes=int(lengths[lengths >= 0].sum()),
            left_out=len(left_out),
            reason=(reasons[int(left_out[0])] or "") if len(left_out) else "",
            automatic=record.chosen_ms is not None,
        )

    def _tables(self, record: SketchRecord, on: SketchOn, columns: Sequence[str]) -> list[tuple[pa.Table, Ints]]:
        """The readable segments of a sketch, each with its files' positions in the snapshot, -1 for others."""
        tables = []
        for segment in record.segments:
            try:
                table = _read(self._storage, segment, (*_FILE, *columns))
            except IndexFormatError as error:
                self._warn(error)
                continue
            paths = table["path"].combine_chunks()
            numbers = [table[name].to_numpy() for name in ("size", "mtime_ms", "identity")]
            positions = match_live_files(self._snapshot, self.paths, paths, *numbers)
            types = (
                table["type"]
                if self._versions is not None
                else pc.list_element(pc.split_pattern(table["type"], "\n"), 0)
            )
            positions[~np.asarray(pc.equal(types, self.values_type(on)).fill_null(False))] = -1
            tables.append((table, positions))
        return tables

    def values_type(self, on: SketchOn) -> str:
        """What the states of a sketch have to be of; see the function of this name."""
        return values_type(self._snapshot, on, case_sensitive=self._case_sensitive, versions=self._versions)

    @cached_property
    def paths(self) -> pa.Array:
        """The snapshot's paths; empty for those that are not UTF-8, so that no state can name them."""
        return path_array(self._snapshot.paths)

    def change(
        self, record: SketchRecord, on: SketchOn, covered: _Coverage, states: Mapping[int, BuiltState]
    ) -> SketchChange:
        """Add new states of a sketch; many segments, or mostly dead ones, are merged into one."""
        added = (write_states(self._storage, self._snapshot, on, self.values_type(on), states),) if states else ()
        change = SketchChange(spec=record.spec, timezone=record.timezone, condition=record.condition)
        listed, segments = sum(s.files for s in record.segments), len(record.segments)
        if covered.readable == segments and segments + len(added) <= _MAX_SEGMENTS and 2 * covered.live >= listed:
            return replace(change, added=added)
        tables = [
            table.filter(pa.array(positions >= 0)) for table, positions in self._tables(record, on, ("state", "reason"))
        ]
        tables += [_read(self._storage, segment) for segment in added]
        merged = pa.concat_tables([*tables, STATES_SCHEMA.empty_table()])
        return replace(
            change,
            dropped=frozenset(segment.name for segment in record.segments),
            added=(_write(self._storage, merged),) if merged.num_rows else (),
        )


class _Coverage(NamedTuple):
    has_result: Bools
    """(files,) whether there is a state, or a reason why there is none."""
    readable: int
    """Segments that can be read."""
    live: int
    """Their rows of live files."""


def update_sketches(
    bound: BoundSketches, build: BuildSketches, files: Bools, total_budget: int | None = None
) -> list[SketchChange]:
    """Build the states that files lack; returns the changes for the manifest.

    files: (files of the snapshot,) mask of the files that may be read; total_budget: see `refresh_sketches`.
    """
    has_name = np.asarray(pc.not_equal(bound.paths, ""))
    covered = [bound.coverage(record, on) for record, on in bound.sketches]
    without_result = [files & has_name & ~coverage.has_result for coverage in covered]
    incomplete = [i for i, mask in enumerate(without_result) if mask.any()]
    pending = [bound.sketches[i] for i in incomplete]
    zones = [record.timezone for record, _ in pending]
    states = build([on for _, on in pending], zones, [without_result[i] for i in incomplete]) if incomplete else []
    if total_budget is not None:
        states = fit_budget(states, total_budget, sum(info.bytes for info in bound.info()))
    by_number = dict(zip(incomplete, states, strict=True))
    changes = [
        bound.change(record, on, covered[i], by_number.get(i, {})) for i, (record, on) in enumerate(bound.sketches)
    ]
    return [change for change in changes if change.dropped or change.added]


def apply_changes(
    records: Sequence[SketchRecord], changes: Sequence[SketchChange], dropped: Collection[str]
) -> tuple[SketchRecord, ...]:
    """The sketches of the next index version, on top of the newest one's."""
    updated = {record.spec: record for record in records if record.spec not in dropped}
    for change in changes:
        if change.spec not in updated and (change.dropped or change.added):
            continue  # Another refresh has just dropped it.
        new = SketchRecord(
            spec=change.spec, timezone=change.timezone, chosen_ms=change.chosen_ms, condition=change.condition
        )
        old = updated.get(change.spec, new)
        if (old.timezone, old.condition) != (new.timezone, new.condition):
            continue  # Another refresh has just made it in that zone, or of what its session understands by it.
        if not (change.dropped or change.added) and change.chosen_ms is None:
            old = replace(old, chosen_ms=None)  # The user has named it.
        kept = tuple(segment for segment in old.segments if segment.name not in change.dropped)
        updated[change.spec] = replace(old, segments=(*kept, *change.added))
    return tuple(updated.values())
