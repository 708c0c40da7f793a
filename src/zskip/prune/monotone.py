"""Statistics of monotone functions, derived from those of their columns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from zskip.predicate import Call, Term
from zskip.predicate.functions import Nan, function_of
from zskip.records import ColumnStats


def term_stats(term: Term, inner_stats: Callable[[Term], ColumnStats | None]) -> ColumnStats | None:
    """The statistics of a term in each file, from those of what is inside its monotone functions."""
    if not isinstance(term, Call):
        return inner_stats(term)
    stats = term_stats(term.term, inner_stats)
    return None if stats is None else apply(term, stats)


def apply(call: Call, stats: ColumnStats) -> ColumnStats | None:
    """Derive the bounds of a function in each file from those of its term; None where that is not possible.

    A function that fails or returns null for some values is bounded only where every value of the file has a result.
    """
    function = function_of(call)
    if function is None or stats.type != call.term.type:
        return None
    lower, upper, known = function.bounds(call, stats.lower, stats.upper)
    bounded, may_nan = stats.bounded & known, stats.may_nan
    if function.nan is Nan.VALUE:
        bounded, may_nan = bounded & ~may_nan, np.zeros_like(may_nan)
    nulls = stats.nulls if function.total else np.where(~bounded & (stats.nulls == 0), -1, stats.nulls)
    return ColumnStats(type=call.type, lower=lower, upper=upper, bounded=bounded, nulls=nulls, may_nan=may_nan)
