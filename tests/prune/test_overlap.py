"""Overlap and depth of ranges against a count of every pair and every point."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zskip.prune import clustering
from zskip.prune.overlap import overlaps_and_depths
from zskip.records import ColumnStats
from zskip.types import DataType, Form

RANGES = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8)), max_size=25)


@given(RANGES)
def test_counts_are_those_of_every_pair_and_point(ranges: list[tuple[int, int]]) -> None:
    lower = np.array([low for low, _ in ranges], np.int64)
    upper = np.array([low + width for low, width in ranges], np.int64)
    overlaps, depths = overlaps_and_depths(lower, upper)
    for i in range(len(lower)):
        assert overlaps[i] == np.count_nonzero((lower <= upper[i]) & (upper >= lower[i])) - 1
        points = range(lower[i], upper[i] + 1)
        assert depths[i] == max(np.count_nonzero((lower <= p) & (upper >= p)) for p in points)


def stats(type_name: str, lower: list, upper: list, **known: list) -> ColumnStats:
    data_type = DataType(type_name)
    dtype = {Form.INT: np.int64, Form.FLOAT: np.float64, Form.BYTES: object}[data_type.form]
    count = len(lower)
    return ColumnStats(
        type=data_type,
        lower=np.array(lower, dtype),
        upper=np.array(upper, dtype),
        bounded=np.array(known.get("bounded", [True] * count), np.bool_),
        nulls=np.array(known.get("nulls", [0] * count), np.int64),
        may_nan=np.array(known.get("may_nan", [False] * count), np.bool_),
    )


@pytest.mark.parametrize(
    ("type_name", "values"),
    [("long", [1, 2, 5, 7]), ("double", [-np.inf, -1.5, 0.0, 2.5]), ("string", [b"", b"a", b"a\x00", b"b"])],
)
def test_only_the_order_of_the_values_counts(type_name: str, values: list) -> None:
    a, b, c, d = values
    info = clustering("x", stats(type_name, [a, b, d, c], [c, b, d, d]))
    assert (info.files, info.constant_files, info.files_unknown) == (4, 2, 0)
    assert info.average_overlap == (2 + 1 + 1 + 2) / 4
    assert info.average_depth == 2
    assert info.depth_histogram == {2: 4}


def test_files_without_bounds_are_counted_apart_and_nulls_and_nan_are_no_constants() -> None:
    info = clustering(
        "x",
        stats(
            "double",
            [1.0, 1.0, 1.0, 0.0],
            [1.0, 1.0, 1.0, 0.0],
            bounded=[True, True, True, False],
            nulls=[0, 1, 0, -1],
            may_nan=[False, False, True, True],
        ),
    )
    assert (info.files, info.files_unknown, info.constant_files) == (3, 1, 1)


def test_the_histogram_doubles_above_sixteen() -> None:
    ranges = stats("long", [0] * 17 + [10] * 16 + [20], [1] * 17 + [11] * 16 + [20])
    assert clustering("x", ranges).depth_histogram == {1: 1, 16: 16, 32: 17}


def test_no_files() -> None:
    info = clustering("x", stats("string", [], []))
    assert (info.average_depth, info.average_overlap, info.depth_histogram) == (0.0, 0.0, {})
