"""The order of rows in a file: each row once, whole pages, and pages that are smaller boxes than runs of the key."""

from __future__ import annotations

import numpy as np
import pytest
import tiers
from hypothesis import given
from hypothesis import strategies as st

from zskip.layout.fit import fit
from zskip.layout.layout import Layout
from zskip.layout.pages import PageOrder
from zskip.layout.patterns import gather, spread, zorder_pattern
from zskip.layout.predict import sample_ranks
from zskip.layout.workload import ANY_LOWER, ANY_UPPER, Workload, column_weights, synthetic_workload
from zskip.records import Field, Ints, Sample
from zskip.types import DataType


def halve(
    keys: list[int], rows: list[int], pattern: tuple[int, ...], weights: list[float], page: int
) -> list[set[int]]:
    """The pages, row by row; only where no two rows have the same value in a column."""
    pages = -(-len(rows) // page)
    if pages < 2:
        return [set(rows)]

    def code(row: int, column: int) -> int:
        bits = f"{keys[row]:0{len(pattern)}b}"
        return int("".join(bit for bit, named in zip(bits, pattern, strict=True) if named == column), 2)

    def merit(column: int) -> float:
        codes = [code(row, column) for row in rows]
        return weights[column] * (max(codes) - min(codes)) / 2 ** pattern.count(column)

    widest = max(range(len(weights)), key=merit)
    rows = sorted(rows, key=lambda row: code(row, widest))
    middle = pages // 2 * page
    sides = rows[:middle], rows[middle:]
    return [one for side in sides for one in halve(keys, side, pattern, weights, page)]


@given(st.integers(1, 60), st.integers(1, 20), st.integers(0, 99))
@tiers.examples(60, quick=20)
def test_pages_are_those_of_halving_row_by_row(rows: int, page: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    pattern = zorder_pattern([7, 8])
    weights = [1.0, 0.3]
    keys = spread(random.permutation(128)[:rows], pattern, 0) | spread(random.permutation(256)[:rows], pattern, 1)
    order = PageOrder(pattern, weights).sort(keys, page)
    pages = [order[start : start + page].tolist() for start in range(0, rows, page)]
    assert [set(one) for one in pages] == halve(keys.tolist(), list(range(rows)), pattern, weights, page)
    assert all(keys[one].tolist() == sorted(keys[one].tolist()) for one in pages)


@given(st.lists(st.integers(0, 2**5 - 1), max_size=40), st.integers(1, 9))
@tiers.examples(60, quick=20)
def test_each_row_comes_once_whatever_the_keys(keys: list[int], page: int) -> None:
    for pattern, weights in (((0, 1, 0, 1, 2), [0.0, 1.0, 0.0]), ((0, 0, 1, 1, 1), []), ((), []), ((1,) * 5, [1, 0])):
        order = PageOrder(pattern, weights).sort(np.array(keys, np.int64), page)
        assert sorted(order.tolist()) == list(range(len(keys)))


def test_codes_come_back_from_keys() -> None:
    pattern = (1, 0, 2, 2, 0, 1)
    codes = np.random.default_rng(0).integers(0, 4, (3, 50))
    keys = np.bitwise_or.reduce([spread(column, pattern, d) for d, column in enumerate(codes)])
    assert [gather(keys, pattern, d).tolist() for d in range(3)] == codes.tolist()


def pages_met(codes: Ints, order: Ints, page: int, columns: list[int]) -> float:
    """Mean share of pages that a narrow range of some column meets."""
    met = []
    for column in columns:
        values = codes[column][order].reshape(-1, page)
        met += [((values.min(axis=1) <= x) & (values.max(axis=1) >= x)).mean() for x in range(0, 4096, 64)]
    return float(np.mean(met))


def test_pages_are_smaller_boxes_than_runs_of_the_key() -> None:
    codes = np.random.default_rng(0).integers(0, 4096, (3, 60_000))
    pattern = zorder_pattern([12] * 3)
    keys = np.bitwise_or.reduce([spread(column, pattern, d) for d, column in enumerate(codes)])
    by_key, by_page = np.argsort(keys), PageOrder(pattern, []).sort(keys, 3000)
    assert pages_met(codes, by_page, 3000, [0, 1, 2]) < 0.85 * pages_met(codes, by_key, 3000, [0, 1, 2])
    weighted = PageOrder(pattern, [1.0, 0.05, 0.05]).sort(keys, 3000)
    assert pages_met(codes, weighted, 3000, [0]) < 0.5 * pages_met(codes, by_page, 3000, [0])


def test_columns_weigh_what_their_queries_would_read() -> None:
    ranks = [np.arange(100, dtype=np.int32), np.append(np.full(50, -1), np.arange(50)).astype(np.int32)]
    queries = Workload(
        lower=np.array([[7, ANY_LOWER], [0, 10]], np.int32),
        upper=np.array([[7, ANY_UPPER], [9, 19]], np.int32),
        weights=np.array([0.75, 0.25]),
    )
    assert column_weights(queries, ranks) == pytest.approx((1.0, 0.25 * 0.1 / (0.75 + 0.25 * 0.1)), abs=1e-4)
    free = Workload(lower=np.full((1, 2), ANY_LOWER), upper=np.full((1, 2), ANY_UPPER), weights=np.ones(1))
    assert column_weights(free, ranks) == ()


@pytest.mark.parametrize(("curve", "build"), [("hilbert", "sample"), ("linear", "sample"), ("zorder", "direct")])
def test_only_a_z_order_of_ranks_is_laid_in_boxes(curve: str, build: str) -> None:
    values = np.random.default_rng(0).integers(0, 10**6, (2, 500))
    sample = Sample(
        fields=tuple(Field(name=name, type=DataType("long")) for name in "ab"),
        columns=tuple(values),
        nulls=(np.zeros(500, np.bool_),) * 2,
        partition=np.zeros(500, np.int32),
        weights=np.ones(500),
    )
    files, rows = np.array([4]), np.array([500])
    assert fit(sample, files, partition_rows=rows, curve=curve, build=build).page_order is None
    default = fit(sample, files, partition_rows=rows)
    assert default.page_order is not None
    assert default.column_weights == ()
    fitted = fit(sample, files, partition_rows=rows, workload=synthetic_workload(sample_ranks(sample)))
    assert len(fitted.column_weights) == 2
    assert Layout.from_json(fitted.to_json()) == fitted
