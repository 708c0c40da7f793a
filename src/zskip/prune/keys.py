"""Join pruning: the values that one side of `a = b` holds, against what is known of the other side in each file.

A row of an inner join has a partner, so a file in which no value can be equal to one of the other side's gives no row.
The same is done in "Pruning in Snowflake: Working Smarter, Not Harder" (arXiv 2504.11540), section 6.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from zskip.predicate import Column, Compare, In, Or, Predicate
from zskip.prune.evaluate import presence
from zskip.records import Bools, ColumnStats, Ints, Values
from zskip.types import DataType, Form, decode_decimal, encode_decimal, value_range

MOST_VALUES = 100_000
"""More of them become ranges."""
MOST_RANGES = 1_000
FEW_VALUES = 1_000
"""So many are also asked of sketches."""
_EXACT_DOUBLE = 2**53


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Keys:
    """What one side holds, in the form of the other side's column; nulls are equal to nothing and left out."""

    lower: Values
    """(ranges,) ascending; the values themselves where they are not too many."""
    upper: Values
    """(ranges,) `lower` itself, or the last value of each range."""
    nan: bool = False
    """Whether NaN, which is equal to itself, is among them."""

    @property
    def exact(self) -> bool:
        """Whether these are the values, not ranges that hold them."""
        return self.upper is self.lower

    def predicate(self, column: Column) -> Predicate | None:
        """`column IN (...)` for what knows more than bounds; None where the values are too many."""
        if not self.exact or len(self.lower) > FEW_VALUES:
            return None
        values = In(column, tuple(self.lower.tolist()))
        return Or((values, Compare("=", column, float("nan")))) if self.nan else values


def keys_of(values: Values, held: DataType, column: DataType, *, nan: bool = False) -> Keys | None:
    """Make keys for a column of other type; None where it is not known how values of the two compare.

    values: neither null nor NaN, in any order, in the form of `held`, to which the column is cast exactly: what is no
    value of the column is equal to none of them. nan: whether NaN is one of the values, too.

    >>> keys_of(np.array([70, 15, 70]), DataType("decimal(4,1)"), DataType("integer")).lower
    array([7])
    """
    found = _as_column(values, held, column)
    if found is None:
        return None
    distinct: Values = _distinct(found)
    if len(distinct) <= MOST_VALUES:
        return Keys(lower=distinct, upper=distinct, nan=nan)
    last = np.sort(np.argpartition(_gaps(distinct), -(MOST_RANGES - 1))[-(MOST_RANGES - 1) :])
    return Keys(
        lower=distinct[np.concatenate(([0], last + 1))], upper=distinct[np.append(last, len(distinct) - 1)], nan=nan
    )


def meeting(keys: Keys, stats: ColumnStats, rows: Ints) -> Bools:
    """(files,) which files might hold one of the keys, by their bounds.

    rows: (files,), -1 where unknown.
    """
    _, with_value, _ = presence(stats, rows)
    none = np.zeros(len(rows), np.bool_)
    met = none
    if len(keys.lower):
        lower, upper = (np.where(stats.bounded, ends, keys.lower[0]) for ends in (stats.lower, stats.upper))
        first = np.searchsorted(keys.upper, lower)
        met = (first < len(keys.lower)) & (keys.lower[np.minimum(first, len(keys.lower) - 1)] <= upper).astype(np.bool_)
    return with_value & (met | ~stats.bounded | (stats.may_nan if keys.nan else none))


def point_share(stats: ColumnStats, rows: Ints, sizes: Ints) -> float:
    """The share of the bytes in files that might hold one value, on average over the files' own bounds.

    An estimate of what is left by a few keys before they are known: 1 where every file spans the whole domain.
    """
    _, with_value, _ = presence(stats, rows)
    total = int(sizes.sum())
    known = with_value & stats.bounded & (stats.lower <= stats.upper).astype(np.bool_)
    if total == 0 or not known.any():
        return 1.0 if (with_value & ~known).any() else 0.0
    lower, upper, weight = stats.lower[known], stats.upper[known], sizes[known]
    points = np.unique(np.concatenate([lower, upper]))
    begun = _weight_up_to(lower, weight, points, "right")
    ended = _weight_up_to(upper, weight, points, "left")
    always = int(sizes[with_value & ~stats.bounded].sum())
    return float(((begun - ended).mean() + always) / total)


def _weight_up_to(ends: Values, weight: Ints, points: Values, side: Any) -> npt.NDArray[np.float64]:
    order = np.argsort(ends, kind="stable")
    sums = np.concatenate(([0], np.cumsum(weight[order])))
    return sums[np.searchsorted(ends[order], points, side=side)].astype(np.float64)


def _as_column(values: Values, held: DataType, column: DataType) -> Values | None:
    """Those of the values that the column can hold, in its form; None where that is not known."""
    if held.form is None or column.form is None or held.is_char or column.is_char:
        return None
    if held == column or (held.is_integer and column.is_integer):
        return values
    if held.form is Form.FLOAT and column.form is Form.FLOAT:
        return values
    if held.name == "double" and column.is_integer:
        doubles = values.astype(np.float64)
        whole: Ints = doubles[(np.abs(doubles) <= _EXACT_DOUBLE) & (doubles == np.trunc(doubles))].astype(np.int64)
        return whole
    if held.is_decimal and (column.is_integer or column.is_decimal):
        return _rescaled(values, held, column)
    return None


def _rescaled(values: Values, held: DataType, column: DataType) -> Values | None:
    scale = column.scale if column.is_decimal else 0
    if scale > held.scale:
        return None
    step = 10 ** (held.scale - scale)
    least, greatest = value_range(column)
    if held.form is Form.INT and column.form is Form.INT and step < 2**63:
        longs: Ints = values.astype(np.int64)
        whole: Ints = longs[longs % step == 0] // step
        fit: Ints = whole[(whole >= max(least, -(2**63))) & (whole <= min(greatest, 2**63 - 1))]
        return fit
    unscaled = (decode_decimal(value, held) for value in values.tolist())
    fitting = [one // step for one in unscaled if one % step == 0 and least <= one // step <= greatest]
    if column.form is Form.INT:
        return np.array(fitting, np.int64)
    return _objects(encode_decimal(one, column) for one in fitting)


def _objects(values: Iterable[object]) -> Values:
    listed = list(values)
    made = np.empty(len(listed), np.object_)
    made[:] = listed
    return made


def _distinct(values: Values) -> Values:
    if values.dtype == np.object_:
        return _objects(sorted(set(values.tolist())))
    return np.unique(values)  # type: ignore[return-value]


def _gaps(values: Values) -> npt.NDArray[Any]:
    """(values - 1,) how far each is from the next; of bytes about so."""
    if values.dtype == np.object_:
        first, last = values[0], values[-1]
        shared = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
        heads = b"".join(value[shared : shared + 8].ljust(8, b"\0") for value in values)
        numbers = np.frombuffer(heads, ">u8").astype(np.uint64)
    elif values.dtype == np.float64:
        with np.errstate(over="ignore"):
            return np.diff(values)
    else:
        numbers = values.astype(np.uint64)  # Of int64, whose differences may not fit into int64.
    return numbers[1:] - numbers[:-1]
