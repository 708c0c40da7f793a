"""Bounds of expressions in each file: of what a sketch knows, or by the bounds of a column below monotone functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from zskip.index.store.sketches import BoundSketches
from zskip.predicate import Call, Column, Columns, Term, key_term
from zskip.prune import monotone
from zskip.records import ALL_NULL, ColumnStats, Field
from zskip.sketch import SketchOn, StackedStates
from zskip.sketch.kinds.ranges import Ranges
from zskip.types import NESTED

_Stats = Callable[[tuple[str, ...]], "ColumnStats | None"]


def expression_stats(
    text: str, columns: Columns, column_stats: _Stats, sketches: BoundSketches | None
) -> ColumnStats | None:
    """The bounds of an expression, by which rewrites are planned; None where nothing is known of it.

    text: its SQL in the normal spelling.
    """
    bounds = _first_bounds(sketches.of_expression(text)) if sketches is not None else None
    if bounds is not None:
        return bounds
    calls, term = _unwrap(key_term(columns, Field(name=text, type=NESTED, computed=True), timezone="UTC"))
    if not isinstance(term, Column) or not calls:
        return None
    return _apply(calls, column_stats(term.path))


def term_stats(term: Term, column_stats: _Stats, sketches: BoundSketches | None) -> ColumnStats | None:
    """The bounds of a term in each file, in the time zone of the term; None where nothing is known of it."""
    calls, inner = _unwrap(term)
    if isinstance(inner, Column):
        stats = column_stats(inner.path)
        stats = None if stats is None or stats.type != inner.type else stats
    else:
        stats = None if sketches is None or inner is None else _first_bounds(sketches.of_term(inner))
    return _apply(calls, stats)


def needs_sketch(columns: Columns, field: Field) -> bool:
    """Whether only a sketch tells the bounds of a key: it is an expression, and not monotone in one column.

    >>> from zskip.types import DataType
    >>> columns = Columns([Field(name="s", type=DataType("string"))])
    >>> [needs_sketch(columns, Field(name=name, type=NESTED, computed=True)) for name in ("lower(s)", "left(s, 2)")]
    [True, False]
    """
    _, term = _unwrap(key_term(columns, field, timezone="UTC"))
    return term is not None and not isinstance(term, Column)


def bounds_spec(field: Field) -> str:
    """The sketch that holds the bounds of an expression."""
    return f"{Ranges(1)}:{field.name}"


def _unwrap(term: Term | None) -> tuple[list[Call], Term | None]:
    """The monotone functions around a term, the outermost first, and what is inside them."""
    calls: list[Call] = []
    while isinstance(term, Call):
        calls.append(term)
        term = term.term
    return calls, term


def _apply(calls: Sequence[Call], stats: ColumnStats | None) -> ColumnStats | None:
    """The bounds of monotone functions, the outermost first, of what has some bounds."""
    for call in reversed(calls):
        stats = None if stats is None else monotone.apply(call, stats)
    return stats


def _first_bounds(sketches: Iterable[tuple[SketchOn, StackedStates]]) -> ColumnStats | None:
    """The bounds of the first sketch that tells some."""
    return next((bounds for on, states in sketches if (bounds := _bounds_of(on, states)) is not None), None)


def _bounds_of(on: SketchOn, states: StackedStates) -> ColumnStats | None:
    if not isinstance(on.sketch, Ranges) or states.stack is None:
        return None
    stack, (lows, highs) = states.stack, states.stack.arrays
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
