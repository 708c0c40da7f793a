"""Files that do not exist yet: what a sample says their statistics would be, so that `prune` can answer for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from zskip.layout.ranks import clean
from zskip.predicate import (
    And,
    Column,
    Compare,
    In,
    IsNull,
    Leaf,
    Not,
    Or,
    Predicate,
    StartsWith,
    Unknown,
    to_sql,
)
from zskip.prune import prune
from zskip.records import Bools, ColumnStats, Field, Floats, Ints, Partition, Sample, Values
from zskip.types import Form


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Order:
    """One column of a sample, in order."""

    field: Field
    sorted: Values
    """Values that are neither null nor NaN, ascending."""
    first: Ints
    """(rows,) place in `sorted` of the first value that equals the row's; -1 for null and NaN."""
    last: Ints
    """Of the last one."""
    null: Bools
    nan: Bools


class SampledTable:
    """The columns of a sample, ranked once, from which groups of rows get their statistics."""

    def __init__(self, sample: Sample, partition_fields: Sequence[Field], partitions: Sequence[Partition]) -> None:
        """partitions: those that the sample's ordinals number."""
        self.sample = sample
        self.partition_fields = tuple(partition_fields)
        self.partitions = partitions
        self._orders = {
            field.name.lower(): _order(field, values, nulls)
            for field, values, nulls in zip(sample.fields, sample.columns, sample.nulls, strict=True)
        }

    def order(self, name: str) -> _Order | None:
        """A sampled column by its name."""
        return self._orders.get(name.lower())


class Groups:
    """Groups of the rows of a sample (files, or pages in files) as a source of statistics.

    The extremes of some rows of a group lie inside those of all its rows: a group's range is stretched at both ends by
    its width over the number of its sampled values, in ranks, the expected gap of a uniform sample.
    """

    def __init__(self, table: SampledTable, order: Ints, starts: Ints, true_rows: Floats) -> None:
        """order: (rows,) rows by group; starts: (groups,) in it; true_rows: (groups,) rows of the table in each."""
        self._table = table
        self._order = order
        self._starts = starts
        self.weight = true_rows
        self.rows: Ints = np.maximum(np.rint(true_rows), 1).astype(np.int64)
        self._columns: dict[str, ColumnStats | None] = {}

    def column(self, path: tuple[str, ...]) -> ColumnStats | None:
        """What the sample says of a column in each group; None where it was not sampled."""
        name = path[0].lower()
        if len(path) > 1:
            return None
        if name not in self._columns:
            self._columns[name] = self._column(name)
        return self._columns[name]

    def _column(self, name: str) -> ColumnStats | None:
        for place, field in enumerate(self._table.partition_fields):
            if field.name.lower() == name:
                return self._of_partitions(place, field)
        found = self._table.order(name)
        if found is None:
            return None
        first, last = found.first[self._order], found.last[self._order]
        held = first >= 0
        # Down from the last of the equal values, and up from the first: only ranges that leave them widen.
        low = np.minimum.reduceat(np.where(held, last, np.iinfo(np.int64).max), self._starts)
        high = np.maximum.reduceat(np.where(held, first, -1), self._starts)
        count = np.add.reduceat(held.astype(np.int64), self._starts)
        nulls = np.add.reduceat(found.null[self._order].astype(np.int64), self._starts)
        sizes = np.diff(np.append(self._starts, len(self._order)))
        bounded, lower, upper = self._stretched(found, low, high, count, sizes)
        return ColumnStats(
            type=found.field.type,
            lower=lower,
            upper=upper,
            bounded=bounded,
            nulls=np.where(nulls == sizes, self.rows, np.minimum(nulls, self.rows - 1)),
            may_nan=np.logical_or.reduceat(found.nan[self._order], self._starts),
        )

    def _stretched(self, found: _Order, low: Ints, high: Ints, count: Ints, sizes: Ints) -> tuple[Any, Any, Any]:
        bounded = count > 0
        if not len(found.sorted):
            return bounded, np.zeros(len(low), found.sorted.dtype), np.zeros(len(low), found.sorted.dtype)
        low, high = np.where(bounded, low, 0), np.where(bounded, high, 0)
        width = np.maximum(high - low, 0)
        unseen = 1 - np.minimum(sizes / np.maximum(self.weight, 1), 1.0)
        extra = np.ceil(width / np.maximum(count - 1, 1) * unseen - 0.5).astype(np.int64)
        most = len(found.sorted) - 1
        return bounded, found.sorted[np.maximum(low - extra, 0)], found.sorted[np.minimum(high + extra, most)]

    def _of_partitions(self, place: int, field: Field) -> ColumnStats | None:
        if field.type.form is None:
            return None
        ordinals = self._table.sample.partition[self._order[self._starts]]
        values = [self._table.partitions[int(p)].values[place] for p in ordinals]
        nan = np.array([isinstance(v, float) and v != v for v in values], np.bool_)
        held = np.array([v is not None for v in values], np.bool_) & ~nan
        dtype: Any = {Form.INT: np.int64, Form.FLOAT: np.float64, Form.BYTES: object}[field.type.form]
        filler: Any = {Form.INT: 0, Form.FLOAT: 0.0, Form.BYTES: b""}[field.type.form]
        found = np.empty(len(values), dtype)
        found[:] = [v if ok else filler for v, ok in zip(values, held, strict=True)]
        nulls = np.where(np.array([v is None for v in values], np.bool_), self.rows, 0)
        return ColumnStats(type=field.type, lower=found, upper=found, bounded=held, nulls=nulls, may_nan=nan)

    def share(self, predicate: Predicate) -> float:
        """Share (0 to 1) of the rows that lie in groups which a query has to read."""
        kept = prune(predicate, self).kept
        return float(self.weight[kept].sum() / max(self.weight.sum(), 1e-300))


def keep_pushed_down(predicate: Predicate) -> Predicate:
    """What of a predicate Spark hands to the Parquet reader, which skips pages by it; the rest becomes Unknown."""
    if isinstance(predicate, And | Or):
        return type(predicate)(tuple(map(keep_pushed_down, predicate.children)))
    if isinstance(predicate, Not) and isinstance(predicate.child, IsNull | Compare | In):
        return Not(keep_pushed_down(predicate.child))
    if isinstance(predicate, Compare | In | IsNull | StartsWith) and isinstance(predicate.term, Column):
        return predicate
    return Unknown(to_sql(predicate, shorten=True)) if isinstance(predicate, Leaf | Not) else predicate


def _order(field: Field, values: Values, nulls: Bools) -> _Order:
    values = clean(values, nulls)
    nan = cast(Bools, (values != values) & ~nulls) if values.dtype == np.float64 else np.zeros(len(nulls), np.bool_)
    held = ~nulls & ~nan
    ordered = cast(Values, np.sort(values[held]))
    first, last = np.full(len(nulls), -1, np.int64), np.full(len(nulls), -1, np.int64)
    first[held] = np.searchsorted(ordered, values[held], "left")
    last[held] = np.searchsorted(ordered, values[held], "right") - 1
    return _Order(field=field, sorted=ordered, first=first, last=last, null=nulls, nan=nan)
