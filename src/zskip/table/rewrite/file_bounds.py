"""The bounds of files in the clustering columns, by which planners choose batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from zskip.advisor.maintenance.row_scale import Bounds, scale_of
from zskip.index import BoundIndex
from zskip.layout.layout import Layout
from zskip.records import ALL_NULL, Field, Floats, Ints, Snapshot, Values
from zskip.table.index_binding import complete_in_memory
from zskip.table.refresh_index import refresh_index
from zskip.table.version import TableVersion


def bind_fresh_index(version: TableVersion, files: Snapshot, *, writes: bool) -> BoundIndex:
    """Bind an index that knows all files of a version to some; writes: whether to bring the one on disk up to date."""
    if not writes:
        return complete_in_memory(version.handle, files)
    return refresh_index(version, new_only=True).bind(files)


def read_bounds(bound: BoundIndex, fields: Sequence[Field], layout: Layout | None = None) -> list[Bounds]:
    """Read the bounds of the clustering columns from an index; layout: the one that most rows are in, if known."""
    bounds_by_column = []
    for i, field in enumerate(fields):
        stats = bound.column(field.path)
        if stats is None:
            unknown = np.zeros(len(bound.snapshot), np.int64)
            bounds_by_column.append(Bounds(lower=unknown, upper=unknown, bounded=unknown != 0))
            continue
        has_splits = layout and layout.build.has_bounds and layout.fields[i].type == field.type
        splits = layout.bounds[i] if layout and has_splits else None
        lower, upper, bounded = stats.lower.copy(), stats.upper.copy(), stats.bounded
        empty = ((stats.nulls == ALL_NULL) | ((stats.nulls == bound.rows) & (bound.rows >= 0))) & (bound.rows != 0)
        if empty.any() and (bounded & ~empty).any():
            # No range matches a null: the file lies beside all values, at their end.
            last = upper[bounded & ~empty][np.argmax(upper[bounded & ~empty])]
            for ends in (lower, upper):
                ends[empty] = last
            bounded = bounded | empty
        bounds_by_column.append(Bounds(lower=lower, upper=upper, bounded=bounded, splits=splits))
    return bounds_by_column


def weigh_other_files(columns: Sequence[Bounds], rows: Ints, batch: Ints) -> tuple[tuple[Values, Floats], ...]:
    """For each column, values of the files outside a batch and the number of rows that each stands for.

    rows: (files,); batch: the numbers of its files.
    """
    is_other = np.ones(len(rows), np.bool_)
    is_other[batch] = False
    values_and_rows = []
    for c in columns if is_other.any() else ():
        others = replace(c, lower=c.lower[is_other], upper=c.upper[is_other], bounded=c.bounded[is_other])
        scale = scale_of(others, rows[is_other])
        values_and_rows.append((scale.points, np.diff(scale.below) * float(rows[is_other].sum())))
    return tuple(values_and_rows)
