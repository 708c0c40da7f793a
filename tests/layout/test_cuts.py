import itertools

import numpy as np
import pytest
import tiers
from hypothesis import given
from hypothesis import strategies as st

from zskip.layout.cells import common_prefix, microcells, shortest_between, thin
from zskip.layout.program import Cells, _segments, cut_cells, own_files, solve
from zskip.layout.workload import ANY_LOWER, ANY_UPPER, Touch, Workload, synthetic_workload

KEYS = st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 20), min_size=1, max_size=60).map(sorted)


def as_strings(keys):
    return np.array([k.to_bytes(9, "big") for k in keys], "S9")


@given(KEYS)
def test_common_prefix_is_that_of_the_bits(keys):
    expected = []
    for a, b in itertools.pairwise(keys):
        x, y = format(a, "064b"), format(b, "064b")
        expected.append(next((i for i in range(64) if x[i] != y[i]), 1 << 30))
    assert common_prefix(np.array(keys)).tolist() == expected
    assert common_prefix(as_strings(keys)).tolist() == [e + 8 if e < 64 else e for e in expected]


@given(KEYS)
def test_shortest_between(keys):
    distinct = sorted(set(keys))
    if len(distinct) < 2:
        return
    found = shortest_between(np.array(distinct[:-1]), np.array(distinct[1:])).tolist()
    from_bytes = shortest_between(as_strings(distinct[:-1]), as_strings(distinct[1:]))
    assert [int.from_bytes(bytes(k).ljust(9, b"\0"), "big") for k in from_bytes] == found
    for below, above, cut in zip(distinct, distinct[1:], found, strict=False):
        zeros = next(k for k in range(63, -1, -1) if (above >> k) << k > below)
        assert cut == (above >> zeros) << zeros


def cells_by_recursion(keys, low, high, limit, edges):
    if high - low <= limit or keys[low] == keys[high - 1]:
        return
    top = (keys[low] ^ keys[high - 1]).bit_length() - 1
    middle = next(i for i in range(low, high) if keys[i] >> top & 1)
    edges.add(middle)
    cells_by_recursion(keys, low, middle, limit, edges)
    cells_by_recursion(keys, middle, high, limit, edges)


@given(KEYS, st.integers(1, 8), st.integers(0, 60))
def test_microcells_are_those_of_the_recursion(keys, limit, second):
    """With a second partition that starts anywhere, its keys sorted by themselves."""
    second = min(second, len(keys))
    both = keys[second:] + keys[:second]
    start = len(keys) - second
    breaks = sorted({0, start, len(keys)})
    expected = set(breaks)
    for low, high in itertools.pairwise(breaks):
        cells_by_recursion(both, low, high, limit, expected)
    edges = microcells(common_prefix(np.array(both)), np.ones(len(keys)), np.array(breaks), float(limit))
    assert edges.tolist() == sorted(expected)


def test_thin_keeps_the_shortest_prefix_of_each_step():
    prefix = np.array([9, 3, 9, 5, 9, 9, 2])
    edges = np.arange(9)
    kept = thin(edges, prefix, np.ones(8), 4.0, np.isin(edges, [0, 8]))
    assert kept.tolist() == [0, 2, 7, 8]


def boxes_touched(workload, low, high):
    """The share of the workload that meets each box of dense ranks, one query at a time."""
    shares = []
    for box in range(len(low[0])):
        share = 0.0
        for query in range(len(workload)):
            ends = zip(workload.lower[query], workload.upper[query], low, high, strict=True)
            if all(lo <= h[box] and hi >= least[box] for lo, hi, least, h in ends):
                share += workload.weights[query]
        shares.append(share)
    return shares


@given(st.integers(0, 2**32), st.integers(1, 150), st.integers(1, 4))
@tiers.examples(40, quick=15)
def test_touch_is_query_by_query(seed, queries, columns):
    random = np.random.default_rng(seed)
    ends = np.sort(random.integers(0, 12, (2, queries, columns)), axis=0).astype(np.int32)
    free = random.random((queries, columns)) < 0.3
    weights = random.random(queries)
    workload = Workload(
        lower=np.where(free, np.int32(ANY_LOWER), ends[0]),
        upper=np.where(free, np.int32(ANY_UPPER), ends[1]),
        weights=weights / weights.sum(),
    )
    boxes = np.sort(random.integers(0, 12, (2, columns, 30)), axis=1).astype(np.int32)
    low, high = np.minimum(*boxes), np.maximum(*boxes)
    low[:, 0], high[:, 0] = ANY_UPPER, -1  # nulls alone: met only by queries that leave every column free
    touch = Touch(workload)
    found = touch.share(*touch.classes(list(low), list(high)))
    assert found == pytest.approx(boxes_touched(workload, low, high), abs=1e-12)


def random_cells(seed, count, partitions=1, heavy=False):
    random = np.random.default_rng(seed)
    partition = np.sort(random.integers(0, partitions, count))
    partition[:partitions] = range(partitions)
    partition.sort()
    size = random.uniform(0.05, 0.4, count)
    if heavy:
        size[random.integers(0, count, 2)] = random.uniform(1.6, 4.0, 2)
    start = random.integers(0, 50, (2, count)).astype(np.int32)
    length = random.integers(0, 10, (2, count)).astype(np.int32)
    workload = synthetic_workload([random.integers(0, 60, 500).astype(np.int32) for _ in "ab"], queries=40, seed=seed)
    touch = Touch(workload)
    low, high = touch.classes(list(start), list(start + length))
    files = np.maximum(np.round(np.bincount(partition, size)), 1).astype(np.int64)
    cells = Cells(size=size, partition=partition, files=files, low=low, high=high)
    return cells, touch, workload, start, start + length


def cost_of(cells, workload, low, high, cuts):
    edges = [0, *cuts, len(cells.size)]
    total = 0.0
    for a, b in itertools.pairwise(edges):
        size = cells.size[a:b].sum()
        if size > 1.5 + 1e-9 and b - a > 1:
            return np.inf, 0
        if size < 0.5 - 1e-9:
            total += 100
        else:
            total += size * boxes_touched(workload, low[:, a:b].min(1)[:, None], high[:, a:b].max(1)[:, None])[0]
    return total, int(own_files(cells.size)[edges[:-1]].sum())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("heavy", [False, True])
def test_program_is_brute_force(seed, heavy):
    cells, touch, workload, low, high = random_cells(seed, 10, heavy=heavy)
    segments = _segments(cells, touch)
    grid = np.array([[0.0, 0.05, 0.3, 2.0]])
    origin, counts = solve(cells, segments, grid)
    ways = [cuts for n in range(10) for cuts in itertools.combinations(range(1, 10), n)]
    costs = [cost_of(cells, workload, low, high, cuts) for cuts in ways]
    for column, penalty in enumerate(grid[0]):
        # a cell too large for one file takes its several files at the price of one, whatever lambda is
        priced = [cost + penalty * (len(cuts) + 1) for (cost, _), cuts in zip(costs, ways, strict=True)]
        cell, found = 10, []
        while cell:
            cell = int(origin[cell - 1, column])
            found.append(cell)
        found = tuple(found[-2::-1])
        at = ways.index(found)
        assert priced[at] == pytest.approx(min(priced), rel=1e-5)
        assert counts[0, column] == costs[at][1]


@pytest.mark.parametrize("seed", range(5))
def test_partitions_are_cut_as_if_alone(seed):
    cells, touch, _, _, _ = random_cells(seed, 120, partitions=4)
    together = cut_cells(cells, touch)
    for partition, cuts in enumerate(together):
        own = np.flatnonzero(cells.partition == partition)
        alone = Cells(
            size=cells.size[own],
            partition=np.zeros(len(own), np.int64),
            files=cells.files[[partition]],
            low=[x[own] for x in cells.low],
            high=[x[own] for x in cells.high],
        )
        assert (cuts - own[0]).tolist() == cut_cells(alone, touch)[0].tolist()


@pytest.mark.parametrize("seed", range(5))
def test_files_are_as_many_as_wanted_and_neither_small_nor_large(seed):
    cells, touch, _, _, _ = random_cells(seed, 400)
    cuts = cut_cells(cells, touch)[0]
    assert cells.files[0] * 0.95 <= len(cuts) + 1 <= cells.files[0]
    sizes = np.add.reduceat(cells.size, np.concatenate([[0], cuts]))
    assert sizes.min() >= 0.5 - 1e-9
    assert sizes.max() <= 1.5 + 1e-9


def test_synthetic_workload_names_one_or_two_columns_and_is_repeatable():
    ranks = [np.arange(10_000, dtype=np.int32), np.full(10_000, -1, np.int32), np.arange(10_000, dtype=np.int32) % 7]
    first, again = (synthetic_workload(ranks, seed=4) for _ in range(2))
    assert (first.lower == again.lower).all()
    assert (first.lower != synthetic_workload(ranks, seed=5).lower).any()
    assert (first.lower[:, 1] == ANY_LOWER).all()
    named = (first.lower != ANY_LOWER).sum(axis=1)
    assert set(named.tolist()) == {0, 1, 2}
    width = (first.upper - first.lower)[first.lower[:, 0] != ANY_LOWER, 0]
    assert width.min() >= 9
    assert width.max() <= 2001
    assert (width < 141).mean() == pytest.approx(0.5, abs=0.08)
    assert first.weights.sum() == pytest.approx(1)
