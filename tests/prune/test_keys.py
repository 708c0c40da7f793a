"""Join keys against files, compared with a loop over every pair of values."""

import math
from decimal import Decimal
from unittest import mock

import numpy as np
import pytest
import tiers
from hypothesis import given
from hypothesis import strategies as st

from zskip.predicate import Column, In
from zskip.prune import keys as kernel
from zskip.prune.keys import keys_of, may_contain_keys, point_share
from zskip.records import ALL_NULL, ColumnStats
from zskip.types import DataType, Form, decode_decimal, encode_decimal

DTYPES = {Form.INT: np.int64, Form.FLOAT: np.float64, Form.BYTES: np.object_}
NUMBERS = st.integers(-9, 9) | st.integers(-(2**63), 2**63 - 1)
DOUBLES = st.sampled_from([0.0, -0.0, 1.0, 2.5, math.inf, -math.inf, 2.0**53, 1e300]) | st.floats(allow_nan=False)
TEXTS = st.binary(max_size=3) | st.sampled_from([b"", b"a", b"a\0", b"ab", b"prefix-1", b"prefix-12"])


def decimals(precision, scale):
    most = min(10**precision - 1, 10**20)
    numbers = st.integers(-30, 30) | st.integers(-most, most)
    return numbers.map(lambda n: encode_decimal(n, DataType(f"decimal({precision},{scale})")))


PAIRS = {
    # The types of the key and of the column, and values of each.
    "long": ("long", "long", NUMBERS, NUMBERS),
    "int and long": ("long", "integer", NUMBERS, st.integers(-(2**31), 2**31 - 1) | st.integers(-9, 9)),
    "date": ("date", "date", st.integers(-9, 9), st.integers(-9, 9)),
    "double": ("double", "double", DOUBLES, DOUBLES),
    "float and double": ("double", "float", DOUBLES, st.floats(allow_nan=False, width=32)),
    "int and double": ("double", "integer", DOUBLES, st.integers(-9, 9) | st.integers(-(2**31), 2**31 - 1)),
    "string": ("string", "string", TEXTS, TEXTS),
    "decimals": ("decimal(9,2)", "decimal(5,1)", decimals(9, 2), decimals(5, 1)),
    "int and decimal": ("decimal(12,1)", "integer", decimals(12, 1), st.integers(-9, 9)),
    "long decimals": ("decimal(30,3)", "decimal(25,2)", decimals(30, 3), decimals(25, 2)),
    "long and short decimals": ("decimal(22,3)", "decimal(15,0)", decimals(22, 3), decimals(15, 0)),
}


def number(value, name):
    data_type = DataType(name)
    return Decimal(decode_decimal(value, data_type)).scaleb(-data_type.scale) if data_type.is_decimal else value


def is_value(number, name):
    """Whether a column of a type can hold a number."""
    column = DataType(name)
    if not column.is_integer and not column.is_decimal:
        return True
    most = 10**column.precision - 1 if column.is_decimal else 2**31
    if not math.isfinite(number):
        return False
    unscaled = Decimal(number).scaleb(column.scale if column.is_decimal else 0)
    return abs(unscaled) <= most and unscaled == unscaled.to_integral_value()


def array(values, data_type):
    objects = np.empty(len(values), DTYPES[data_type.form])
    objects[:] = values
    return objects


def stats_of(files, data_type):
    """Statistics of files, each a list of values, None for null; NaN is counted separately."""
    real = [[v for v in file if v is not None and v == v] for file in files]
    empty = np.inf if data_type.form is Form.FLOAT else (b"" if data_type.form is Form.BYTES else 0)
    known = [bool(values) or any(v != v for v in file) for values, file in zip(real, files, strict=True)]
    if data_type.form is not Form.FLOAT:
        known = [bool(values) for values in real]
    return ColumnStats(
        type=data_type,
        lower=array([min(values, default=empty) for values in real], data_type),
        upper=array([max(values, default=-empty if empty == np.inf else empty) for values in real], data_type),
        bounded=np.array(known, np.bool_),
        nulls=np.array([ALL_NULL if all(v is None for v in f) else sum(v is None for v in f) for f in files], np.int64),
        may_nan=np.array([any(v is not None and v != v for v in file) for file in files], np.bool_),
    )


@st.composite
def cases(draw):
    key_type, column, keys, values = PAIRS[draw(st.sampled_from(sorted(PAIRS)))]
    values = st.none() | values
    nan = False
    if column in ("float", "double"):
        values, nan = values | st.just(math.nan), draw(st.booleans())
    files = draw(st.lists(st.lists(values, max_size=4), min_size=1, max_size=6))
    return key_type, column, draw(st.lists(keys, max_size=12)), nan, files


@tiers.examples(1500, quick=150)
@given(case=cases(), ranges=st.sampled_from([None, 2, 4]), unknown=st.integers(0, 63))
def test_no_file_with_a_partner_is_skipped_and_few_others_are_kept(case, ranges, unknown):
    key_type, column, values, nan, files = case
    stats = stats_of(files, DataType(column))
    stats.bounded[np.array([bool(unknown >> i & 1) for i in range(len(files))])] = False
    rows = np.array([len(file) for file in files], np.int64)
    with mock.patch.multiple(kernel, MOST_VALUES=ranges or 10**6, MOST_RANGES=ranges or 10**6):
        keys = keys_of(array(values, DataType(key_type)), DataType(key_type), DataType(column), nan=nan)
    assert keys is not None
    kept = may_contain_keys(keys, stats, rows)
    numbers = {number(v, key_type) for v in values}
    for i, file in enumerate(files):
        real = [number(v, column) for v in file if v is not None and v == v]
        partner = any(v in numbers for v in real) or (nan and any(v is not None and v != v for v in file))
        assert kept[i] or not partner, (file, values)
        if ranges is None and stats.bounded[i]:
            inside = bool(real) and any(
                min(real) <= key <= max(real) for key in numbers if column == "long" or is_value(key, column)
            )
            assert kept[i] == (inside or (nan and bool(stats.may_nan[i])))
        elif not stats.bounded[i]:
            assert kept[i] == any(v is not None for v in file)


def test_many_values_become_ranges_that_leave_the_largest_gaps_open():
    values = np.concatenate([np.arange(k * 10**6, k * 10**6 + 60_000) for k in range(5)])
    keys = keys_of(values, DataType("long"), DataType("long"))
    assert not keys.exact
    assert len(keys.lower) == kernel.MOST_RANGES
    starts = np.arange(5) * 10**6 + 100_000
    stats = ColumnStats(
        type=DataType("long"),
        lower=starts,
        upper=starts + 800_000,
        bounded=np.ones(5, np.bool_),
        nulls=np.zeros(5, np.int64),
        may_nan=np.zeros(5, np.bool_),
    )
    assert not may_contain_keys(keys, stats, np.full(5, 9)).any()
    assert keys.predicate(Column(("a",), DataType("long"))) is None


def test_the_ends_of_the_domain_make_no_difference_of_gaps():
    with mock.patch.multiple(kernel, MOST_VALUES=3, MOST_RANGES=2):
        keys = keys_of(np.array([-(2**63), -(2**63) + 1, 2**63 - 2, 2**63 - 1]), DataType("long"), DataType("long"))
        texts = keys_of(array([b"x1", b"x2", b"x8", b"x9"], DataType("string")), DataType("string"), DataType("string"))
    assert keys.lower.tolist() == [-(2**63), 2**63 - 2]
    assert texts.upper.tolist() == [b"x2", b"x9"]


@pytest.mark.parametrize(
    ("key_type", "column"),
    [("string", "char(3)"), ("timestamp", "date"), ("double", "string"), ("string collate", "string collate")],
)
def test_what_does_not_compare_gives_no_keys(key_type, column):
    assert keys_of(np.array([1]), DataType(key_type), DataType(column)) is None


@pytest.mark.parametrize("key", [2.0**53, -(2.0**53), 1e16, 2.0**63, -(2.0**63)])
def test_doubles_that_several_longs_become_rule_out_no_file_of_longs(key):
    """Spark compares both as doubles, so that the long 2^53 + 1 equals the double 2^53."""
    keys = keys_of(np.array([7.0, key]), DataType("double"), DataType("long"))
    assert keys is None
    assert keys_of(np.array([7.0, key]), DataType("double"), DataType("integer")).lower.tolist() == [7]


def test_doubles_beyond_all_longs_equal_none():
    beyond = np.array([2.0**53 - 1, 1e19, -1e300, np.inf, -np.inf, 0.5])
    assert keys_of(beyond, DataType("double"), DataType("long")).lower.tolist() == [2**53 - 1]


def test_few_values_are_a_predicate_for_sketches():
    keys = keys_of(np.array([7, 5, 7]), DataType("long"), DataType("integer"))
    assert keys.predicate(Column(("a",), DataType("integer"))) == In(Column(("a",), DataType("integer")), (5, 7))


def test_the_share_of_a_point_tells_clustered_from_scattered():
    rows, sizes = np.full(10, 5), np.full(10, 100)
    clustered = stats_of([[10 * i, 10 * i + 9] for i in range(10)], DataType("long"))
    scattered = stats_of([[0, 90 + i] for i in range(10)], DataType("long"))
    assert point_share(clustered, rows, sizes) == pytest.approx(0.1)
    assert point_share(scattered, rows, sizes) > 0.5
    nothing = stats_of([[None]], DataType("long"))
    assert point_share(nothing, np.array([1]), np.array([9])) == 0.0
