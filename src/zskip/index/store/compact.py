"""Merges segments into fewer ones, without the entries of dead files."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from zskip.index.store.bound_segments import BoundSegment
from zskip.index.store.leaves import Column
from zskip.index.store.segment import ENTRIES_SCHEMA, MAX_ENTRIES, Segment, new_name, write_segment
from zskip.storage import Storage

MAX_SEGMENTS = 8
"""More segments than this are merged."""


def choose_groups(segments: Sequence[BoundSegment]) -> list[list[BoundSegment]]:
    """Choose groups of segments to merge, none larger than a segment may be.

    A mostly dead segment is rewritten by itself; if there are too many segments, all smaller ones are merged.
    """
    too_many = len(segments) > MAX_SEGMENTS
    groups: list[list[BoundSegment]] = []
    size = 0
    for segment in segments:
        entries = segment.reader.segment.entries * _count_live(segment) // max(len(segment.live), 1)
        if not (_is_mostly_dead(segment) or (too_many and 2 * entries < MAX_ENTRIES)):
            continue
        if not groups or size + entries > MAX_ENTRIES:
            groups.append([])
            size = 0
        groups[-1].append(segment)
        size += entries
    return [group for group in groups if len(group) > 1 or _is_mostly_dead(group[0])]


def _count_live(segment: BoundSegment) -> int:
    return int((segment.live >= 0).sum())


def _is_mostly_dead(segment: BoundSegment) -> bool:
    return 2 * _count_live(segment) < len(segment.live)


def merge_segments(storage: Storage, segments: Sequence[BoundSegment]) -> Segment | None:
    """Write the live entries of some segments to one new segment; None if there are none.

    Raises IndexFormatError if a segment is damaged, and StorageError if the new one cannot be written.
    """
    columns: dict[Column, int] = {}
    schemas: dict[tuple[int, ...], int] = {}
    listings: list[pa.Table] = []
    offset = 0
    renumbered: list[np.ndarray[tuple[int], np.dtype[np.int32]]] = []
    for segment in segments:
        record, listing = segment.reader.segment, segment.listing()
        numbers = [columns.setdefault(column, len(columns)) for column in record.columns]
        mapped = [tuple(numbers[n] for n in schema) for schema in record.schemas]
        schema_of = np.array([schemas.setdefault(schema, len(schemas)) for schema in mapped], np.int32)
        keep = segment.live >= 0
        renumbered.append(np.where(keep, offset + np.cumsum(keep) - 1, -1).astype(np.int32))
        offset += int(keep.sum())
        table = dataclasses.replace(listing, schema=schema_of[listing.schema]).table()
        listings.append(table.filter(pa.array(keep)))
    if offset == 0:
        return None
    defaults = {name for segment in segments for name in segment.reader.segment.defaults}
    tables = _merge_columns(segments, renumbered, columns)
    filled = all(segment.reader.segment.filled for segment in segments)
    merged_listing = pa.concat_tables(listings)
    return write_segment(
        storage, new_name(), merged_listing, tuple(columns), tuple(schemas), defaults, tables, filled=filled
    )


def _merge_columns(
    segments: Sequence[BoundSegment],
    renumbered: Sequence[np.ndarray[tuple[int], np.dtype[np.int32]]],
    columns: dict[Column, int],
) -> Iterator[pa.Table]:
    """The entries of one column after another, renumbered for the merged segment."""
    positions = [{column: i for i, column in enumerate(s.reader.segment.columns)} for s in segments]
    for column, number in columns.items():
        parts = [ENTRIES_SCHEMA.empty_table()]
        for segment, new_numbers, position in zip(segments, renumbered, positions, strict=True):
            if column in position:
                table = segment.reader.table(position[column])
                files = new_numbers[table["file"].to_numpy()]
                table = table.set_column(
                    0, ENTRIES_SCHEMA.field(0), pa.repeat(pa.scalar(number, pa.int32()), len(files))
                )
                table = table.set_column(1, ENTRIES_SCHEMA.field(1), pa.array(files))
                parts.append(table.filter(pa.array(files >= 0)))
        yield pa.concat_tables(parts)
