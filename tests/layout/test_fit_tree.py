"""Fitted trees of cuts: every row has one leaf, each file lies in its leaf's box, and cuts lie where queries end."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import tiers
from hypothesis import given

from zskip.errors import InputError
from zskip.layout.fit import fit
from zskip.layout.layout import Layout
from zskip.layout.predict import predict_share, sample_ranks
from zskip.layout.workload import ANY_LOWER, ANY_UPPER, Workload, synthetic_workload
from zskip.records import Sample

from .test_fit import ids_of, sample_of, samples, uniform


def tree_of(sample: Sample, files: Any, workload: Workload | None = None, **options: Any) -> Layout:
    files = np.atleast_1d(files)
    rows = np.bincount(sample.partition, minlength=len(files))
    workload = synthetic_workload(sample_ranks(sample), queries=100) if workload is None else workload
    return fit(sample, files, partition_rows=rows, curve="fitted", workload=workload, **options)


def asking(ranges: list[dict[int, tuple[int, int]]], columns: int, **more: Any) -> Workload:
    """Queries for ranges of dense ranks."""
    lower = np.full((len(ranges), columns), ANY_LOWER, np.int32)
    upper = np.full((len(ranges), columns), ANY_UPPER, np.int32)
    for query, of_columns in enumerate(ranges):
        for column, (low, high) in of_columns.items():
            lower[query, column], upper[query, column] = low, high
    return Workload(lower=lower, upper=upper, weights=np.full(len(ranges), 1 / max(len(ranges), 1)), **more)


def walk(layout: Layout, row: list[Any], partition: int) -> tuple[int, list[tuple[int, Any, bool]]]:
    """The leaf of one row by its values, in plain Python, and the cuts on the way."""
    tree = layout.curve.tree
    assert tree is not None
    node, way = int(tree.roots[partition]), []
    while node >= 0:
        column, cut = int(tree.columns[node]), int(tree.cuts[node])
        bounds = layout.bounds[column].tolist()
        value = row[column]
        is_right = value is None or (cut <= len(bounds) and (value != value or value >= bounds[cut - 1]))
        way.append((column, bounds[cut - 1] if cut <= len(bounds) else None, is_right))
        node = int((tree.right if is_right else tree.left)[node])
    return ~node, way


def rows_of(sample: Sample) -> list[list[Any]]:
    columns = [
        [None if null else value for value, null in zip(values.tolist(), nulls.tolist(), strict=True)]
        for values, nulls in zip(sample.columns, sample.nulls, strict=True)
    ]
    return [list(row) for row in zip(*columns, strict=True)]


@given(samples())
@tiers.examples(100, quick=30)
def test_every_row_is_in_the_one_leaf_that_it_walks_to(drawn: Any) -> None:
    sample, files = drawn
    layout = tree_of(sample, files)
    again = Layout.from_json(layout.to_json())
    assert again == layout
    assert hash(again) == hash(layout)
    tie = np.random.default_rng(1).integers(0, 2**63, len(sample), dtype=np.uint64)
    file_ids, keys = again.place(sample.columns, sample.nulls, sample.partition, tie)
    assert (keys == layout.keys(sample.columns, sample.nulls)).all()
    for row, partition, file in zip(rows_of(sample), sample.partition.tolist(), file_ids.tolist(), strict=True):
        segment = walk(layout, row, partition)[0] + layout.cut_starts[partition] + partition
        assert 0 <= file - layout.first_file[segment] < layout.spread[segment]
        assert layout.partition_of_file[file] == partition
    assert layout.file_count == layout.spread.sum() == len(layout.partition_of_file)
    per_partition = np.bincount(layout.partition_of_file, minlength=len(files))
    assert (per_partition >= 1).all()
    assert (per_partition <= np.maximum(files, 1) * 2).all()
    assert tree_of(sample, files).to_json() == layout.to_json()


def test_files_lie_in_the_boxes_of_their_leaves() -> None:
    sample = uniform(20_000)
    layout = tree_of(sample, 64)
    fresh = uniform(30_000, seed=5)
    files = ids_of(layout, fresh)
    rows = rows_of(fresh)
    for file in range(layout.file_count):
        at = np.flatnonzero(files == file)
        for column, value, is_right in walk(layout, rows[at[0]], 0)[1]:
            values = fresh.columns[column][at]
            assert values.min() >= value if is_right else values.max() < value


@pytest.mark.slow
@pytest.mark.parametrize("files", [2, 3, 10, 100, 1_000])
def test_files_hold_half_to_one_and_a_half_times_their_rows(files: int) -> None:
    sample = uniform(20_000)
    layout = tree_of(sample, files)
    assert 0.9 * files <= layout.file_count <= files
    rows = np.bincount(ids_of(layout, sample), minlength=layout.file_count) * files / len(sample)
    assert rows.min() >= 0.49
    assert rows.max() <= 1.55


def test_a_tree_reads_less_than_a_curve_where_queries_ask_for_one_region() -> None:
    sample = uniform(40_000, 2)
    random = np.random.default_rng(3)
    starts = random.integers(0, 4_000, 100).tolist()
    hot = asking([{0: (start, start + 40)} for start in starts], 2)
    layout = tree_of(sample, 64, hot)
    curve = fit(sample, np.array([64]), partition_rows=np.array([40_000]), workload=hot)
    assert predict_share(layout, sample, hot) < 0.5 * predict_share(curve, sample, hot)


def test_cuts_lie_where_queries_end() -> None:
    """Values that were not sampled lie on the side of the query that asks for them."""
    day = 86_400_000_000
    random = np.random.default_rng(0)
    times = random.integers(0, 16 * day, 4_000)
    sample = sample_of([times.tolist(), random.integers(0, 9, 4_000).tolist()], ["long", "long"])
    distinct = np.unique(times)
    midnights = np.arange(16) * day
    ranks = np.searchsorted(distinct, np.append(midnights, 16 * day))
    days = asking([{0: (int(ranks[i]), int(ranks[i + 1]) - 1)} for i in range(16)], 2,
                  ends=((midnights, np.ones(16)), (midnights[:0], np.ones(0))))  # fmt: skip
    layout = tree_of(sample, 16, days)
    edges = np.concatenate([midnights[1:], midnights[1:] - 1])
    other = [np.zeros(30, np.int64), np.zeros(30, bool)]
    files, _ = layout.place([edges, other[0]], [other[1]] * 2, 0, np.zeros(30, np.uint64))
    assert (files[:15] != files[15:]).all()


def test_nulls_that_are_asked_for_lie_apart() -> None:
    random = np.random.default_rng(0)
    values = [None if i % 4 == 0 else int(v) for i, v in enumerate(random.integers(0, 10**6, 8_000))]
    sample = sample_of([values, random.integers(0, 10**6, 8_000).tolist()], ["long", "long"])
    nulls = np.zeros((20, 2), bool)
    nulls[:, 0] = True
    layout = tree_of(sample, 8, asking([{}] * 20, 2, nulls=nulls))
    files = ids_of(layout, sample)
    assert set(files[sample.nulls[0]].tolist()).isdisjoint(files[~sample.nulls[0]].tolist())


def test_a_value_longer_than_a_file_is_spread() -> None:
    random = np.random.default_rng(0)
    values = np.where(random.random(40_000) < 0.3, 500, random.integers(0, 1000, 40_000))
    sample = sample_of([values.tolist(), values.tolist()], ["long", "long"])
    layout = tree_of(sample, 20)
    assert layout.file_count <= 20
    assert layout.spread.max() >= 4
    rows = np.bincount(ids_of(layout, sample), minlength=layout.file_count)
    assert rows.max() <= 1.6 * 2_000


@pytest.mark.parametrize("value", [None, 7, float("nan")])
def test_one_value_is_one_leaf(value: Any) -> None:
    sample = sample_of([[value] * 500, [value] * 500], ["double", "double"])
    layout = tree_of(sample, 4)
    assert layout.file_count == 3
    assert np.bincount(ids_of(layout, sample)).min() > 100


def test_partitions_have_trees_of_their_own_or_share_one() -> None:
    random = np.random.default_rng(0)
    partition = np.repeat([0, 1, 2, 3], [5_000, 5_000, 60, 50])
    sample = uniform(10_110, 2, partition=partition)
    columns = list(sample.columns)
    columns[0] = np.where(partition == 1, random.integers(0, 100, len(partition)), columns[0])
    sample = dataclasses.replace(sample, columns=tuple(columns))
    workload = synthetic_workload(sample_ranks(sample), queries=100)
    files, rows = np.array([8, 8, 8, 8, 8, 1]), np.full(6, 50_000)
    layout = fit(sample, files, partition_rows=rows, curve="fitted", workload=workload)
    assert layout.curve.tree is not None
    roots = layout.curve.tree.roots.tolist()
    assert len({roots[0], roots[1], roots[2]}) == 3
    assert roots[2] == roots[3] == roots[4]
    assert roots[5] == ~0
    assert np.bincount(layout.partition_of_file).tolist()[-1] == 1
    files = ids_of(layout, sample)
    assert (layout.partition_of_file[files] == partition).all()


def test_a_guide_gives_its_cuts_to_other_rows() -> None:
    sample = uniform(20_000, 2, seed=1)
    layout = tree_of(sample, 64)
    later = uniform(5_000, 2, seed=2)
    placed = tree_of(later, 8, like=layout)
    assert 7 <= placed.file_count <= 8
    assert values_of_cuts(placed) <= values_of_cuts(layout)


def values_of_cuts(layout: Layout) -> set[tuple[int, Any]]:
    tree = layout.curve.tree
    assert tree is not None
    return {(d, layout.bounds[d][cut - 1]) for d, cut in zip(tree.columns.tolist(), tree.cuts.tolist(), strict=True)}


def test_columns_are_two_to_thirty_two() -> None:
    with pytest.raises(InputError, match="needs at least 2 columns"):
        tree_of(uniform(100, 1), 4)
    layout = tree_of(uniform(2_000, 32), 8)
    assert ids_of(layout, uniform(2_000, 32)).max() < 8
