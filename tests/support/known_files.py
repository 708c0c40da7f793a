"""Small random files, row by row, and what an index might know of them."""

import math

import numpy as np
from hypothesis import strategies as st

from zskip.records import ALL_NULL, ColumnStats
from zskip.types import DataType

NAN = math.nan
VALUES = {
    "long": st.integers(-5, 5),
    "double": st.sampled_from([0.0, -0.0, 1.5, -2.0, math.inf, -math.inf, NAN]),
    "string": st.sampled_from([b"", b"a", b"ab", b"a\x00", b"b", b"\xff"]),
}
EMPTY = {"long": 0, "double": 0.0, "string": b""}
DTYPES = {"long": np.int64, "double": np.float64, "string": np.object_}


@st.composite
def tables(draw):
    """Files of values with whether each row passes a filter, and what an index might know of them."""
    kind = draw(st.sampled_from(sorted(VALUES)))
    row = st.tuples(st.none() | VALUES[kind], st.booleans())
    files = draw(st.lists(st.lists(row, max_size=4), min_size=1, max_size=6))
    told = [draw(st.tuples(*[st.booleans()] * 5)) for _ in files]
    stats = [describe(kind, [value for value, _ in rows], known) for rows, known in zip(files, told, strict=True)]
    lower, upper, bounded, nulls, may_nan = zip(*stats, strict=True)
    column = ColumnStats(
        type=DataType(kind),
        lower=typed(lower, kind),
        upper=typed(upper, kind),
        bounded=np.array(bounded),
        nulls=np.array(nulls),
        may_nan=np.array(may_nan),
    )
    rows = np.array([len(f) if known[0] else -1 for f, known in zip(files, told, strict=True)])
    kept = np.array([any(p for _, p in f) or known[1] for f, known in zip(files, told, strict=True)])
    full = np.array([all(p for _, p in f) and known[2] for f, known in zip(files, told, strict=True)])
    return files, column, rows, kept, full


def typed(values, kind):
    found = np.empty(len(values), DTYPES[kind])
    found[:] = values
    return found


def describe(kind, values, known):
    """Lower, upper, bounded, nulls and may_nan, as loose as they may be."""
    _, _, _, loose, counted = known
    numbers = [v for v in values if v is not None and v == v]
    nans = any(v is not None and v != v for v in values)
    nulls = values.count(None)
    if numbers:
        lower, upper, bounded = min(numbers), max(numbers), True
        if loose:
            lower, upper = _loosened(kind, lower, upper)
    else:
        lower, upper, bounded = (math.inf, -math.inf, True) if nans and not loose else (EMPTY[kind],) * 2 + (False,)
    if not counted:
        nulls = -1
    elif nulls == len(values) and loose:
        nulls = ALL_NULL
    return lower, upper, bounded and not (loose and kind == "double"), nulls, nans or (loose and kind == "double")


def _loosened(kind, lower, upper):
    if kind == "long":
        return lower - 1, upper + 2
    return (lower[:1], upper + b"\x01") if kind == "string" else (lower, upper)
