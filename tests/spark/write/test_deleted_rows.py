"""Live rows of files that other files delete from, with columns under their ids and numbers that follow rows."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyroaring
import pytest

from zskip.errors import UnsupportedError
from zskip.formats.delta.deletes import _Z85, read_descriptor
from zskip.records import Deletes, Matching
from zskip.spark.write.arrow.access import DiskAccess
from zskip.spark.write.arrow.reading import Reader, Source, deleted_rows, describe_deletes, read_vector
from zskip.spark.write.arrow.schema import NotReadable

ROWS, GROUP = 1000, 300
MAGIC = bytes.fromhex("d1d33964")
DATA = "s3://there/data.parquet"


def vector(rows: list[int]) -> bytes:
    return MAGIC + pyroaring.BitMap64(rows).serialize()


def framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content + zlib.crc32(content).to_bytes(4, "big")


def named(field: pa.Field, field_id: int) -> pa.Field:
    return field.with_metadata({"PARQUET:field_id": str(field_id)})


def source(path: Path, rows: pa.Table, **more: Any) -> Source:
    pq.write_table(rows, path / "data.parquet", row_group_size=GROUP)
    return Source("data.parquet", (path / "data.parquet").stat().st_size, 0, **more)


def read(path: Path, schema: pa.Schema, *sources: Source, by_id: bool = False) -> list[Mapping[str, Any]]:
    """The rows; of the columns `w` may be missing."""
    matching = Matching(by_id, frozenset({"w"}))
    reader = Reader(DiskAccess(str(path)), schema, corrected=True, matching=matching)
    return [row for one in sources for batch in reader.batches(one) for row in batch.to_pylist()]


@pytest.mark.parametrize("rows", [[], [0], [5, 7, 1 << 32, (1 << 33) + 1], list(range(2000, 70_000))])
def test_a_vector_is_the_bitmap_of_its_rows(rows: list[int]) -> None:
    assert read_vector(vector(rows)).tolist() == rows


@pytest.mark.parametrize("content", [b"", b"\0\0\0\0" * 4, MAGIC, MAGIC + b"\1"])
def test_what_is_no_vector_is_left_to_spark(content: bytes) -> None:
    with pytest.raises(NotReadable):
        read_vector(content)


@pytest.mark.parametrize("seed", range(4))
def test_deleted_rows_are_those_of_all_deletes(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    sets = [sorted(random.choice(ROWS, 40, replace=False).tolist()) for _ in range(4)]
    (tmp_path / "v.bin").write_bytes(b"x" * 17 + framed(vector(sets[0])) + framed(vector([3])))
    paths, positions = [DATA] * 40 + ["other"] * 40, [*sets[1], *sets[2]]
    order = np.argsort(paths, kind="stable")
    table = pa.table({"file_path": np.array(paths)[order], "pos": np.array(positions)[order]})
    pq.write_table(table, tmp_path / "p.parquet", row_group_size=16)
    deletes = [
        Deletes(kind="deletion vector", path="v.bin", offset=17),
        Deletes(kind="position deletes", path="p.parquet"),
        Deletes(kind="deletion vector", inline=vector(sets[3])),
    ]
    found = deleted_rows(DiskAccess(str(tmp_path)), DATA, describe_deletes(deletes)).tolist()
    assert found == sorted({*sets[0], *sets[1], *sets[3]})


def test_a_damaged_vector_is_left_to_spark(tmp_path: Path) -> None:
    content = bytearray(framed(vector([1, 2, 3])))
    content[-6] ^= 1
    (tmp_path / "v.bin").write_bytes(content)
    with pytest.raises(NotReadable, match="checksum"):
        deleted_rows(DiskAccess(str(tmp_path)), DATA, [("v.bin", 0, None, None)])


def test_a_name_in_the_log_is_that_of_the_file() -> None:
    # The example of Delta's protocol.
    named = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40}
    assert read_descriptor(named, "/t").path == "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    spare = base64.b85encode(vector([3, 9]) + b"\0" * 2).decode().translate({v: k for k, v in _Z85.items()})
    size = len(vector([3, 9]))
    content = read_descriptor({"storageType": "i", "pathOrInlineDv": spare, "sizeInBytes": size}, "/t").inline
    assert content == vector([3, 9])
    for kind, place in (("p", "s3://a/b.bin"), ("p", "../b.bin"), ("u", "../a/ab^-aqEH.-t@S}K{vb[*k^")):
        with pytest.raises(UnsupportedError, match="outside"):
            read_descriptor({"storageType": kind, "pathOrInlineDv": place, "offset": 1}, "/t")


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("stored", [False, True], ids=["new", "rewritten"])
def test_numbers_of_rows_stay_with_them(tmp_path: Path, parts: int, stored: bool) -> None:
    deleted = [0, 299, 300, 301, *range(600, 900), 999]
    known = pa.array([None if i % 3 else 10_000 + i for i in range(ROWS)], pa.int64())
    rows = pa.table({"a": np.arange(ROWS), **({"_id": known} if stored else {})})
    hidden = [("_id", 500, True), ("_version", 7, False), ("_none", None, False)]
    schema = pa.schema([("a", pa.int64()), *((name, pa.int64()) for name, _, _ in hidden)])
    one = source(tmp_path, rows, deletes=describe_deletes([Deletes(kind="", inline=vector(deleted))]), hidden=hidden)
    found = read(tmp_path, schema, *(one._replace(part=part, parts=parts) for part in range(parts)))
    ids = [known[i].as_py() if stored and i % 3 == 0 else 500 + i for i in range(ROWS)]
    assert found == [
        {"a": i, "_id": ids[i], "_version": 7, "_none": None} for i in range(ROWS) if i not in set(deleted)
    ]


def test_columns_are_found_by_their_ids(tmp_path: Path) -> None:
    inner = pa.struct([named(pa.field("x", pa.int64()), 4)])
    wanted = pa.schema(
        [named(pa.field("a", pa.int64()), 2), named(pa.field("b", pa.int64()), 1), named(pa.field("s", inner), 3)]
    )
    stored = pa.schema([wanted.field(1).with_name("a"), wanted.field(0).with_name("b"), wanted.field(2).with_name("t")])
    rows = pa.Table.from_pylist([{"a": 1, "b": 2, "t": {"x": 3}}], stored)
    assert read(tmp_path, wanted, source(tmp_path, rows), by_id=True) == [{"a": 2, "b": 1, "s": {"x": 3}}]


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (named(pa.field("a", pa.int64()), 9), 'no column "a"'),
        (named(pa.field("a", pa.struct([named(pa.field("x", pa.int64()), 9)])), 1), 'parts of the column "a"'),
        (named(pa.field("a", pa.struct([named(pa.field("y", pa.int64()), 2)])), 1), "which Spark converts"),
    ],
)
def test_columns_with_other_ids_are_left_to_spark(tmp_path: Path, wanted: pa.Field, reason: str) -> None:
    stored = named(pa.field("a", pa.struct([named(pa.field("x", pa.int64()), 2)])), 1)
    rows = pa.Table.from_pylist([{"a": {"x": 3}}], pa.schema([stored]))
    with pytest.raises(NotReadable, match=reason):
        read(tmp_path, pa.schema([wanted]), source(tmp_path, rows), by_id=True)


@pytest.mark.parametrize("kind", [pa.string(), pa.decimal64(9, 2), pa.list_(pa.struct([pa.field("x", pa.int8())]))])
def test_columns_that_a_file_may_lack_are_null(tmp_path: Path, kind: pa.DataType) -> None:
    wanted = pa.schema([pa.field("v", pa.int64()), pa.field("w", kind), pa.field("z", pa.int64())])
    one = source(tmp_path, pa.table({"z": [1, 2], "v": [3, 4]}))
    assert read(tmp_path, wanted, one) == [{"v": 3, "w": None, "z": 1}, {"v": 4, "w": None, "z": 2}]


@pytest.mark.parametrize(
    ("stored", "wanted", "by_id"),
    [
        (pa.schema([pa.field("v", pa.int64()), pa.field("W", pa.int64())]), ["v", "w"], False),
        (pa.schema([named(pa.field("v", pa.int64()), 1), pa.field("o", pa.int64())]), ["v", "w"], True),
        (pa.schema([pa.field("o", pa.int64())]), ["w"], False),
    ],
    ids=["another case", "a column without an id", "none of the columns"],
)
def test_columns_that_may_be_another_are_left_to_spark(
    tmp_path: Path, stored: pa.Schema, wanted: list[str], by_id: bool
) -> None:
    one = source(tmp_path, pa.table([[1]] * len(stored), schema=stored))
    fields = [
        named(pa.field(name, pa.int64()), i + 1) if by_id else pa.field(name, pa.int64())
        for i, name in enumerate(wanted)
    ]
    with pytest.raises(NotReadable, match=r"no column|none of the columns"):
        read(tmp_path, pa.schema(fields), one, by_id=by_id)
