"""Complete the statistics of footers by what a pass over the rows counted.

Footers leave gaps: bounds that may not be believed, timestamps of 96 bits, the number of NaN. A segment that went
through is marked, so that nothing is counted twice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa

from zskip.errors import IndexFormatError
from zskip.index.bound_index import BoundIndex
from zskip.index.collect.footers import MAX_BOUND_BYTES, shorten_upper
from zskip.index.store.bound_segments import BoundSegment, warn_damaged
from zskip.index.store.segment import Entries, Segment, entries_table, new_name, write_segment
from zskip.records import Bools, Field, Ints, Values
from zskip.storage import Storage
from zskip.types import DataType, Form

Path = tuple[str, ...]
CALENDAR_TYPES = ("date", "timestamp", "timestamp_ntz")
"""Of which the values depend on a calendar."""
_DAY_MICROS = 86_400_000_000
_SURE_DAY = -25_567 + 2
"""Two days into 1900: from there on values are the same in all calendars, and in whatever zone they were rebased."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CountedColumn:
    """What files hold of one column; arrays of (files of the snapshot,)."""

    type: DataType
    nulls: Ints
    nans: Ints
    lower: Values
    """Of the values that are neither null nor NaN; of strings and binary some first bytes, more than bounds have."""
    upper: Values
    bounded: Bools
    """Whether there are such values."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Gaps:
    """What to count."""

    files: Bools
    """(files of the snapshot,)"""
    columns: tuple[tuple[Path, DataType], ...]


Count = Callable[[Gaps], tuple[Ints, Mapping[Path, CountedColumn]]]
"""Counts the rows of files, and what they hold of columns."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Counting:
    """Which gaps to fill, and how."""

    count: Count
    new_only: bool = False
    """Count only in files that had no entry."""
    everything: bool = False
    """Count what footers tell, too, and what was counted before."""


def ordered_columns(fields: Sequence[Field]) -> Iterator[tuple[Path, DataType]]:
    """The columns whose types have an order, fields of structs included.

    >>> [path for path, _ in ordered_columns([Field(name="a", type=DataType("long"), nullable=True)])]
    [('a',)]
    """
    todo: list[tuple[Path, DataType]] = [((field.name,), field.type) for field in fields]
    while todo:
        path, data_type = todo.pop(0)
        if data_type.form is not None:
            yield path, data_type
        todo = [((*path, name), inner) for name, inner in data_type.fields] + todo


def fill_gaps(storage: Storage, bound: BoundIndex, files: Bools, counting: Counting) -> list[Segment]:
    """Count what segments lack, and give them with it: in new segments, marked as filled, or as they were.

    files: (files of the snapshot,) those of which rows may be read.
    """
    gaps = _gaps_of(bound, files, everything=counting.everything)
    rows, counted = counting.count(gaps) if gaps.files.any() else (np.empty(0, np.int64), {})

    def filled(segment: BoundSegment) -> Segment:
        try:
            return _filled(storage, bound, segment, gaps, files, rows, counted)
        except IndexFormatError as error:
            warn_damaged(error)
            return segment.reader.segment

    return [filled(segment) for segment in bound.segments]


def _gaps_of(bound: BoundIndex, files: Bools, *, everything: bool) -> Gaps:
    open_files: Bools = np.zeros(len(bound.snapshot), np.bool_)
    columns: dict[Path, DataType] = {}
    for segment in bound.segments:
        if not everything and segment.reader.segment.filled:
            continue
        for path, data_type in ordered_columns(bound.snapshot.fields):
            for number, answers in _answers(bound, segment, path, data_type):
                lacking = answers if everything else answers & _is_open(segment, number)
                at = segment.live[lacking & (segment.live >= 0)]
                at = at[files[at]]
                open_files[at] = True
                if len(at):
                    columns[path] = data_type
    return Gaps(files=open_files, columns=tuple(columns.items()))


def _answers(bound: BoundIndex, segment: BoundSegment, path: Path, data_type: DataType) -> Iterator[tuple[int, Bools]]:
    """The columns of a segment that hold a column of the table in just its type, each with the files it does so in."""
    found = bound.resolve(segment, path, data_type)
    for number in sorted({f for f in found if isinstance(f, int)}):
        if segment.reader.segment.columns[number].type == data_type.name:
            yield number, np.array([f == number for f in found], np.bool_)[segment.schema]


def _is_open(segment: BoundSegment, number: int) -> Bools:
    """(files of the segment,) whether a column is not wholly known in a file, and was never counted."""
    rows = segment.rows
    found: Bools = rows > 0
    try:
        entries = segment.reader.entries(number)
    except IndexFormatError:
        return np.zeros_like(found)
    empty = entries.nulls == rows[entries.files]
    known = empty | ((entries.nulls >= 0) & entries.bounded & (entries.lower.dtype != np.float64))
    found[entries.files[known | (entries.nans >= 0)]] = False
    return found


def _filled(
    storage: Storage,
    bound: BoundIndex,
    segment: BoundSegment,
    gaps: Gaps,
    files: Bools,
    rows: Ints,
    counted: Mapping[Path, CountedColumn],
) -> Segment:
    """A segment with what was counted of its files, apart from those that have other rows than their footers say."""
    record = segment.reader.segment
    usable = segment.live >= 0
    at = segment.live[usable]
    whole = record.filled or bool(files[at].all())
    if not gaps.files[at].any():
        return dataclasses.replace(record, filled=whole)
    usable[usable] = gaps.files[at] & (rows[at] == segment.rows[usable])
    of_column: dict[int, list[tuple[CountedColumn, Bools]]] = {}
    for path, found in counted.items():
        for number, answers in _answers(bound, segment, path, found.type):
            of_column.setdefault(number, []).append((found, answers & usable))

    def tables() -> Iterator[pa.Table]:
        for number, column in enumerate(record.columns):
            if number not in of_column:
                yield segment.reader.table(number)
                continue
            form = DataType(column.type or "").form
            assert form is not None, "only columns with an order are counted"
            entries = segment.reader.entries(number)
            for found, files in of_column[number]:
                entries = _merged(entries, found, files, segment.live)
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
        filled=whole,
    )


def _merged(entries: Entries, found: CountedColumn, files: Bools, live: Ints) -> Entries:
    """Entries of a column with what was counted in place of what the footers of some files say."""
    given = np.flatnonzero(files)
    kept = np.flatnonzero(~files[entries.files])
    at = live[given]
    lower, upper, bounded = _bounds(found, at)
    old = np.full(len(files), -1, np.int64)
    old[entries.files] = np.arange(len(entries.files))
    told = old[given]
    # Footers that are believed know ancient days; counted ones depend on the calendar of whoever reads.
    footers = ~bounded & found.bounded[at] & (told >= 0)
    footers[footers] = entries.bounded[told[footers]]
    lower[footers], upper[footers] = entries.lower[told[footers]], entries.upper[told[footers]]
    all_files = np.concatenate([entries.files[kept], given]).astype(np.int32)
    order = np.argsort(all_files, kind="stable")

    def joined(before: Any, after: Any) -> Any:
        return np.concatenate([before[kept], after])[order]

    return Entries(
        files=all_files[order],
        nulls=joined(entries.nulls, found.nulls[at]),
        nans=joined(entries.nans, found.nans[at]),
        lower=joined(entries.lower, lower),
        upper=joined(entries.upper, upper),
        bounded=joined(entries.bounded, bounded | footers),
    )


def _bounds(found: CountedColumn, at: Ints) -> tuple[Values, Values, Bools]:
    """Bounds as the index keeps them, of the files at some places of the snapshot."""
    lower, upper, bounded = found.lower[at].copy(), found.upper[at].copy(), found.bounded[at].copy()
    if found.type.name in CALENDAR_TYPES:
        bounded &= lower >= first_unambiguous(found.type)
    if found.type.form is Form.BYTES and not found.type.is_decimal:
        for i in np.flatnonzero(bounded).tolist():
            top = shorten_upper(cast(bytes, upper[i]))
            lower[i], upper[i] = lower[i][:MAX_BOUND_BYTES], top if top is not None else b""
            bounded[i] = top is not None
    return lower, upper, bounded


def first_unambiguous(data_type: DataType) -> int:
    """The first day or time, in the form of its type, that is the same in all calendars."""
    return _SURE_DAY if data_type.name == "date" else _SURE_DAY * _DAY_MICROS
