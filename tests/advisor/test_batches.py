"""Batches of a large rewrite hold every file once, stay within their limit, and each is compact."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from zskip.advisor.maintenance.batches import split
from zskip.advisor.maintenance.row_scale import Bounds
from zskip.records import Partition, Snapshot


def table(sizes: Sequence[int], partition_of: Sequence[int] | None = None) -> Snapshot:
    partitions = np.zeros(len(sizes), np.int32) if partition_of is None else np.array(partition_of, np.int32)
    return Snapshot(
        root="/t",
        version=0,
        fields=(),
        partition_fields=(),
        partitions=tuple(Partition(directory=f"p={i}") for i in range(int(partitions.max(initial=0)) + 1)),
        paths=tuple(f"f{i:05d}" for i in range(len(sizes))),
        sizes=np.array(sizes, np.int64),
        mtimes_ms=np.arange(len(sizes), dtype=np.int64),
        partition_of=partitions,
    )


def column(low: NDArray[np.int64], high: NDArray[np.int64]) -> Bounds:
    return Bounds(lower=low, upper=high, bounded=np.ones(len(low), np.bool_))


@pytest.mark.parametrize("seed", range(20))
def test_every_file_is_in_one_batch_and_none_is_too_large(seed: int) -> None:
    rng = np.random.default_rng(seed)
    files, most = int(rng.integers(1, 300)), int(rng.integers(50, 2_000))
    snapshot = table(rng.integers(1, 150, files).tolist(), rng.integers(0, rng.integers(1, 9), files).tolist())
    low = rng.integers(0, 1000, files)
    columns = [column(low, low + rng.integers(0, 500, files))] * int(rng.integers(0, 3))
    batches = split(snapshot, rng.integers(0, 99, files), columns, most=most, linear=bool(seed % 2))
    assert sorted(np.concatenate(batches).tolist()) == list(range(files))
    sizes = [int(snapshot.sizes[positions].sum()) for positions in batches]
    assert all(size <= most or len(positions) == 1 for size, positions in zip(sizes, batches, strict=True))
    # Not many more than there must be: halves are filled to more than a third, and joined where two fit.
    assert len(batches) <= 3 * (1 + sum(sizes) // most) + len(snapshot.partitions)
    for partition in range(len(snapshot.partitions)):
        in_partition = np.flatnonzero(snapshot.partition_of == partition)
        if len(in_partition) and snapshot.sizes[in_partition].sum() <= most:
            assert sum(bool(np.isin(in_partition, positions).any()) for positions in batches) == 1


def test_a_table_in_order_is_divided_into_ranges() -> None:
    rng = np.random.default_rng(3)
    at = rng.permutation(64)
    x, y = at // 8 * 100, at % 8 * 100
    columns = [column(x, x + 99), column(y, y + 99)]
    batches = split(table([10] * 64), np.full(64, 1000), columns, most=160)
    assert len(batches) == 4
    boxes = {
        (int(x[positions].min()), int(x[positions].max()), int(y[positions].min()), int(y[positions].max()))
        for positions in batches
    }
    assert boxes == {(a, a + 300, b, b + 300) for a in (0, 400) for b in (0, 400)}
    by_first = split(table([10] * 64), np.full(64, 1000), columns, most=160, linear=True)
    assert {(int(x[positions].min()), int(x[positions].max())) for positions in by_first} == {
        (a, a + 100) for a in (0, 200, 400, 600)
    }


def test_files_without_bounds_keep_their_order() -> None:
    batches = split(table([10] * 9), np.zeros(9, np.int64), [], most=30)
    assert [positions.tolist() for positions in batches] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_a_file_that_is_too_large_is_a_batch_by_itself() -> None:
    assert [p.tolist() for p in split(table([5, 99, 5]), np.ones(3, np.int64), [], most=10)] == [[0], [1], [2]]
    assert split(table([]), np.zeros(0, np.int64), [], most=10) == []
