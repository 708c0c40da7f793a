from bisect import bisect_right

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zskip.layout.ranks import bounds_of, dense_ranks, determine_bounds, needed_bits, rank, rank_codes

INTS = st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1))
FLOATS = st.floats(allow_nan=True, allow_infinity=True)
BYTES = st.binary(max_size=4)
COLUMNS = st.one_of(
    *(
        st.tuples(st.lists(st.one_of(st.none(), s), max_size=40), st.just(d))
        for s, d in ((INTS, np.int64), (FLOATS, np.float64), (BYTES, object))
    )
)


def column(values, dtype):
    """Values and null mask; the content of nulls is what no kernel may look at."""
    filler = None if dtype is object else 7
    array = np.empty(len(values), dtype)
    array[:] = [filler if v is None else v for v in values]
    return array, np.array([v is None for v in values], bool)


def is_nan(value):
    return isinstance(value, float) and value != value


@given(COLUMNS, st.integers(2, 10))
def test_rank_is_bisect_and_null_is_last(drawn, limit):
    values, dtype = drawn
    array, nulls = column(values, dtype)
    bounds = bounds_of(array, nulls, np.ones(len(values)), limit)
    as_list = bounds.tolist()
    assert as_list == sorted(set(as_list))
    assert len(as_list) <= limit
    for value, actual in zip(values, rank(array, nulls, bounds).tolist(), strict=True):
        if value is None:
            assert actual == len(as_list) + 1
        else:
            assert actual == (len(as_list) if is_nan(value) else bisect_right(as_list, value))


def test_integers_far_from_dense_bounds_are_ranked_by_a_table():
    extremes = [-(2**63), -(2**63) + 1, 2**63 - 2, 2**63 - 1]
    for low in (-(2**63) + 1, -3, 2**63 - 10):
        bounds = np.array([low, low + 1, low + 4, low + 9])
        values = np.array(extremes + [low + i for i in range(-1, 10)])
        ranks = rank(values, np.zeros(len(values), bool), bounds)
        assert ranks.tolist() == [bisect_right(bounds.tolist(), value) for value in values.tolist()]


@given(COLUMNS)
def test_few_values_are_all_told_apart(drawn):
    values, dtype = drawn
    array, nulls = column(values, dtype)
    ranks = rank(array, nulls, bounds_of(array, nulls, np.ones(len(values)), 1000))
    for a, x in zip(values, ranks.tolist(), strict=True):
        for b, y in zip(values, ranks.tolist(), strict=True):
            if a is None or b is None:
                assert (x == y) == (a is b)
            elif not is_nan(a) and not is_nan(b):
                assert (x < y) == (a < b)


def test_bounds_are_quantiles():
    values = np.random.default_rng(1).permutation(10_000)
    bounds = bounds_of(values, np.zeros(10_000, bool), np.ones(10_000), 100)
    assert bounds.tolist() == list(range(100, 10_000, 100))


def spark_determine_bounds(candidates, partitions):
    """RangePartitioner.determineBounds, line by line."""
    ordered = sorted(candidates)
    step = sum(w for _, w in ordered) / partitions
    cumulative, target, bounds = 0.0, step, []
    for key, weight in ordered:
        if len(bounds) >= partitions - 1:
            break
        cumulative += weight
        if cumulative >= target and (not bounds or key > bounds[-1]):
            bounds.append(key)
            target += step
    return bounds


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from([0.5, 1.0, 2.0, 8.0])), min_size=1), st.integers(1, 16))
def test_weighted_bounds_are_those_of_spark(candidates, parts):
    values = np.array([v for v, _ in candidates])
    weights = np.array([w for _, w in candidates])
    # a power of two of parts keeps the steps exact, in any order of summation
    parts = 1 << parts.bit_length() - 1
    assert determine_bounds(values, weights, parts).tolist() == spark_determine_bounds(candidates, parts)


def test_unequal_weights_move_the_bounds():
    values = np.arange(100)
    weights = np.where(values < 50, 9.0, 1.0)
    bounds = bounds_of(values, np.zeros(100, bool), weights, 10)
    assert bounds.tolist() == [5, 11, 16, 22, 27, 33, 38, 44, 49]


@given(st.integers(0, 300), st.booleans(), st.integers(0, 20))
def test_codes_ascend_and_fill_the_bits(bounds, null_rank, bits):
    codes = rank_codes(bounds, null_rank, bits)
    assert len(codes) == bounds + 2
    assert codes.min() == 0
    assert codes.max() <= (1 << bits) - 1
    assert (np.diff(codes) >= 0).all()
    if bits >= needed_bits(bounds, null_rank):
        assert (np.diff(codes[: len(codes) - 1 + null_rank]) > 0).all()
        spacing = (1 << bits) / (bounds + 1 + null_rank)
        assert np.abs(np.diff(codes[: len(codes) - 1 + null_rank]) - spacing).max(initial=0) < 1


def test_nan_infinity_and_zeros():
    values = np.array([np.nan, -0.0, 0.0, np.inf, -np.inf, 1.5])
    nulls = np.zeros(6, bool)
    bounds = bounds_of(values, nulls, np.ones(6))
    assert bounds.tolist() == [0.0, 1.5, np.inf]
    assert rank(values, nulls, bounds).tolist() == [3, 1, 1, 3, 0, 2]


@pytest.mark.parametrize("dtype", [np.int64, np.float64, object])
def test_all_null_and_empty(dtype):
    for size in (0, 3):
        array, nulls = np.empty(size, dtype), np.ones(size, bool)
        bounds = bounds_of(array, nulls, np.ones(size))
        assert len(bounds) == 0
        assert bounds.dtype == dtype
        assert rank(array, nulls, bounds).tolist() == [1] * size


@given(COLUMNS)
def test_dense_ranks_number_the_distinct_values(drawn):
    values, dtype = drawn
    distinct, ranks = dense_ranks(*column(values, dtype))
    for value, actual in zip(values, ranks.tolist(), strict=True):
        if value is None:
            assert actual == -1
        else:
            assert distinct[actual] == value or (is_nan(value) and is_nan(distinct[actual]))
