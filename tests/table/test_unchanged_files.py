"""Files that a planner has named, found again in a table that others may have changed."""

from __future__ import annotations

import numpy as np
import pytest

from zskip.errors import ConflictError
from zskip.records import FileIdentity, LiveFiles, Partition, Snapshot, identify_files
from zskip.table.rewrite.file_selection import select_unchanged


def table(files: list[FileIdentity]) -> Snapshot:
    return Snapshot(
        root="/t",
        version=1,
        fields=(),
        partition_fields=(),
        partitions=(Partition(directory=""),),
        paths=tuple(path for path, _, _ in files),
        sizes=np.array([size for _, size, _ in files], np.int64),
        mtimes_ms=np.array([time for _, _, time in files], np.int64),
        partition_of=np.zeros(len(files), np.int32),
    )


def test_a_file_is_there_while_its_path_bytes_and_time_are() -> None:
    files = [("a", 1, 10), ("b", 2, 20), ("c", 3, 30)]
    snapshot = table(files)
    assert identify_files(snapshot, np.array([2, 0])) == (files[2], files[0])
    asked = [("c", 3, 30), ("a", 9, 10), ("x", 1, 1), ("b", 2, 21), ("a", 1, 10)]
    assert LiveFiles(snapshot).find(asked).tolist() == [2, -1, -1, -1, 0]
    assert LiveFiles(snapshot).find([]).tolist() == []
    assert LiveFiles(table([])).find(asked).tolist() == [-1] * 5


def test_files_are_chosen_in_the_order_of_the_table_or_not_at_all() -> None:
    snapshot = table([("a", 1, 10), ("b", 2, 20), ("c", 3, 30)])
    assert select_unchanged(snapshot, frozenset([("c", 3, 30), ("a", 1, 10)])).paths == ("a", "c")
    with pytest.raises(ConflictError, match="another writer changed 2 of the files"):
        select_unchanged(snapshot, frozenset([("c", 3, 31), ("z", 1, 10), ("a", 1, 10)]))
