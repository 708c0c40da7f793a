"""Each kind of damage to an index costs one warning and speed, no row; bringing it up to date repairs it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import manifests
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sketch_files

import zskip
from zskip.errors import IndexFormatError, ZskipWarning
from zskip.index import refresh
from zskip.index.store.segment import INDEX_DIR

WHERE = "a BETWEEN 12 AND 15 OR a < 16 AND b = 31"
"""The first part needs the bounds, the second one the sketch, too."""
FIELDS = {"a": "long", "b": "long"}


@pytest.fixture
def path(tmp_path: Path, storage: Any, snap: Any) -> Path:
    """Files that the bounds of `a` tell from each other, and a sketch those of `b`."""
    for i in range(6):
        pq.write_table(pa.table({"a": [i * 4, i * 4 + 3], "b": [i * 10 + 1, 1000 - i]}), tmp_path / f"{i}.parquet")
        if i == 4:
            snapshot = snap(storage, FIELDS)
            sketch_files.sketched(refresh(storage, snapshot), tmp_path, snapshot, ["values(4):b"])
    zskip.open(str(tmp_path)).index()
    return tmp_path


def each(path: Path, pattern: str) -> list[Path]:
    return sorted((path / INDEX_DIR).glob(pattern))


def newest(path: Path) -> Path:
    return each(path, "manifest-*")[-1]


def forged(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    manifest = newest(path)
    content = manifests.body(manifest.read_bytes())
    change(content)
    manifest.write_bytes(manifests.forged(content))


def corrupt(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0x55
    data[-20] ^= 0x55
    file.write_bytes(data)


def replace_by_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


HOW: dict[str, Callable[[Path], object]] = {
    "corrupt": corrupt,
    "cut": lambda file: os.truncate(file, 40),
    "missing": Path.unlink,
    "not ours": lambda file: file.write_bytes(b"\x80\x04cos\nsystem\n(S'id'\ntR."),
}
PARTS = {"files": "segment-*-files.zskip", "entries": "segment-*-entries.zskip", "sketch": "sketch-*.zskip"}
DAMAGES: dict[str, Callable[[Path], object]] = {
    **{
        f"{part} {name}": lambda path, pattern=pattern, how=how: [how(file) for file in each(path, pattern)]
        for part, pattern in PARTS.items()
        for name, how in HOW.items()
    },
    "manifest cut": lambda path: os.truncate(newest(path), 100),
    "manifest empty": lambda path: os.truncate(newest(path), 0),
    "manifest not ours": lambda path: newest(path).write_bytes(b"PAR1" * 50),
    "manifest a directory": lambda path: replace_by_directory(newest(path)),
    "manifest of a segment that is not there": lambda path: forged(
        path, lambda content: content["segments"][0].update(name="segment-" + "0" * 32)
    ),
    "manifest of a sketch that is not there": lambda path: forged(
        path, lambda content: content["sketches"][0]["segments"][0].__setitem__(0, "sketch-" + "0" * 32)
    ),
    "manifest that points outside": lambda path: forged(
        path, lambda content: content["segments"][0].update(name="../../../etc/segment-" + "0" * 32)
    ),
    "manifest whose sketch points outside": lambda path: forged(
        path, lambda content: content["sketches"][0]["segments"][0].__setitem__(0, "../../sketch-" + "0" * 32)
    ),
}


def asked(path: Path) -> tuple[list[str], list[warnings.WarningMessage]]:
    """What a query for a row that is in one file keeps, and what it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kept = zskip.open(str(path)).files(WHERE)
    assert str(path / "3.parquet") in kept
    return kept, caught


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_costs_one_warning_and_is_repaired(path: Path, damage: str) -> None:
    assert asked(path) == ([str(path / "3.parquet")], [])
    DAMAGES[damage](path)
    kept, caught = asked(path)
    assert len(kept) > 1
    assert [warning.category for warning in caught] == [ZskipWarning]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZskipWarning)
        zskip.open(str(path)).index()
    kept, caught = asked(path)
    assert not caught
    lost = damage.startswith("sketch") or damage == "manifest of a sketch that is not there"
    assert len(kept) == (4 if lost else 1), "states are built with Spark alone"


def test_an_index_of_a_newer_version_is_left_alone(path: Path) -> None:
    manifest = newest(path)
    manifest.write_bytes(manifests.with_format(manifest.read_bytes(), 3))
    before = sorted(file.name for file in (path / INDEX_DIR).iterdir())
    kept, caught = asked(path)
    assert len(kept) == 6
    assert ["update zskip" in str(warning.message) for warning in caught] == [True]
    with pytest.raises(IndexFormatError, match="update zskip, or delete"):
        zskip.open(str(path)).index()
    assert sorted(file.name for file in (path / INDEX_DIR).iterdir()) == before
    for file in (path / INDEX_DIR).iterdir():
        file.unlink()
    zskip.open(str(path)).index()
    kept, caught = asked(path)
    assert (len(kept), caught) == (4, []), "as the message says"
