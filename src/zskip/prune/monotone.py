"""What the statistics of a column say of a monotone function of it."""

from __future__ import annotations

import numpy as np

from zskip.predicate import Call
from zskip.predicate.functions import Nan, function_of
from zskip.records import ColumnStats


def apply(call: Call, stats: ColumnStats) -> ColumnStats | None:
    """Bounds of a function in each file, from those of its term; None where they are not known.

    A function that fails for some values, or gives null, is bounded only where it has results for all in the file.
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
