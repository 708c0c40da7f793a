"""A manifest that is cut short, at whichever byte, is an error: it never costs a file without a word."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import zskip
from zskip.errors import StorageError

pytest.importorskip("pyiceberg")
from iceberg_tables import catalog_at, path_of, small
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

from zskip.formats.iceberg.file_checks import check_blocks


def newest(home: Path, pattern: str) -> Path:
    return max((home / "metadata").glob(pattern), key=lambda path: path.stat().st_mtime_ns)


@pytest.mark.parametrize("pattern", ["snap-*.avro", "*-m0.avro"])
def test_cut_anywhere(tmp_path: Path, pattern: str) -> None:
    content = newest(path_of(small(catalog_at(tmp_path))), pattern).read_bytes()
    check_blocks(content)
    whole = [size for size in range(len(content)) if raised(content[:size]) is None]
    # Between two blocks nothing tells that more are to come, but for what the list of manifests says.
    assert len(whole) <= content.count(content[-16:]) - 1
    assert all(content[:size].endswith(content[-16:]) for size in whole)


def raised(content: bytes) -> Exception | None:
    try:
        check_blocks(content)
    except (EOFError, ValueError, TypeError) as error:
        return error
    return None


@pytest.mark.parametrize("damage", [b"Obj\x02", b"PAR1"])
def test_other_files(tmp_path: Path, damage: bytes) -> None:
    content = newest(path_of(small(catalog_at(tmp_path))), "*-m0.avro").read_bytes()
    assert isinstance(raised(damage + content[4:]), ValueError)


@pytest.mark.parametrize(("block", "said"), [(b"\x01\x00", "-1 records"), (b"\x02\x01", "-1 bytes")])
def test_blocks_of_fewer_than_nothing(tmp_path: Path, block: bytes, said: str) -> None:
    content = newest(path_of(small(catalog_at(tmp_path))), "*-m0.avro").read_bytes()
    with pytest.raises(ValueError, match=said):
        check_blocks(content + block + content[-16:])


def test_blocks_behind_an_empty_one(tmp_path: Path) -> None:
    content = newest(path_of(small(catalog_at(tmp_path))), "*-m0.avro").read_bytes()
    empty = b"\x00\x00" + content[-16:]
    check_blocks(content + empty)
    with pytest.raises(ValueError, match="follows an empty one"):
        check_blocks(content + 2 * empty)


def test_blocks_that_are_gone(tmp_path: Path) -> None:
    """Each entry is a block of its own, where pyiceberg writes."""
    schema = Schema(NestedField(1, "a", LongType()))
    spec = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name="a"))
    table = catalog_at(tmp_path).create_table("db.t", schema, partition_spec=spec)
    table.append(pa.table({"a": [0, 1, 2]}))
    opened = zskip.open(str(path_of(table)))
    assert len(opened.files("a >= 0")) == 3
    manifest = newest(path_of(table), "*-m0.avro")
    content = manifest.read_bytes()
    ends = [size for size in range(len(content)) if raised(content[:size]) is None]
    assert len(ends) == 3
    for end in ends:
        manifest.write_bytes(content[:end])
        with pytest.raises(StorageError, match=f"it has {ends.index(end)} of 3 entries"):
            zskip.open(str(path_of(table))).files("a >= 0")
