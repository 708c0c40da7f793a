"""Fills gaps in footer statistics with counts from a pass over the rows.

Footers leave gaps: bounds that cannot be trusted, timestamps of 96 bits, the number of NaN. A counted segment is
marked, so that nothing is counted twice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa

from zskip.errors import IndexFormatError
from zskip.index.bound_index import BoundIndex
from zskip.index.collect.footers import MAX_BOUND_BYTES, shorten_upper
from zskip.index.store.bound_segments import BoundSegment, warn_damaged
from zskip.index.store.segment import Entries, Segment, entries_table, new_name, write_segment
from zskip.predicate import Column
from zskip.records import ALL_NULL, Bools, Field, Ints, Values
from zskip.storage import Storage
from zskip.types import DAY_MICROS, DataType, Form

Path = tuple[str, ...]
CALENDAR_TYPES = ("date", "timestamp", "timestamp_ntz")
"""Types whose values depend on a calendar."""
_FIRST_UNAMBIGUOUS_DAY = -25_567 + 2
"""Two days into 1900: from then on values are the same in all calendars and rebase time zones."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CountedColumn:
    """The counted statistics of one column; arrays of (files of the snapshot,)."""

    type: DataType
    nulls: Ints
    nans: Ints
    lower: Values
    """The least value that is neither null nor NaN; a prefix of strings and binary, longer than a bound."""
    upper: Values
    bounded: Bools
    """Whether there is any such value."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Gaps:
    """The files and columns to count."""

    files: Bools
    """(files of the snapshot,)"""
    columns: tuple[tuple[Path, DataType], ...]


Count = Callable[[Gaps], tuple[Ints, Mapping[Path, CountedColumn]]]
"""Counts the rows of files, and the statistics of columns."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Counting:
    """Which gaps to fill, and how."""

    count: Count
    new_only: bool = False
    """Count only in files that had no entry."""
    everything: bool = False
    """Also count what footers state, and what was counted before."""


def ordered_columns(fields: Sequence[Field]) -> Iterator[tuple[Path, DataType]]:
    """The columns whose types have an order, including fields of structs.

    >>> [path for path, _ in ordered_columns([Field(name="a", type=DataType("long"), nullable=True)])]
    [('a',)]
    """
    pending: list[tuple[Path, DataType]] = [((field.name,), field.type) for field in fields]
    while pending:
        path, data_type = pending.pop(0)
        if data_type.form is not None:
            yield path, data_type
        pending = [((*path, name), inner) for name, inner in data_type.fields] + pending


def fill_gaps(storage: Storage, bound: BoundIndex, files: Bools, counting: Counting) -> list[Segment]:
    """Count the statistics that segments lack; returns new segments, marked as filled, or the unchanged ones.

    files: (files of the snapshot,) mask of the files whose rows may be read.
    """
    gaps = _find_gaps(bound, files, everything=counting.everything)
    rows, counted = counting.count(gaps) if gaps.files.any() else (np.empty(0, np.int64), {})

    def fill_or_keep(segment: BoundSegment) -> Segment:
        try:
            return _fill_segment(storage, bound, segment, gaps, files, rows, counted)
        except IndexFormatError as error:
            warn_damaged(error)
            return segment.reader.segment

    return [fill_or_keep(segment) for segment in bound.segments]


def _find_gaps(bound: BoundIndex, files: Bools, *, everything: bool) -> Gaps:
    gap_files: Bools = np.zeros(len(bound.snapshot), np.bool_)
    columns: dict[Path, DataType] = {}
    for segment in bound.segments:
        if not everything and segment.reader.segment.filled:
            continue
        for path, data_type in ordered_columns(bound.snapshot.fields):
            for number, has_column in _matching_columns(bound, segment, path, data_type):
                has_gap = has_column if everything else has_column & _has_gap(segment, number)
                positions = segment.live[has_gap & (segment.live >= 0)]
                positions = positions[files[positions]]
                gap_files[positions] = True
                if len(positions):
                    columns[path] = data_type
    return Gaps(files=gap_files, columns=tuple(columns.items()))


def _matching_columns(
    bound: BoundIndex, segment: BoundSegment, path: Path, data_type: DataType
) -> Iterator[tuple[int, Bools]]:
    """The columns of a segment with exactly a table column's type, each with a mask of its files."""
    answers = bound.resolve(segment, path, data_type)
    for number in sorted({f for f in answers if isinstance(f, int)}):
        if segment.reader.segment.columns[number].type == data_type.name:
            yield number, np.array([f == number for f in answers], np.bool_)[segment.schema]


def _has_gap(segment: BoundSegment, number: int) -> Bools:
    """(files of the segment,) whether a column's statistics are incomplete in a file and were never counted."""
    rows = segment.rows
    gaps: Bools = rows > 0
    try:
        entries = segment.reader.entries(number)
    except IndexFormatError:
        return np.zeros_like(gaps)
    empty = entries.nulls == rows[entries.files]
    known = empty | ((entries.nulls >= 0) & entries.bounded & (entries.lower.dtype != np.float64))
    gaps[entries.files[known | (entries.nans >= 0)]] = False
    return gaps


def _fill_segment(
    storage: Storage,
    bound: BoundIndex,
    segment: BoundSegment,
    gaps: Gaps,
    files: Bools,
    rows: Ints,
    counted: Mapping[Path, CountedColumn],
) -> Segment:
    """A segment with counts added for its files, except those whose row count differs from their footer's."""
    record = segment.reader.segment
    usable = segment.live >= 0
    positions = segment.live[usable]
    is_filled = record.filled or bool(files[positions].all())
    if not gaps.files[positions].any():
        return dataclasses.replace(record, filled=is_filled)
    usable[usable] = gaps.files[positions] & (rows[positions] == segment.rows[usable])
    counted_columns: dict[int, list[tuple[CountedColumn, Bools]]] = {}
    for path, column_counts in counted.items():
        for number, has_column in _matching_columns(bound, segment, path, column_counts.type):
            counted_columns.setdefault(number, []).append((column_counts, has_column & usable))

    def tables() -> Iterator[pa.Table]:
        for number, column in enumerate(record.columns):
            if number not in counted_columns:
                yield segment.reader.table(number)
                continue
            form = DataType(column.type or "").form
            assert form is not None, "only columns with an order are counted"
            entries = segment.reader.entries(number)
            for column_counts, files in counted_columns[number]:
                entries = _merge_counts(entries, column_counts, files, segment.live)
            yield entries_table(
                number,
                form,
                files=entries.files,
                nulls=entries.nulls,
                nans=entries.nans,
                lower=entries.lower,
                upper=entries.upper,
                unbounded=~entries.bounded,
            )

    return write_segment(
        storage,
        new_name(),
        segment.listing().table(),
        record.columns,
        record.schemas,
        record.defaults,
        tables(),
        filled=is_filled,
    )


def _merge_counts(entries: Entries, counted: CountedColumn, files: Bools, live: Ints) -> Entries:
    """The entries of a column, with counts in place of some files' footer statistics."""
    counted_files = np.flatnonzero(files)
    kept = np.flatnonzero(~files[entries.files])
    at = live[counted_files]
    lower, upper, bounded = _bounds(counted, at)
    old = np.full(len(files), -1, np.int64)
    old[entries.files] = np.arange(len(entries.files))
    before = old[counted_files]
    # Trusted footers know ancient days; counted ones depend on the reader's calendar.
    from_footers = ~bounded & counted.bounded[at] & (before >= 0)
    from_footers[from_footers] = entries.bounded[before[from_footers]]
    lower[from_footers] = entries.lower[before[from_footers]]
    upper[from_footers] = entries.upper[before[from_footers]]
    all_files = np.concatenate([entries.files[kept], counted_files]).astype(np.int32)
    order = np.argsort(all_files, kind="stable")

    def joined(footers: Any, counts: Any) -> Any:
        return np.concatenate([footers[kept], counts])[order]

    return Entries(
        files=all_files[order],
        nulls=joined(entries.nulls, counted.nulls[at]),
        nans=joined(entries.nans, counted.nans[at]),
        lower=joined(entries.lower, lower),
        upper=joined(entries.upper, upper),
        bounded=joined(entries.bounded, bounded | from_footers),
    )


def _bounds(counted: CountedColumn, at: Ints) -> tuple[Values, Values, Bools]:
    """Bounds in the index's form, for the files at some positions of the snapshot."""
    lower, upper, bounded = counted.lower[at].copy(), counted.upper[at].copy(), counted.bounded[at].copy()
    if counted.type.name in CALENDAR_TYPES:
        bounded &= lower >= first_unambiguous(counted.type)
    if counted.type.form is Form.BYTES and not counted.type.is_decimal:
        for i in np.flatnonzero(bounded).tolist():
            top = shorten_upper(cast(bytes, upper[i]))
            lower[i], upper[i] = lower[i][:MAX_BOUND_BYTES], top if top is not None else b""
            bounded[i] = top is not None
    return lower, upper, bounded


def has_plain_days(bound: BoundIndex, columns: Iterable[Column | Field]) -> Bools:
    """(files,) which hold no day of some columns that calendars read differently."""
    sure: Bools = np.ones(len(bound.snapshot), np.bool_)
    for column in columns:
        if column.type.name in CALENDAR_TYPES:
            stats = bound.column(column.path)
            if stats is None:
                return np.zeros_like(sure)
            late = stats.bounded & (stats.lower >= first_unambiguous(column.type))
            sure &= late | (stats.nulls == ALL_NULL) | (stats.nulls == bound.rows)
    return sure


def first_unambiguous(data_type: DataType) -> int:
    """The first day or time, in the form of its type, that is the same in all calendars."""
    return _FIRST_UNAMBIGUOUS_DAY if data_type.name == "date" else _FIRST_UNAMBIGUOUS_DAY * DAY_MICROS
