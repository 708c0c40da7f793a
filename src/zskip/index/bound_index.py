"""An index seen from one snapshot: what is known of each live file, column by column."""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from zskip.errors import IndexFormatError
from zskip.index.resolve import Absent, fold, resolve, widening
from zskip.index.store.bound_segments import BoundSegment, WarnOnce, as_slice, fold_names, map_segments, positions_of
from zskip.index.store.segment import Entries, SegmentReader
from zskip.index.store.sketches import BoundSketches
from zskip.predicate import Predicate
from zskip.prune import Decided, prune
from zskip.records import ALL_NULL, Bools, ColumnStats, IndexInfo, Ints, PruneResult, Snapshot, Values
from zskip.types import DataType, Form

CACHE_BYTES = 256 << 20
"""Of the columns that a bound index keeps in memory."""

_ENTRY_BYTES = 200
_OBJECT_BYTES = 33
_DTYPES: dict[Form, Any] = {Form.INT: np.int64, Form.FLOAT: np.float64, Form.BYTES: np.object_}
_ZEROS: dict[Form, Any] = {Form.INT: 0, Form.FLOAT: 0.0, Form.BYTES: b""}


class _Cache:
    """The columns that were asked for last: as many as do not take more than some bytes, but always the last one."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._held: OrderedDict[tuple[str, ...], tuple[ColumnStats | None, int]] = OrderedDict()

    def __contains__(self, path: tuple[str, ...]) -> bool:
        return path in self._held

    def get(self, path: tuple[str, ...]) -> ColumnStats | None:
        self._held.move_to_end(path)
        return self._held[path][0]

    def put(self, path: tuple[str, ...], stats: ColumnStats | None) -> None:
        size = _size(path, stats)
        self._held[path] = stats, size
        self._used += size
        while self._used > self._limit and len(self._held) > 1:
            self._used -= self._held.popitem(last=False)[1][1]


def _size(path: tuple[str, ...], stats: ColumnStats | None) -> int:
    """Bytes that a column takes in memory, about."""
    size = _ENTRY_BYTES + sum(map(len, path))
    if stats is None:
        return size
    arrays = (stats.lower, stats.upper, stats.bounded, stats.nulls, stats.may_nan)
    size += sum(array.nbytes for array in arrays)
    if stats.type.form is Form.BYTES:
        size += sum(sum(map(len, array)) + _OBJECT_BYTES * len(array) for array in arrays[:2])
    return size


class BoundIndex:
    """What is known of the files of one snapshot; columns are read when they are first asked for.

    Safe to share between threads. An entry that is missing, stale or damaged leaves its file unknown.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        segments: Sequence[BoundSegment],
        *,
        version: int,
        size: int,
        case_sensitive: bool,
        warn: WarnOnce | None = None,
        sketches: BoundSketches | None = None,
        row_groups: Sequence[SegmentReader] | None = None,
    ) -> None:
        self.sketches = sketches
        self.row_groups = row_groups
        """The segments that describe row groups; None where the index is one of files alone."""
        self.snapshot = snapshot
        self.segments = tuple(segments)
        self._version = version
        self._size = size
        self.case_sensitive = case_sensitive
        self._cache = _Cache(CACHE_BYTES)
        self._lock = threading.Lock()
        self._names = fold_names([field.name for field in snapshot.fields], case_sensitive)
        self.warn = warn or WarnOnce()
        self.rows: Ints = np.full(len(snapshot), -1, np.int64)
        """Rows of each file, -1 where unknown."""
        if snapshot.known is not None:
            self.rows[:] = snapshot.known.rows
        covered = np.zeros(len(snapshot), np.bool_)
        for segment in self.segments:
            used = segment.live >= 0
            self.rows[segment.live[used]] = segment.rows[used]
            covered[segment.live[used]] = True
        self.coverage: int = int(covered.sum())
        """Number of live files with a valid entry."""

    def info(self) -> IndexInfo:
        """Say what the index covers."""
        known = {c.path for s in self.segments for c in s.reader.segment.columns if c.type is not None}
        return IndexInfo(
            version=self._version,
            files=self.coverage,
            files_total=len(self.snapshot),
            columns=len(known),
            bytes=self._size,
            sketches=() if self.sketches is None else self.sketches.info(),
            granularity="file" if self.row_groups is None else "row_group",
        )

    def prune(self, predicate: Predicate, decided: Sequence[Decided] = ()) -> PruneResult:
        """Decide for every file whether some row might match, by all that is known of it.

        decided: what else is known of parts of the predicate.
        """
        sketches = None if self.sketches is None else self.sketches.for_predicate(predicate)
        result = prune(predicate, self, sketches, decided)
        altered = self.snapshot.altered
        if altered is None:
            return result
        return dataclasses.replace(result, kept=result.kept | altered, full=result.full & ~altered)

    def versions(self) -> Ints:
        """Version of the table that brought each file, or with which it was first indexed; -1 where unknown."""
        found: Ints = np.full(len(self.snapshot), -1, np.int64)
        for segment in self.segments:
            used = segment.live >= 0
            try:
                versions = segment.listing().versions
                assert versions is not None, "the list was read whole"
                found[segment.live[used]] = versions[used]
            except IndexFormatError as error:
                self.warn(error)
        return found

    def column(self, path: tuple[str, ...]) -> ColumnStats | None:
        """Give what is known of a column in each file; None where nothing is.

        The type is the table's; of a field inside a struct it is the type that the files agree on.
        """
        path = fold(path, self.case_sensitive)
        with self._lock:
            if path not in self._cache:
                self._cache.put(path, self._column(path))
            return self._cache.get(path)

    def tight(self, path: tuple[str, ...]) -> Bools:
        """(files,) mask of the files whose bounds of a column are its least and greatest values.

        Those of the index are, apart from text, which is cut; what a table format itself says may be wider.
        """
        if self.snapshot.known is None:
            return np.ones(len(self.snapshot), np.bool_)
        path = fold(path, self.case_sensitive)
        wanted = self.type_of(path)
        if wanted is None or wanted.form is None:
            return np.zeros(len(self.snapshot), np.bool_)
        own = _unknown(wanted, len(self.snapshot))
        for segment in self.segments:
            self._fill(own, segment, path, wanted)
        return own.bounded

    def _column(self, path: tuple[str, ...]) -> ColumnStats | None:
        for i, field in enumerate(self.snapshot.partition_fields):
            if fold((field.name,), self.case_sensitive) == path:
                return _partition_stats(self.snapshot, i, field.type)
        wanted = self.type_of(path)
        if wanted is None or wanted.form is None:
            return None
        said = self._said(path, wanted)
        stats = _unknown(wanted, len(self.snapshot)) if said is None else said
        known = map_segments(lambda s: self._fill(stats, s, path, wanted), self.segments, files=len(self.snapshot))
        return stats if any(known) or said is not None else None

    def _said(self, path: tuple[str, ...], wanted: DataType) -> ColumnStats | None:
        """What the table format itself says of a column, in arrays of our own; None where it says nothing."""
        if self.snapshot.known is None or len(path) > 1:
            return None
        (place,) = positions_of(path[0], self._names)
        found = self.snapshot.known.column(self.snapshot.fields[place].name)
        return None if found is None or found.type != wanted else found.take(np.arange(len(self.snapshot)))

    def type_of(self, path: tuple[str, ...]) -> DataType | None:
        """The table's type of a column or a field of a struct; None where there is not just one."""
        fields = [self.snapshot.fields[i] for i in positions_of(path[0], self._names)]
        inside: Sequence[tuple[str, DataType]] = [(field.name, field.type) for field in fields]
        for depth, name in enumerate(path):
            found = [data_type for other, data_type in inside if fold((other,), self.case_sensitive) == (name,)]
            if len(found) != 1:
                return None
            if depth < len(path) - 1 and not found[0].fields:
                return self._agreed_type(path)
            inside = found[0].fields
        return found[0]

    def _agreed_type(self, path: tuple[str, ...]) -> DataType | None:
        names = {
            column.type
            for segment in self.segments
            for column in segment.reader.segment.columns
            if column.type is not None and fold(column.path, self.case_sensitive) == path
        }
        return DataType(names.pop()) if len(names) == 1 else None

    def _fill(self, stats: ColumnStats, segment: BoundSegment, path: tuple[str, ...], wanted: DataType) -> bool:
        """Bring what one segment knows into the statistics; whether it knows anything."""
        found = self.resolve(segment, path, wanted)
        known = False
        for column in sorted({f for f in found if isinstance(f, int)}):
            try:
                entries = segment.reader.entries(column)
            except IndexFormatError as error:
                self.warn(error)
                continue
            answers = np.array([f == column for f in found], np.bool_)[segment.schema]
            entries = _widened(entries, segment.reader.segment.columns[column].type, wanted)
            known |= _scatter(stats, entries, np.where(answers, segment.live, -1), self.rows)
        missing = np.array([f is Absent.MISSING for f in found], np.bool_)
        absent = segment.live[missing[segment.schema] & (segment.live >= 0)] if missing.any() else segment.live[:0]
        stats.nulls[absent] = self.rows[absent]
        stats.may_nan[absent] = False
        return known or len(absent) > 0

    def resolve(self, segment: BoundSegment, path: tuple[str, ...], wanted: DataType) -> list[int | Absent]:
        """Say for each schema of a segment which of the segment's columns answers."""
        path, record = fold(path, self.case_sensitive), segment.reader.segment
        may_default = self.may_default(path)
        found: list[int | Absent] = []
        for numbers in segment.related(path, self.case_sensitive):
            columns = [record.columns[n] for n in numbers]
            answer = resolve(path, wanted, columns, case_sensitive=self.case_sensitive)
            if answer is Absent.MISSING and may_default:
                answer = Absent.UNKNOWN
            found.append(answer if isinstance(answer, Absent) else numbers[answer])
        return found

    def may_default(self, path: tuple[str, ...]) -> bool:
        """Whether files without a column may hold a default in it: any file may declare one, also one that is unknown.

        path: folded.
        """
        defaults = {fold((name,), self.case_sensitive) for s in self.segments for name in s.reader.segment.defaults}
        return path[:1] in defaults or self.coverage < len(self.snapshot)


def bind_without_index(snapshot: Snapshot, *, case_sensitive: bool = False) -> BoundIndex:
    """Bind a snapshot that has no index: only its partition columns are known."""
    return BoundIndex(snapshot, (), version=0, size=0, case_sensitive=case_sensitive)


def _unknown(data_type: DataType, files: int) -> ColumnStats:
    form = data_type.form
    assert form is not None
    lower: Values = np.full(files, _ZEROS[form], _DTYPES[form])
    return ColumnStats(
        type=data_type,
        lower=lower,
        upper=lower.copy(),
        bounded=np.zeros(files, np.bool_),
        nulls=np.full(files, -1, np.int64),
        may_nan=np.full(files, form is Form.FLOAT),
    )


def _widened(entries: Entries, held: str | None, wanted: DataType) -> Entries:
    """The entries of a column in the form of the table's type."""
    widen = None if held is None else widening(held, wanted)
    assert widen is not None, "only columns that can be read as the table's type answer"
    return dataclasses.replace(entries, lower=widen(entries.lower), upper=widen(entries.upper))


def _scatter(stats: ColumnStats, entries: Entries, live: Ints, rows: Ints) -> bool:
    """Put the entries of a segment at the places of their files; whether any had one."""
    at: Any = live[entries.files]
    used: Any = at >= 0
    if used.all():
        used, at = slice(None), as_slice(at)
    else:
        at = at[used]
    stats.lower[at] = entries.lower[used]
    stats.upper[at] = entries.upper[used]
    stats.bounded[at] = entries.bounded[used]
    stats.nulls[at] = entries.nulls[used]
    if stats.type.form is Form.FLOAT:
        nulls, nans, held = entries.nulls[used], entries.nans[used], rows[at]
        stats.may_nan[at] = (nans != 0) & (nulls != held)
        places = np.arange(len(rows))[at] if isinstance(at, slice) else at
        empty = places[(nans > 0) & (nans + nulls == held)]
        stats.lower[empty], stats.upper[empty], stats.bounded[empty] = np.inf, -np.inf, True
    return bool(len(entries.files) if isinstance(at, slice) else len(at))


def _partition_stats(snapshot: Snapshot, column: int, data_type: DataType) -> ColumnStats | None:
    """Give the exact statistics of a partition column: one value for all rows of a file."""
    if data_type.form is None:
        return None
    count = len(snapshot.partitions)
    each = _unknown(data_type, count)
    null = np.zeros(count, np.bool_)
    for i, partition in enumerate(snapshot.partitions):
        value = partition.values[column]
        null[i] = value is None
        is_nan = isinstance(value, float) and value != value
        each.may_nan[i] = is_nan
        if value is not None and not is_nan:
            each.lower[i] = each.upper[i] = value
            each.bounded[i] = True
    of = snapshot.partition_of
    return ColumnStats(
        type=data_type,
        lower=each.lower[of],
        upper=each.upper[of],
        bounded=each.bounded[of],
        nulls=np.where(null[of], ALL_NULL, 0),
        may_nan=each.may_nan[of],
    )
