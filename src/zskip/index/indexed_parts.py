"""The columns and expressions that an index covers, and in how many files."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from zskip.index.bound_index import BoundIndex
from zskip.predicate import Column, term_sql
from zskip.records import ALL_NULL, Field, IndexedPart
from zskip.types import DataType

_BEHIND = "they are not in the index; bring it up to date"
_UNKNOWN = "their footers have no statistics, or none that can be trusted"


def list_indexed_parts(bound: BoundIndex, only: Collection[str] | None = None) -> tuple[IndexedPart, ...]:
    """The bounds of each column, the values of partition columns, and the sketches, in this order.

    only: columns whose bounds are listed; None for all.
    """
    snapshot = bound.snapshot
    fields = [field for field in snapshot.fields if only is None or field.name in only]
    bounds = [_bounds(bound, path, field.type) for field in fields for path in _paths(bound, field)]
    partitions = [
        IndexedPart(on=_to_sql((field.name,), field.type), kind="partition", files=len(snapshot))
        for field in snapshot.partition_fields
    ]
    sketches = () if bound.sketches is None else bound.sketches.info()
    sketch_parts = [
        IndexedPart(
            on=sketch.spec.partition(":")[2],
            kind=sketch.spec.partition(":")[0],
            files=sketch.files,
            bytes=sketch.bytes,
            left_out=sketch.left_out,
            reason=sketch.reason,
        )
        for sketch in sketches
    ]
    return (*bounds, *partitions, *sketch_parts)


def _paths(bound: BoundIndex, field: Field) -> list[tuple[str, ...]]:
    """A column, or its struct fields in the index instead."""
    paths = (column.path for segment in bound.segments for column in segment.reader.segment.columns)
    fields = dict.fromkeys(path for path in paths if len(path) > 1 and path[0] == field.name)
    return list(fields) or [(field.name,)]


def _to_sql(path: tuple[str, ...], data_type: DataType) -> str:
    return term_sql(Column(path, data_type))


def _bounds(bound: BoundIndex, path: tuple[str, ...], data_type: DataType) -> IndexedPart:
    data_type = bound.type_of(path) or data_type
    stats, known = bound.column(path), np.zeros(len(bound.snapshot), np.bool_)
    if stats is not None:
        known = stats.bounded | (stats.nulls == ALL_NULL) | ((bound.rows >= 0) & (stats.nulls == bound.rows))
    reason = "" if known.all() else _BEHIND if (bound.rows[~known] < 0).any() else _UNKNOWN
    return IndexedPart(
        on=_to_sql(path, data_type),
        kind="minmax",
        files=int(known.sum()),
        bytes=_bytes(bound, path),
        left_out=int((~known).sum()),
        reason=f"values of type {data_type} have no order" if data_type.form is None and reason else reason,
    )


def _bytes(bound: BoundIndex, path: tuple[str, ...]) -> int:
    """A column's share of all segments' size, by its number of entries."""
    total = 0.0
    for segment in (bound_segment.reader.segment for bound_segment in bound.segments):
        size = segment.footer.offset + segment.footer.length
        numbers = [i for i, column in enumerate(segment.columns) if column.path == path]
        total += sum(
            size * (segment.starts[i + 1] - segment.starts[i]) / segment.entries for i in numbers if segment.entries
        )
    return round(total)
