"""An index bound to a snapshot: the statistics of each live file, column by column."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from zskip.errors import IndexFormatError
from zskip.index.expressions import expression_stats, term_stats
from zskip.index.resolve import Absent, fold, readable_as, resolve, widening
from zskip.index.store.bound_segments import BoundSegment, WarnOnce, as_slice, fold_names, map_segments, positions_of
from zskip.index.store.cache import OwnValues
from zskip.index.store.segment import Entries, SegmentReader
from zskip.index.store.sketches import BoundSketches
from zskip.predicate import Columns, Predicate, Term
from zskip.prune import prune
from zskip.records import (
    ALL_NULL,
    Bools,
    ColumnIds,
    ColumnStats,
    IndexInfo,
    Ints,
    Partition,
    PruneResult,
    Snapshot,
    zeros,
)
from zskip.types import DataType, Form

_ENTRY_BYTES = 200
_OBJECT_BYTES = 33


def _size(path: tuple[str, ...], stats: ColumnStats | None) -> int:
    """The approximate number of bytes of a column in memory."""
    size = _ENTRY_BYTES + sum(map(len, path))
    if stats is None:
        return size
    arrays = (stats.lower, stats.upper, stats.bounded, stats.nulls, stats.may_nan)
    size += sum(array.nbytes for array in arrays)
    if stats.type.form is Form.BYTES:
        size += sum(sum(map(len, array)) + _OBJECT_BYTES * len(array) for array in arrays[:2])
    return size


class BoundIndex:
    """The statistics of one snapshot's files; a column is read when it is first needed.

    Safe to share between threads. A missing, stale or damaged entry leaves its file unknown.
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
        """The segments that describe row groups; None if the index describes only files."""
        self.snapshot = snapshot
        self.segments = tuple(segments)
        self._version = version
        self._size = size
        self.case_sensitive = case_sensitive
        self._columns = OwnValues[tuple[str, ...], ColumnStats | None]()
        names = snapshot.reading.names
        self._stored = {fold(path, case_sensitive): stored for path, stored in (names.paths or {}).items()}
        self._names = fold_names([field.name for field in snapshot.fields], case_sensitive)
        self._ids: dict[tuple[str, ...], list[int]] = {}
        for path, field_id in {} if names.ids is None else names.ids.ids.items():
            self._ids.setdefault(fold(path, case_sensitive), []).append(field_id)
        self.warn = warn or WarnOnce()
        self.rows: Ints = np.full(len(snapshot), -1, np.int64)
        """Rows of each file; -1 if unknown."""
        if snapshot.known is not None:
            self.rows[:] = snapshot.known.rows
        covered = np.zeros(len(snapshot), np.bool_)
        for segment in self.segments:
            is_live = segment.live >= 0
            self.rows[segment.live[is_live]] = segment.rows[is_live]
            covered[segment.live[is_live]] = True
        self.coverage: int = int(covered.sum())
        """The number of live files with a valid entry."""

    def info(self) -> IndexInfo:
        """Summarize what the index covers."""
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

    def prune(self, predicate: Predicate) -> PruneResult:
        """Decide for every file whether some row might match, by all of its statistics."""
        sketches = None if self.sketches is None else self.sketches.for_predicate(predicate)
        result = prune(predicate, self, sketches)
        if self._by_reading:
            # The bounds of a partition are wider than both values that engines read in its directory.
            kept = [prune(predicate, index, sketches).kept for index in self._by_reading]
            result = dataclasses.replace(result, kept=result.kept & np.logical_or.reduce(kept))
        reading = self.snapshot.reading
        return dataclasses.replace(
            result, kept=reading.add_changed(result.kept), full=reading.drop_inexact(result.full)
        )

    def with_sketches(self, sketches: BoundSketches | None) -> BoundIndex:
        """The same statistics with other sketches."""
        other = copy.copy(self)
        other.sketches = sketches
        other.__dict__.pop("_by_reading", None)
        return other

    @cached_property
    def _by_reading(self) -> tuple[BoundIndex, ...]:
        """The same for each reading of partition directories; none where engines agree on all."""
        partitions = self.snapshot.partitions
        if not any(partition.other_values for partition in partitions):
            return ()
        readings = (
            [Partition(directory=p.directory, values=p.values) for p in partitions],
            [Partition(directory=p.directory, values=p.other_values or p.values) for p in partitions],
        )
        return tuple(
            BoundIndex(
                dataclasses.replace(self.snapshot, partitions=tuple(reading)),
                self.segments,
                version=self._version,
                size=self._size,
                case_sensitive=self.case_sensitive,
                warn=self.warn,
                sketches=self.sketches,
            )
            for reading in readings
        )

    def versions(self) -> Ints:
        """The table version that added each file, or that it was first indexed with; -1 if unknown."""
        result: Ints = np.full(len(self.snapshot), -1, np.int64)
        for segment in self.segments:
            is_live = segment.live >= 0
            try:
                versions = segment.listing().versions
                assert versions is not None, "the list was read whole"
                result[segment.live[is_live]] = versions[is_live]
            except IndexFormatError as error:
                self.warn(error)
        return result

    def column(self, path: tuple[str, ...]) -> ColumnStats | None:
        """The statistics of a column in each file; None if there are none.

        The type is the table's; for a field inside a struct it is the type that all files share. A path may be the SQL
        of an expression, whose bounds are those of a sketch, or of a monotone function.
        """
        if len(path) == 1 and "(" in path[0] and not self._has_column(fold(path, self.case_sensitive)):
            columns = Columns(self.snapshot.fields, case_sensitive=self.case_sensitive)
            return expression_stats(path[0], columns, self.column, self.sketches)
        folded = fold(path, self.case_sensitive)

        def read() -> tuple[ColumnStats | None, int]:
            stats = self._column(folded)
            return stats, _size(folded, stats)

        return self._columns.get(folded, read)

    def expression(self, term: Term) -> ColumnStats | None:
        """The statistics of a term in each file; None if there are none."""
        return term_stats(term, self.column, self.sketches)

    def _has_column(self, path: tuple[str, ...]) -> bool:
        """path: folded, of one name."""
        partition_names = (fold((field.name,), self.case_sensitive) for field in self.snapshot.partition_fields)
        return bool(positions_of(path[0], self._names)) or path in partition_names

    def tight(self, path: tuple[str, ...]) -> Bools:
        """(files,) mask of the files whose bounds of a column are exactly its least and greatest value.

        The index's own bounds are exact, except for text, which is cut; a table format's own bounds may be wider.
        """
        if self.snapshot.known is None:
            return np.ones(len(self.snapshot), np.bool_)
        path = fold(path, self.case_sensitive)
        data_type = self.type_of(path)
        if data_type is None or data_type.form is None:
            return np.zeros(len(self.snapshot), np.bool_)
        own_stats = _empty_stats(data_type, len(self.snapshot))
        for segment in self.segments:
            self._fill(own_stats, segment, path, data_type)
        return own_stats.bounded

    def _column(self, path: tuple[str, ...]) -> ColumnStats | None:
        for i, field in enumerate(self.snapshot.partition_fields):
            if fold((field.name,), self.case_sensitive) == path:
                stats = partition_stats(self.snapshot.partitions, i, field.type)
                return None if stats is None else stats.take(self.snapshot.partition_of)
        data_type = self.type_of(path)
        if data_type is None or data_type.form is None:
            return None
        format_stats = self._format_stats(path, data_type)
        stats = _empty_stats(data_type, len(self.snapshot)) if format_stats is None else format_stats
        known = map_segments(lambda s: self._fill(stats, s, path, data_type), self.segments, files=len(self.snapshot))
        return stats if any(known) or format_stats is not None else None

    def _format_stats(self, path: tuple[str, ...], data_type: DataType) -> ColumnStats | None:
        """The table format's own statistics of a column, copied; None if it has none."""
        if self.snapshot.known is None or len(path) > 1:
            return None
        (position,) = positions_of(path[0], self._names)
        stats = self.snapshot.known.column(self.snapshot.fields[position].name)
        return None if stats is None or stats.type != data_type else stats.take(np.arange(len(self.snapshot)))

    def type_of(self, path: tuple[str, ...]) -> DataType | None:
        """The table's type of a column or struct field; None if it is missing or ambiguous."""
        columns = [self.snapshot.fields[i] for i in positions_of(path[0], self._names)]
        fields: Sequence[tuple[str, DataType]] = [(column.name, column.type) for column in columns]
        for depth, name in enumerate(path):
            types = [data_type for other, data_type in fields if fold((other,), self.case_sensitive) == (name,)]
            if len(types) != 1:
                return None
            if depth < len(path) - 1 and not types[0].fields:
                return self._agreed_type(path)
            fields = types[0].fields
        return types[0]

    def _agreed_type(self, path: tuple[str, ...]) -> DataType | None:
        stored = self._stored_path(path)
        names = {
            column.type
            for segment in self.segments
            for column in segment.reader.segment.columns
            if column.type is not None and fold(column.path, self.case_sensitive) == stored
        }
        return DataType(names.pop()) if len(names) == 1 else None

    def _fill(self, stats: ColumnStats, segment: BoundSegment, path: tuple[str, ...], data_type: DataType) -> bool:
        """Add one segment's entries to the statistics; returns whether it had any."""
        answers = self.resolve(segment, path, data_type)
        known = False
        for column in sorted({f for f in answers if isinstance(f, int)}):
            try:
                entries = segment.reader.entries(column)
            except IndexFormatError as error:
                self.warn(error)
                continue
            has_column = np.array([f == column for f in answers], np.bool_)[segment.schema]
            entries = _widen(entries, segment.reader.segment.columns[column].type, data_type)
            known |= _scatter(stats, entries, np.where(has_column, segment.live, -1), self.rows)
        missing = np.array([f is Absent.MISSING for f in answers], np.bool_)
        absent = segment.live[missing[segment.schema] & (segment.live >= 0)] if missing.any() else segment.live[:0]
        stats.nulls[absent] = self.rows[absent]
        stats.may_nan[absent] = False
        return known or len(absent) > 0

    def resolve(self, segment: BoundSegment, path: tuple[str, ...], data_type: DataType) -> list[int | Absent]:
        """Find, for each schema of a segment, the segment's column that answers for a path."""
        path, record = fold(path, self.case_sensitive), segment.reader.segment
        names = self.snapshot.reading.names
        if names.ids is not None:
            return self._resolve_by_id(segment, path, data_type, names.ids)
        may_default, stored = self.may_default(path), self._stored_path(path)
        if stored is None:
            return [Absent.UNKNOWN] * len(record.schemas)
        answers: list[int | Absent] = []
        for numbers in segment.related(stored, self.case_sensitive):
            columns = [record.columns[n] for n in numbers]
            answer = resolve(stored, data_type, columns, case_sensitive=self.case_sensitive)
            if answer is Absent.MISSING and may_default:
                answer = Absent.UNKNOWN
            answers.append(answer if isinstance(answer, Absent) else numbers[answer])
        return answers

    def _resolve_by_id(
        self, segment: BoundSegment, path: tuple[str, ...], data_type: DataType, column_ids: ColumnIds
    ) -> list[int | Absent]:
        """path: folded."""
        ids = self._ids.get(path, [])
        types, answers = segment.reader.segment.columns.types, list[int | Absent]()
        for numbers in segment.columns_by_id(column_ids.names):
            number = None if numbers is None or len(ids) != 1 else numbers.get(ids[0])
            if number is not None:
                answers.append(number if readable_as(types[number], data_type) else Absent.UNKNOWN)
            else:
                is_null = numbers is not None and len(ids) == 1 and ids[0] not in column_ids.filled
                answers.append(Absent.MISSING if is_null else Absent.UNKNOWN)
        return answers

    def _stored_path(self, path: tuple[str, ...]) -> tuple[str, ...] | None:
        """The path of a column in the files, None where that is not known; both folded."""
        if self.snapshot.reading.names.paths is None:
            return path
        stored = self._stored.get(path)
        return None if stored is None else fold(stored, self.case_sensitive)

    def may_default(self, path: tuple[str, ...]) -> bool:
        """Whether files without a column may hold a default in it: any file, even an unknown one, may declare one.

        path: folded.
        """
        defaults = {fold((name,), self.case_sensitive) for s in self.segments for name in s.reader.segment.defaults}
        stored = self._stored_path(path)
        return stored is None or stored[:1] in defaults or self.coverage < len(self.snapshot)


def bind_without_index(snapshot: Snapshot, *, case_sensitive: bool = False) -> BoundIndex:
    """Bind a snapshot that has no index: only its partition columns are known."""
    return BoundIndex(snapshot, (), version=0, size=0, case_sensitive=case_sensitive)


def _empty_stats(data_type: DataType, files: int) -> ColumnStats:
    form = data_type.form
    assert form is not None
    return ColumnStats(
        type=data_type,
        lower=zeros(form, files),
        upper=zeros(form, files),
        bounded=np.zeros(files, np.bool_),
        nulls=np.full(files, -1, np.int64),
        may_nan=np.full(files, form is Form.FLOAT),
    )


def _widen(entries: Entries, file_type: str | None, data_type: DataType) -> Entries:
    """The entries of a column in the form of the table's type."""
    widen = None if file_type is None else widening(file_type, data_type)
    assert widen is not None, "only columns that can be read as the table's type answer"
    lower = widen(entries.lower)
    if data_type.is_time:
        # Files tell no precision: some versions of Spark cut what has more digits than the type, others do not.
        lower = lower - lower % data_type.time_unit
    return dataclasses.replace(entries, lower=lower, upper=widen(entries.upper))


def _scatter(stats: ColumnStats, entries: Entries, live: Ints, rows: Ints) -> bool:
    """Copy a segment's entries to the positions of their files; returns whether any file is live."""
    positions: Any = live[entries.files]
    is_live: Any = positions >= 0
    if is_live.all():
        is_live, positions = slice(None), as_slice(positions)
    else:
        positions = positions[is_live]
    stats.lower[positions] = entries.lower[is_live]
    stats.upper[positions] = entries.upper[is_live]
    stats.bounded[positions] = entries.bounded[is_live]
    stats.nulls[positions] = entries.nulls[is_live]
    if stats.type.form is Form.FLOAT:
        nulls, nans, file_rows = entries.nulls[is_live], entries.nans[is_live], rows[positions]
        stats.may_nan[positions] = (nans != 0) & (nulls != file_rows)
        indexes = np.arange(len(rows))[positions] if isinstance(positions, slice) else positions
        empty = indexes[(nans > 0) & (nans + nulls == file_rows)]
        stats.lower[empty], stats.upper[empty], stats.bounded[empty] = np.inf, -np.inf, True
    return bool(len(entries.files) if isinstance(positions, slice) else len(positions))


def partition_stats(partitions: Sequence[Partition], column: int, data_type: DataType) -> ColumnStats | None:
    """The exact statistics of a partition column in each partition: one value for all rows.

    Where engines read the directory differently, the bounds hold for each of them.
    """
    if data_type.form is None:
        return None
    stats = _empty_stats(data_type, len(partitions))
    for i, partition in enumerate(partitions):
        value = partition.values[column]
        stats.nulls[i] = ALL_NULL if value is None else 0
        stats.may_nan[i] = isinstance(value, float) and value != value
        if value is not None and not stats.may_nan[i]:
            values: list[Any] = [read[column] for read in (partition.values, partition.other_values) if read]
            stats.lower[i], stats.upper[i] = min(values), max(values)
            stats.bounded[i] = True
    return stats
