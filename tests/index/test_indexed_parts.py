"""What an index says of each column and sketch is what its entries and states say."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sketch_files

import zskip
from zskip.errors import IndexFormatError, InputError
from zskip.index import list_indexed_parts, refresh
from zskip.index.store.segment import INDEX_DIR
from zskip.records import IndexedPart

FIELDS = {"a": "long", "s": "struct<x:long,y.z:string>", "l": "array<long>", "t": "string"}


@pytest.fixture
def path(tmp_path):
    (tmp_path / "p=7").mkdir()
    for i in range(4):
        table = pa.table({"a": [i, i + 1], "s": [{"x": i, "y.z": "p"}] * 2, "l": [[1], []], "t": [f"k{i}", None]})
        if i == 3:
            table = table.set_column(3, "t", pa.nulls(2, pa.string()))
        pq.write_table(table, tmp_path / "p=7" / f"{i}.parquet", write_statistics=["a", "t"] if i == 2 else True)
    return tmp_path


def test_each_column_has_a_row(path):
    table = zskip.open(str(path))
    info = table.index()
    parts = {part.on: part for part in table.describe_index()}
    assert list(parts) == ["a", "s.x", "s.`y.z`", "l", "t", "p"]
    assert [(p.kind, p.files, p.left_out) for p in parts.values()] == [
        ("minmax", 4, 0),
        ("minmax", 3, 1),
        ("minmax", 3, 1),
        ("minmax", 0, 4),
        ("minmax", 4, 0),
        ("partition", 4, 0),
    ]
    assert parts["a"].reason == parts["t"].reason == ""
    assert "footers have no statistics" in parts["s.x"].reason
    assert "have no order" in parts["l"].reason
    assert parts["l"].bytes == parts["p"].bytes == 0
    assert 0 < parts["s.x"].bytes < parts["a"].bytes < info.bytes
    entries = sum(file.stat().st_size for file in (path / INDEX_DIR).glob("*-entries.zskip"))
    assert abs(sum(part.bytes for part in parts.values()) - entries) < len(parts)


def test_files_that_are_not_indexed_are_told(path):
    table = zskip.open(str(path))
    table.index()
    pq.write_table(pq.read_table(path / "p=7" / "0.parquet", partitioning=None), path / "p=7" / "9.parquet")
    part = table.describe_index()[0]
    assert (part.files, part.left_out) == (4, 1)
    assert "not in the index" in part.reason


def test_sketches_have_rows_after_the_columns(tmp_path, storage, snap):
    for i, rows in enumerate((2, 5, 40)):
        pq.write_table(pa.table({"a": np.arange(rows), "b,c": np.arange(rows)}), tmp_path / f"{i}.parquet")
    snapshot = snap(storage, {"a": "long", "b,c": "long"})
    index = sketch_files.sketched(
        refresh(storage, snapshot), tmp_path, snapshot, ["values(8):a", "bloom(0.01):`b,c`", "ranges(8):a"]
    )
    bound = index.bind(snapshot)
    parts = list_indexed_parts(bound)[2:]
    assert [(part.kind, part.on, part.files, part.left_out) for part in parts] == [
        ("values(8)", "a", 2, 1),
        ("bloom(0.01)", "`b,c`", 3, 0),
        ("ranges(8)", "a", 3, 0),
    ]
    assert [part.bytes for part in parts] == [sketch.bytes for sketch in bound.info().sketches]
    assert "distinct" in parts[0].reason
    assert parts[1] == IndexedPart(on="`b,c`", kind="bloom(0.01)", files=3, bytes=parts[1].bytes)


def test_without_an_index_and_with_one_that_cannot_be_read(path):
    table = zskip.open(str(path))
    with pytest.raises(InputError, match=r"has no index; build it with Table.index\(\)"):
        table.describe_index()
    table.index()
    [manifest] = (path / INDEX_DIR).glob("manifest-*")
    os.truncate(manifest, 50)
    with pytest.raises(IndexFormatError, match="damaged"):
        table.describe_index()


def test_an_empty_table(tmp_path, storage, snap):
    snapshot = snap(storage, {"a": "long"})
    [part] = list_indexed_parts(refresh(storage, snapshot).bind(snapshot))
    assert (part.files, part.left_out, part.bytes, part.reason) == (0, 0, 0, "")
