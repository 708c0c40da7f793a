"""Join pruning: compares the values on one side of `a = b` with the statistics of the other side's files.

Every row of an inner join has a partner, so a file without a value of the other side contributes no row.
The method follows "Pruning in Snowflake: Working Smarter, Not Harder" (arXiv 2504.11540), section 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from zskip.predicate import Compare, In, Or, Predicate, Term
from zskip.prune.evaluate import presence
from zskip.records import Bools, ColumnStats, Ints, Values, objects
from zskip.sketch.intervals import meets, merge_nearest
from zskip.types import DataType, Form, decode_decimal, encode_decimal, value_range

MOST_VALUES = 100_000
"""More values than this become ranges."""
MOST_RANGES = 1_000
FEW_VALUES = 1_000
"""At most this many values are also looked up in sketches."""
_SAMPLED = 64
"""Values that stand for all of them in a recorded workload."""
_EXACT_DOUBLE = 2**53
"""From here on several integers become the same double."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Keys:
    """The values of one side, in the form of the other side's column, without nulls, which equal nothing."""

    lower: Values
    """(ranges,) ascending; the values themselves unless there are too many."""
    upper: Values
    """(ranges,) the last value of each range, or `lower` itself."""
    nan: bool = False
    """Whether NaN, which equals itself, is among the values."""

    @property
    def exact(self) -> bool:
        """Whether these are the values themselves rather than ranges of them."""
        return self.upper is self.lower

    def predicate(self, term: Term) -> Predicate | None:
        """Return `term IN (...)`, which sketches can answer; None for too many values."""
        if not self.exact or len(self.lower) > FEW_VALUES:
            return None
        values = In(term, tuple(self.lower.tolist()))
        return Or((values, Compare("=", term, float("nan")))) if self.nan else values

    def sampled(self, term: Term) -> Predicate | None:
        """Return `term IN (...)` with some of the values at equal distances, the ends included; None without values."""
        positions = np.unique(np.linspace(0, len(self.lower) - 1, _SAMPLED).astype(np.int64))
        return In(term, tuple(self.lower[positions].tolist())) if len(self.lower) else None


def keys_of(values: Values, key_type: DataType, column_type: DataType, *, nan: bool = False) -> Keys | None:
    """Convert join keys to the type of a column; None where zskip does not know how the two types compare.

    values: without null and NaN, in any order, in the form of `key_type`. The column is cast to that type exactly, so
    keys that the column cannot hold match nothing and are dropped. nan: whether NaN is one of the keys, too.

    >>> keys_of(np.array([70, 15, 70]), DataType("decimal(4,1)"), DataType("integer")).lower
    array([7])
    """
    converted = _to_column_type(values, key_type, column_type)
    if converted is None:
        return None
    is_bytes = converted.dtype == np.object_
    distinct: Any = objects(sorted(set(converted.tolist()))) if is_bytes else np.unique(converted)
    most = len(distinct) if len(distinct) <= MOST_VALUES else MOST_RANGES
    lower, upper = merge_nearest(distinct, distinct, most)
    return Keys(lower=lower, upper=upper, nan=nan)


def may_contain_keys(keys: Keys, stats: ColumnStats, rows: Ints) -> Bools:
    """(files,) mask of the files whose bounds allow one of the keys.

    rows: (files,), -1 where unknown.
    """
    _, with_value, _ = presence(stats, rows)
    none = np.zeros(len(rows), np.bool_)
    may_meet = none
    if len(keys.lower):
        lower, upper = (np.where(stats.bounded, bound, keys.lower[0]) for bound in (stats.lower, stats.upper))
        may_meet = meets(keys.lower, keys.upper, lower, upper)
    return with_value & (may_meet | ~stats.bounded | (stats.may_nan if keys.nan else none))


def point_share(stats: ColumnStats, rows: Ints, sizes: Ints) -> float:
    """Estimate the share of bytes in files that might hold one value, on average over the files' own bounds.

    It predicts what a few keys keep before they are known: 1 where every file spans the whole domain.
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


def _to_column_type(values: Values, key_type: DataType, column_type: DataType) -> Values | None:
    """Convert the values that the column can hold to its form; None where zskip does not know how."""
    if key_type.form is None or column_type.form is None or key_type.is_char or column_type.is_char:
        return None
    if key_type == column_type or (key_type.is_integer and column_type.is_integer):
        return values
    if key_type.form is column_type.form is Form.FLOAT or (key_type.is_time and column_type.is_time):
        return values
    if key_type.name == "double" and column_type.is_integer:
        least, greatest = value_range(column_type)
        doubles = values.astype(np.float64)
        # The greatest long becomes the double 2^63.
        doubles = doubles[(doubles >= least) & (doubles <= float(greatest)) & (doubles == np.trunc(doubles))]
        if len(doubles) and np.abs(doubles).max() >= _EXACT_DOUBLE:
            return None
        whole: Ints = doubles.astype(np.int64)
        return whole
    if key_type.is_decimal and (column_type.is_integer or column_type.is_decimal):
        return _rescale(values, key_type, column_type)
    return None


def _rescale(values: Values, key_type: DataType, column_type: DataType) -> Values | None:
    scale = column_type.scale if column_type.is_decimal else 0
    if scale > key_type.scale:
        return None
    step = 10 ** (key_type.scale - scale)
    least, greatest = value_range(column_type)
    if key_type.form is Form.INT and column_type.form is Form.INT and step < 2**63:
        longs: Ints = values.astype(np.int64)
        whole: Ints = longs[longs % step == 0] // step
        fit: Ints = whole[(whole >= max(least, -(2**63))) & (whole <= min(greatest, 2**63 - 1))]
        return fit
    unscaled = (decode_decimal(value, key_type) for value in values.tolist())
    fitting = [number // step for number in unscaled if number % step == 0 and least <= number // step <= greatest]
    if column_type.form is Form.INT:
        return np.array(fitting, np.int64)
    return objects([encode_decimal(number, column_type) for number in fitting])
