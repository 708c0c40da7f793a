"""Statistics of files that do not exist yet, estimated from a sample, so that `prune` can answer for them."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from zskip.index import partition_stats
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
    columns_of,
    to_sql,
)
from zskip.prune import prune
from zskip.records import Bools, ColumnStats, Field, Floats, Ints, Partition, Sample, Values


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _SortedColumn:
    """One column of a sample, sorted."""

    field: Field
    sorted: Values
    """Values that are neither null nor NaN, ascending."""
    first: Ints
    """(rows,) position in `sorted` of the first value equal to the row's; -1 for null and NaN."""
    last: Ints
    """(rows,) position of the last one."""
    null: Bools
    nan: Bools


class SampledTable:
    """The columns of a sample, sorted once; groups of rows get their statistics from them."""

    def __init__(self, sample: Sample, partition_fields: Sequence[Field], partitions: Sequence[Partition]) -> None:
        """partitions: the list that `sample.partition` points into."""
        self.sample = sample
        self.partition_fields = tuple(partition_fields)
        self.partitions = partitions
        self._sorted = {
            _fold(field.path): _sort_column(field, values, nulls)
            for field, values, nulls in zip(sample.fields, sample.columns, sample.nulls, strict=True)
        }

    def sorted_column(self, path: tuple[str, ...]) -> _SortedColumn | None:
        """Look up a sampled column, or a field inside structs."""
        return self._sorted.get(_fold(path))


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
        self._columns: dict[tuple[str, ...], ColumnStats | None] = {}

    def column(self, path: tuple[str, ...]) -> ColumnStats | None:
        """Estimate the statistics of a column in each group; None if it was not sampled."""
        path = _fold(path)
        if path not in self._columns:
            self._columns[path] = self._estimate_column(path)
        return self._columns[path]

    def _estimate_column(self, path: tuple[str, ...]) -> ColumnStats | None:
        for position, field in enumerate(self._table.partition_fields):
            if _fold(field.path) == path:
                stats = partition_stats(self._table.partitions, position, field.type)
                return None if stats is None else stats.take(self._table.sample.partition[self._order[self._starts]])
        column = self._table.sorted_column(path)
        if column is None:
            return None
        first, last = column.first[self._order], column.last[self._order]
        has_value = first >= 0
        # The lower bound moves down from the last of its equal values, the upper bound up from the first:
        # only steps beyond the equal values widen the range.
        low = np.minimum.reduceat(np.where(has_value, last, np.iinfo(np.int64).max), self._starts)
        high = np.maximum.reduceat(np.where(has_value, first, -1), self._starts)
        count = np.add.reduceat(has_value.astype(np.int64), self._starts)
        nulls = np.add.reduceat(column.null[self._order].astype(np.int64), self._starts)
        sizes = np.diff(np.append(self._starts, len(self._order)))
        bounded, lower, upper = self._stretch_bounds(column, low, high, count, sizes)
        return ColumnStats(
            type=column.field.type,
            lower=lower,
            upper=upper,
            bounded=bounded,
            nulls=np.where(nulls == sizes, self.rows, np.minimum(nulls, self.rows - 1)),
            may_nan=np.logical_or.reduceat(column.nan[self._order], self._starts),
        )

    def _stretch_bounds(
        self, column: _SortedColumn, low: Ints, high: Ints, count: Ints, sizes: Ints
    ) -> tuple[Any, Any, Any]:
        bounded = count > 0
        if not len(column.sorted):
            return bounded, np.zeros(len(low), column.sorted.dtype), np.zeros(len(low), column.sorted.dtype)
        low, high = np.where(bounded, low, 0), np.where(bounded, high, 0)
        width = np.maximum(high - low, 0)
        unsampled = 1 - np.minimum(sizes / np.maximum(self.weight, 1), 1.0)
        extra = np.ceil(width / np.maximum(count - 1, 1) * unsampled - 0.5).astype(np.int64)
        most = len(column.sorted) - 1
        return bounded, column.sorted[np.maximum(low - extra, 0)], column.sorted[np.minimum(high + extra, most)]

    def share(self, predicate: Predicate) -> float:
        """Estimate the share (0 to 1) of the rows in groups that a query has to read."""
        kept = prune(predicate, self).kept
        return float(self.weight[kept].sum() / max(self.weight.sum(), 1e-300))


def keep_pushed_down(predicate: Predicate, expressions: Set[tuple[str, ...]] = frozenset()) -> Predicate:
    """Keep the parts of a predicate that Spark pushes down to Parquet to skip pages; the rest becomes Unknown.

    expressions: paths of columns that no file has.
    """
    if isinstance(predicate, And | Or):
        return type(predicate)(tuple(keep_pushed_down(child, expressions) for child in predicate.children))
    if isinstance(predicate, Not) and isinstance(predicate.child, IsNull | Compare | In):
        return Not(keep_pushed_down(predicate.child, expressions))
    is_plain = isinstance(predicate, Compare | In | IsNull | StartsWith) and isinstance(predicate.term, Column)
    if is_plain and not {column.path for column in columns_of(predicate)} & expressions:
        return predicate
    return Unknown(to_sql(predicate, shorten=True)) if isinstance(predicate, Leaf | Not) else predicate


def _fold(path: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.lower() for name in path)


def _sort_column(field: Field, values: Values, nulls: Bools) -> _SortedColumn:
    values = clean(values, nulls)
    nan = cast(Bools, (values != values) & ~nulls) if values.dtype == np.float64 else np.zeros(len(nulls), np.bool_)
    has_value = ~nulls & ~nan
    ordered = cast(Values, np.sort(values[has_value]))
    first, last = np.full(len(nulls), -1, np.int64), np.full(len(nulls), -1, np.int64)
    first[has_value] = np.searchsorted(ordered, values[has_value], "left")
    last[has_value] = np.searchsorted(ordered, values[has_value], "right") - 1
    return _SortedColumn(field=field, sorted=ordered, first=first, last=last, null=nulls, nan=nan)
