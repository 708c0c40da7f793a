"""What whole files are counted as, against their rows."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_files import EMPTY, tables, typed

from zskip.prune.tally import Tally
from zskip.records import ColumnStats
from zskip.types import DataType


@given(tables(), st.sampled_from(["count", "min", "max"]), st.data())
def test_what_is_known_is_right(table, function, data):
    files, loose, rows, _, _ = table
    kind = loose.type.name
    values = [[value for value, _ in f] for f in files]
    tight = np.array([data.draw(st.booleans()) for _ in files])
    stats = loose if not tight.any() else tightened(loose, values, tight, kind)
    tally = Tally(function=function, stats=stats, tight=tight)
    known = tally.known(rows)
    chosen = known & np.array([data.draw(st.booleans()) for _ in files])
    present = [v for f, use in zip(values, chosen, strict=True) if use for v in f if v is not None]
    value = tally.of(rows, chosen)
    if function == "count":
        assert value == len(present)
        assert known.tolist() == [bool(n >= 0 and (nulls >= 0)) for n, nulls in zip(rows, loose.nulls, strict=True)]
    else:
        assert all(v == v for v in present)
        expected = (min if function == "min" else max)(present, default=None)
        assert value == expected
        assert expected is None or math.copysign(1, value if kind == "double" else 1) == math.copysign(
            1, expected if kind == "double" else 1
        )


def tightened(loose, values, tight, kind):
    """The bounds of some files as they are."""
    ends = [list(loose.lower), list(loose.upper)]
    bounded, may_nan = loose.bounded.copy(), loose.may_nan.copy()
    for i, column_values in enumerate(values):
        numbers = [v for v in column_values if v is not None and v == v]
        if tight[i] and kind != "string":
            bounded[i] = bool(numbers)
            may_nan[i] = any(v is not None and v != v for v in column_values)
            ends[0][i], ends[1][i] = min(numbers, default=EMPTY[kind]), max(numbers, default=EMPTY[kind])
    return ColumnStats(
        type=loose.type,
        lower=typed(ends[0], kind),
        upper=typed(ends[1], kind),
        bounded=bounded,
        nulls=loose.nulls,
        may_nan=may_nan,
    )


def column(kind, lower, upper, nulls=0, may_nan=False):
    return ColumnStats(
        type=DataType(kind),
        lower=typed([lower], FORMS.get(kind, "long")),
        upper=typed([upper], FORMS.get(kind, "long")),
        bounded=np.array([True]),
        nulls=np.array([nulls]),
        may_nan=np.array([may_nan]),
    )


FORMS = {"double": "double", "float": "double", "string": "string", "binary": "string", "decimal(20,0)": "string"}


@pytest.mark.parametrize(
    ("stats", "known"),
    [
        (column("long", 1, 2), True),
        (column("long", 1, 2, nulls=-1), False),
        (column("string", b"a", b"b"), False),
        (column("string", b"a", b"a"), True),
        (column("decimal(20,0)", b"a", b"b"), True),
        (column("double", 0.0, 1.0), False),
        (column("double", -1.0, 0.0), True),
        (column("double", -1.0, 1.0, may_nan=True), False),
        (column("timestamp_ntz", -(2**63), 1), False),
    ],
)
def test_which_least_values_are_known(stats, known):
    assert Tally(function="min", stats=stats).known(np.array([7])).tolist() == [known]


def test_wide_bounds_are_no_values():
    wide = np.array([False])
    assert not Tally(function="max", stats=column("long", 1, 2), tight=wide).known(np.array([7])).any()
    assert Tally(function="max", stats=column("long", 2, 2), tight=wide).known(np.array([7])).all()
