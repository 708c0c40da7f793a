"""What an index keeps of each column and expression, and of how many files."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from zskip.index.bound_index import BoundIndex
from zskip.predicate import Column, term_sql
from zskip.records import ALL_NULL, Field, IndexedPart
from zskip.types import DataType

_BEHIND = "they are not in the index; bring it up to date"
_UNKNOWN = "their footers do not tell, or what they tell cannot be believed"


def list_indexed_parts(bound: BoundIndex, only: Collection[str] | None = None) -> tuple[IndexedPart, ...]:
    """The bounds of each column, the values of partition columns, and the sketches, in this order.

    only: columns whose bounds are described; None for all.
    """
    snapshot = bound.snapshot
    fields = [field for field in snapshot.fields if only is None or field.name in only]
    bounds = [_bounds(bound, path, field.type) for field in fields for path in _paths(bound, field)]
    partitions = [
        IndexedPart(on=_written((field.name,), field.type), kind="partition", files=len(snapshot))
        for field in snapshot.partition_fields
    ]
    sketches = () if bound.sketches is None else bound.sketches.info()
    of_sketches = [
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
    return (*bounds, *partitions, *of_sketches)


def _paths(bound: BoundIndex, field: Field) -> list[tuple[str, ...]]:
    """A column, or in its place the fields of structs that the index speaks of."""
    held = (column.path for segment in bound.segments for column in segment.reader.segment.columns)
    inside = dict.fromkeys(path for path in held if len(path) > 1 and path[0] == field.name)
    return list(inside) or [(field.name,)]


def _written(path: tuple[str, ...], data_type: DataType) -> str:
    return term_sql(Column(path, data_type))


def _bounds(bound: BoundIndex, path: tuple[str, ...], data_type: DataType) -> IndexedPart:
    data_type = bound.type_of(path) or data_type
    stats, known = bound.column(path), np.zeros(len(bound.snapshot), np.bool_)
    if stats is not None:
        known = stats.bounded | (stats.nulls == ALL_NULL) | ((bound.rows >= 0) & (stats.nulls == bound.rows))
    reason = "" if known.all() else _BEHIND if (bound.rows[~known] < 0).any() else _UNKNOWN
    return IndexedPart(
        on=_written(path, data_type),
        kind="minmax",
        files=int(known.sum()),
        bytes=_bytes(bound, path),
        left_out=int((~known).sum()),
        reason=f"values of type {data_type} have no order" if data_type.form is None and reason else reason,
    )


def _bytes(bound: BoundIndex, path: tuple[str, ...]) -> int:
    """The share of a column in the entries of all segments, by their number."""
    found = 0.0
    for segment in (bound_segment.reader.segment for bound_segment in bound.segments):
        size = segment.footer.offset + segment.footer.length
        held = [i for i, column in enumerate(segment.columns) if column.path == path]
        found += sum(
            size * (segment.starts[i + 1] - segment.starts[i]) / segment.entries for i in held if segment.entries
        )
    return round(found)
