"""Bounds of expressions in each file: of what a sketch knows, or by the bounds of a column below monotone functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from zskip.index.store.sketches import BoundSketches
from zskip.predicate import Call, Column, Columns, Term, is_condition, key_term
from zskip.prune import monotone
from zskip.records import ALL_NULL, ColumnStats, Field
from zskip.sketch import SketchOn
from zskip.sketch.kinds.matches import Matches
from zskip.sketch.kinds.ranges import Ranges
from zskip.types import NESTED

_Stats = Callable[[tuple[str, ...]], "ColumnStats | None"]


def expression_stats(
    text: str, columns: Columns, column_stats: _Stats, sketches: BoundSketches | None
) -> ColumnStats | None:
    """The bounds of an expression, by which rewrites are planned; None where nothing is known of it.

    text: its SQL in the normal spelling.
    """
    bounds = None if sketches is None else _first_bounds(sketches.of(text))
    if bounds is not None:
        return bounds
    term = key_term(columns, Field(name=text, type=NESTED, computed=True), timezone="UTC")
    if not isinstance(term, Call):
        return None
    return monotone.term_stats(term, lambda inner: column_stats(inner.path) if isinstance(inner, Column) else None)


def term_stats(term: Term, column_stats: _Stats, sketches: BoundSketches | None) -> ColumnStats | None:
    """The bounds of a term in each file, in the time zone of the term; None where nothing is known of it."""

    def inner_stats(inner: Term) -> ColumnStats | None:
        if not isinstance(inner, Column):
            return None if sketches is None else _first_bounds(sketches.of(inner))
        stats = column_stats(inner.path)
        return None if stats is None or stats.type != inner.type else stats

    return monotone.term_stats(term, inner_stats)


def key_specs(columns: Columns, field: Field) -> list[str]:
    """The sketches of a key of which only sketches tell: its bounds and, of a condition, whether any row matches.

    None of columns and of what is monotone in one.

    >>> from zskip.types import DataType
    >>> columns = Columns([Field(name="s", type=DataType("string"))])
    >>> names = ("left(s, 2)", "lower(s)", "s LIKE '%a_b%'")
    >>> [key_specs(columns, Field(name=name, type=NESTED, computed=True)) for name in names]
    [[], ['ranges(1):lower(s)'], ["ranges(1):s LIKE '%a_b%'", "matches:s LIKE '%a_b%'"]]
    """
    term = key_term(columns, field, timezone="UTC")
    while isinstance(term, Call):
        term = term.term
    if term is None or isinstance(term, Column):
        return []
    kinds = [Ranges(1), *[Matches()] * is_condition(term)]
    return [f"{kind}:{field.name}" for kind in kinds]


def _first_bounds(sketches: Iterable[tuple[SketchOn, Any]]) -> ColumnStats | None:
    """The bounds of the first sketch that tells some."""
    return next((bounds for on, stack in sketches if (bounds := _bounds_of(on, stack)) is not None), None)


def _bounds_of(on: SketchOn, stack: Any) -> ColumnStats | None:
    if not isinstance(on.sketch, Ranges) or stack is None:
        return None
    lows, highs = stack.arrays
    first, end = stack.offsets[:-1], stack.offsets[1:]
    bounded = stack.known & (first < end)
    if not len(lows):
        lows = highs = np.zeros(1, lows.dtype) if lows.dtype != np.object_ else np.array([b""], object)
    nulls = np.where(stack.nulls, -1, 0).astype(np.int64)
    nulls[stack.known & ~bounded & ~stack.nan] = ALL_NULL
    return ColumnStats(
        type=on.type,
        lower=lows[np.minimum(first, len(lows) - 1)],
        upper=highs[np.maximum(end - 1, 0)],
        bounded=bounded,
        nulls=nulls,
        may_nan=stack.nan,
    )
