"""Columns that are found in files by the ids of their fields, whatever they are called."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zskip.index import Index, refresh
from zskip.records import ColumnIds, ColumnNames, ColumnStats, Field, Partition, Reading, Snapshot
from zskip.storage import LocalStorage
from zskip.types import DataType

LONG = DataType("long")


def write(root: Path, name: str, **columns: tuple[int | None, list[int]]) -> None:
    """A file of columns with ids and values."""
    fields = [
        pa.field(name, pa.int64(), metadata=None if number is None else {"PARQUET:field_id": str(number)})
        for name, (number, _) in columns.items()
    ]
    pq.write_table(pa.table([values for _, values in columns.values()], schema=pa.schema(fields)), root / name)


def snapshot_of(root: Path, ids: ColumnIds | None, *names: str) -> Snapshot:
    paths = sorted(path.name for path in root.glob("*.parquet"))
    return Snapshot(
        root=str(root),
        version=1,
        fields=tuple(Field(name=name, type=LONG) for name in names),
        partition_fields=(),
        partitions=(Partition(directory=""),),
        paths=tuple(paths),
        sizes=np.array([(root / path).stat().st_size for path in paths], np.int64),
        mtimes_ms=np.zeros(len(paths), np.int64),
        partition_of=np.zeros(len(paths), np.int32),
        reading=Reading(names=ColumnNames(ids=ids)),
    )


def stats_of(index: Index, snapshot: Snapshot, ids: ColumnIds, *names: str) -> list[ColumnStats | None]:
    """The statistics of columns of other names and ids."""
    fields = tuple(Field(name=name, type=LONG) for name in names)
    bound = index.bind(dataclasses.replace(snapshot, fields=fields, reading=Reading(names=ColumnNames(ids=ids))))
    return [bound.column((name,)) for name in names]


@pytest.fixture
def index(tmp_path: Path) -> tuple[Index, Snapshot]:
    write(tmp_path, "a.parquet", x=(1, [5, 6]), y=(2, [50, 60]))
    write(tmp_path, "b.parquet", y=(1, [7, 8]))
    snapshot = snapshot_of(tmp_path, ColumnIds(ids={("x",): 1, ("y",): 2}), "x", "y")
    return refresh(LocalStorage(str(tmp_path)), snapshot), snapshot


def test_names_mean_nothing(index: tuple[Index, Snapshot]) -> None:
    one, other = stats_of(*index, ColumnIds(ids={("y",): 1, ("X",): 2}), "y", "X")
    assert one is not None
    assert other is not None
    assert one.lower.tolist() == [5, 7]
    assert one.upper.tolist() == [6, 8]
    assert other.bounded.tolist() == [True, False]
    assert other.nulls.tolist() == [0, 2]


def test_a_column_added_again_is_null_in_older_files(index: tuple[Index, Snapshot]) -> None:
    (again,) = stats_of(*index, ColumnIds(ids={("x",): 3}), "x")
    assert again is not None
    assert again.nulls.tolist() == [2, 2]
    assert not again.bounded.any()
    assert stats_of(*index, ColumnIds(ids={("x",): 3}, filled=frozenset({3})), "x") == [None]


def test_files_without_ids_need_a_mapping(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", x=(None, [5, 6]))
    snapshot = snapshot_of(tmp_path, ColumnIds(ids={("x",): 1}), "x")
    index = refresh(LocalStorage(str(tmp_path)), snapshot)
    assert stats_of(index, snapshot, ColumnIds(ids={("x",): 1}), "x") == [None]
    (mapped,) = stats_of(index, snapshot, ColumnIds(ids={("z",): 1}, names={("x",): 1}), "z")
    assert mapped is not None
    assert mapped.upper.tolist() == [6]


def test_an_index_without_ids_is_read_anew(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", x=(1, [5, 6]))
    older = refresh(LocalStorage(str(tmp_path)), snapshot_of(tmp_path, None, "x"))
    assert not older.manifest.segments[0].has_ids
    ids = ColumnIds(ids={("x",): 1})
    snapshot = snapshot_of(tmp_path, ids, "x")
    assert stats_of(older, snapshot, ids, "x") == [None]
    newer = refresh(LocalStorage(str(tmp_path)), snapshot)
    assert [segment.has_ids for segment in newer.manifest.segments] == [True]
    (stats,) = stats_of(newer, snapshot, ids, "x")
    assert stats is not None
    assert stats.lower.tolist() == [5]
    assert refresh(LocalStorage(str(tmp_path)), snapshot).version == newer.version
