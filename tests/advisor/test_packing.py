"""Bins hold small files of one partition, oldest first, and never exceed the size of a file."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zskip.advisor.maintenance.bin_packing import pack
from zskip.records import Partition, Snapshot

FILES = st.lists(st.tuples(st.integers(1, 120), st.integers(0, 3), st.integers(0, 5)), max_size=60)


def snapshot(files: list[tuple[int, int, int]]) -> Snapshot:
    """A table of files of some size, partition and time."""
    columns = np.array(files, np.int64).reshape(-1, 3)
    return Snapshot(
        root="/t",
        version=0,
        fields=(),
        partition_fields=(),
        partitions=tuple(Partition(directory=f"p={i}") for i in range(4)),
        paths=tuple(f"{i:05d}" for i in range(len(files))),
        sizes=columns[:, 0],
        mtimes_ms=columns[:, 2],
        partition_of=columns[:, 1].astype(np.int32),
    )


@given(FILES, st.integers(1, 100))
def test_laws_of_bins(files: list[tuple[int, int, int]], smallest: int) -> None:
    table = snapshot(files)
    bins = pack(table, 100, smallest)
    packed = [int(position) for positions in bins for position in positions]
    assert len(packed) == len(set(packed))
    for positions in bins:
        assert len(positions) > 1
        assert len(set(table.partition_of[positions].tolist())) == 1
        assert table.sizes[positions].sum() <= 100
        assert (table.sizes[positions] < smallest).all()
        assert (np.diff(table.mtimes_ms[positions]) >= 0).all()


@given(FILES)
def test_packed_files_stay(files: list[tuple[int, int, int]]) -> None:
    table = snapshot(files)
    bins = pack(table, 100, 50)
    packed = [(int(table.sizes[b].sum()), int(table.partition_of[b[0]]), 9) for b in bins]
    removed = {int(position) for positions in bins for position in positions}
    remaining = [file for i, file in enumerate(files) if i not in removed]
    again = pack(snapshot(remaining + packed), 100, 50)
    before = sum(size < 50 for size, _, _ in files)
    # Only what was left over of each partition's last bin may still find company.
    assert len(again) <= 4
    assert before >= sum(len(positions) for positions in again)


def test_many_files_of_one_size_are_packed_full() -> None:
    bins = pack(snapshot([(1, 0, i) for i in range(1000)]), 128, 64)
    assert [len(positions) for positions in bins] == [128] * 7 + [104]
