"""Whatever happens to the bytes of an index, no query fails and none loses a file; a refresh puts it right."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import manifests
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import zskip
from zskip.errors import IndexFormatError, InputError, ZskipWarning
from zskip.index import Index, refresh, store
from zskip.index.segment import INDEX_DIR
from zskip.predicate import Columns, parse
from zskip.prune import prune
from zskip.records import Field
from zskip.storage import FileInfo
from zskip.types import DataType

FIELDS = {"a": "long", "t": "string", "x": "double", "late": "integer"}
WHERE = [
    "a BETWEEN 12 AND 31",
    "t >= 'k00040'",
    "x < 3 OR x IS NULL",
    "late IS NOT NULL",
    "NOT (a <= 29) AND t IS NOT NULL",
    "late IS NULL",
]
MATCHES: list[Callable[[dict[str, Any]], bool]] = [
    lambda r: 12 <= r["a"] <= 31,
    lambda r: r["t"] is not None and r["t"] >= "k00040",
    lambda r: r["x"] is None or r["x"] < 3,
    lambda r: r.get("late") is not None,
    lambda r: not r["a"] <= 29 and r["t"] is not None,
    lambda r: r.get("late") is None,
]


class MemoryStorage:
    """The files of an index in memory, so that thousands of damages take seconds."""

    def __init__(self, root: str, files: dict[str, bytes]) -> None:
        self.root = root
        self.files = files

    def list_dir(self, path: str) -> list[FileInfo]:
        return [FileInfo(f"{path}/{name}", len(data), 0) for name, data in self.files.items()]

    def read(self, path: str) -> bytes:
        name = path.rpartition("/")[2]
        assert path == f"{INDEX_DIR}/{name}", "it reads nothing but the index"
        if name not in self.files:
            raise FileNotFoundError(path)
        return self.files[name]

    def open(self, path: str) -> Any:
        return pa.BufferReader(self.read(path))


class Case:
    """A table of eight files, its index in three segments, and the files that each predicate needs."""

    def __init__(self, root: Path, storage: Any, snap: Callable[..., Any]) -> None:
        for i in range(8):
            table = pa.table({"a": [i * 10, i * 10 + 9], "t": [f"k{i * 10:05d}", None], "x": [i / 2, None]})
            if i >= 5:
                table = table.append_column("late", pa.array([i, None], pa.int32()))
            pq.write_table(table, root / f"{i}.parquet")
            if i in (2, 4, 7):
                self.snapshot = snap(storage, FIELDS)
                refresh(storage, self.snapshot)
        self.files = {p.name: p.read_bytes() for p in (root / INDEX_DIR).iterdir()}
        self.storage = storage
        rows = [pq.read_table(root / path).to_pylist() for path in self.snapshot.paths]
        columns = Columns([Field(name=name, type=DataType(kind)) for name, kind in FIELDS.items()])
        self.predicates = [parse(text, columns) for text in WHERE]
        self.truth = [np.array([any(map(match, held)) for held in rows]) for match in MATCHES]

    def kept(self, files: dict[str, bytes]) -> list[np.ndarray] | None:
        """The files that each predicate keeps; None where the index is refused as a whole."""
        storage: Any = MemoryStorage(self.storage.root, files)
        try:
            index = Index.load(storage)
        except IndexFormatError:
            return None
        if index is None:
            return None
        bound = index.bind(self.snapshot)
        return [prune(predicate, bound).kept for predicate in self.predicates]

    def check(self, files: dict[str, bytes], what: object) -> bool:
        """Fail where a damaged index loses a file; whether it still skips as much as the sound one."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ZskipWarning)
            kept = self.kept(files)
        if kept is None:
            return False
        for where, needed, found in zip(WHERE, self.truth, kept, strict=True):
            assert (found | ~needed).all(), (what, where)
        return all((found == needed).all() for found, needed in zip(kept, self.truth, strict=True))


@pytest.fixture(scope="module")
def case(tmp_path_factory: Any, storage_class: Any, snap: Any) -> Case:
    root = tmp_path_factory.mktemp("fuzzed")
    return Case(root, storage_class(root), snap)


def damages(files: dict[str, bytes], seed: int) -> Iterator[tuple[object, dict[str, bytes]]]:
    """Indexes with some bytes other than they were, and what was done to them."""
    rng = random.Random(seed)
    names = sorted(files)
    while True:
        name, other = rng.choice(names), rng.choice(names)
        data = bytearray(files[name])
        at = rng.randrange(len(data))
        changed = dict(files)
        how = rng.choice(["flip", "flip", "bytes", "cut", "grow", "swap", "zero", "gone", "move", "repeat"])
        if how == "flip":
            data[at] ^= 1 << rng.randrange(8)
        elif how == "bytes":
            data[at : at + 8] = rng.randbytes(8)
        elif how == "cut":
            del data[at:]
        elif how == "grow":
            data[at:at] = rng.randbytes(rng.randrange(1, 20))
        elif how == "zero":
            data[at : at + 512] = bytes(len(data[at : at + 512]))
        elif how == "repeat":
            data[at:] = data[: len(data) - at]
        elif how == "move":
            half = len(data) // 2
            data[:half], data[half:] = data[half : 2 * half], data[:half] + data[2 * half :]
        changed[name] = bytes(data)
        if how == "swap":
            changed[name], changed[other] = files[other], files[name]
        elif how == "gone":
            del changed[name]
        yield (how, name, at), changed


def test_the_sound_index_skips_all_that_it_can(case: Case) -> None:
    assert len(case.files) == 3 * 2 + 3
    assert case.check(case.files, "nothing")


@pytest.mark.parametrize("seed", range(4))
def test_damaged_bytes_never_lose_a_file(case: Case, seed: int) -> None:
    worse = sum(not case.check(files, what) for what, files in islice(damages(case.files, seed), 400))
    assert worse > 150, "some damage was noticed"


def test_every_bit_of_a_manifest_counts(case: Case) -> None:
    name = max(name for name in case.files if name.startswith("manifest"))
    for at in range(len(case.files[name])):
        data = bytearray(case.files[name])
        data[at] ^= 1 << at % 8
        assert case.kept({**case.files, name: bytes(data)}) is None, at


ODD = [None, True, -1, 0, 1, 2, 1.5, 2**31, 2**53 + 1, 2**64, 10**400, "", "x", "../../etc/passwd", [], [[]], {}, ["a"]]


def test_a_manifest_with_a_right_checksum_may_say_anything(case: Case) -> None:
    """It is believed, refused or found not to fit; nothing outside the index is opened, and nothing else happens."""
    name = max(name for name in case.files if name.startswith("manifest"))
    rng = random.Random(3)
    for _ in range(1500):
        content = manifests.body(case.files[name])
        node, key = rng.choice(list(places(content)))
        if rng.random() < 0.2 and isinstance(node, dict):
            del node[key]
        else:
            node[key] = rng.choice(ODD)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ZskipWarning)
            case.kept({**case.files, name: manifests.forged(content)})


def places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON document where there is a value."""
    for key, value in list(node.items() if isinstance(node, dict) else enumerate(node)):
        yield node, key
        if isinstance(value, dict | list):
            yield from places(value)


@pytest.mark.parametrize("path", ["../../elsewhere", "/etc/passwd", "segment-../x", "segment-" + "0" * 31 + "/"])
def test_names_that_lead_out_of_the_index_are_refused(case: Case, path: str) -> None:
    name = max(name for name in case.files if name.startswith("manifest"))
    content = manifests.body(case.files[name])
    content["segments"][0]["name"] = path
    with pytest.raises(IndexFormatError, match="no name of a segment"):
        Index.load(MemoryStorage("", {name: manifests.forged(content)}))  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(3))
def test_a_refresh_mends_whatever_happened(case: Case, seed: int, storage_class: Any, tmp_path: Path) -> None:
    storage = storage_class(Path(case.storage.root))
    home = storage_class(tmp_path)
    directory = tmp_path / INDEX_DIR
    directory.mkdir(parents=True)
    for what, files in islice(damages(case.files, 100 + seed), 40):
        for path in directory.iterdir():
            path.unlink()
        for name, data in files.items():
            content = data
            if name.startswith("manifest") and data == case.files.get(name):
                content = manifests.forged({**manifests.body(data), "table": storage.root})
            (directory / name).write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ZskipWarning)
            try:
                index = refresh(storage, case.snapshot, index_storage=home)
            except InputError:
                continue  # a manifest under another's name, which is of no table
        bound = index.bind(case.snapshot)
        for where, needed, predicate in zip(WHERE, case.truth, case.predicates, strict=True):
            assert (prune(predicate, bound).kept == needed).all(), (what, where)


@pytest.mark.parametrize("how", ["directory", "newer"])
def test_a_table_answers_without_the_index_and_warns_once(how: str, tmp_path: Path) -> None:
    for i in range(3):
        pq.write_table(pa.table({"a": [i]}), tmp_path / f"{i}.parquet")
    table = zskip.open(str(tmp_path))
    table.index()
    [manifest] = (tmp_path / INDEX_DIR).glob("manifest-*")
    if how == "newer":
        manifest.write_bytes(manifests.with_format(manifest.read_bytes(), 2))
    else:
        manifest.unlink()
        manifest.mkdir()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert len(table.files("a = 1")) == 3
    assert [w.category for w in caught] == [ZskipWarning]
    if how == "newer":
        assert "update zskip" in str(caught[0].message)
        with pytest.raises(IndexFormatError, match="format 2"):
            table.index()
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZskipWarning)
        table.index()
    assert len(table.files("a = 1")) == 1


def test_many_damaged_segments_are_one_warning(case: Case) -> None:
    files = {name: data if name.startswith("manifest") else data[:-1] + b"?" for name, data in case.files.items()}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        case.kept(files)
    assert len(caught) == 1


def test_only_a_checked_refresh_reads_old_segments(case: Case, storage_class: Any) -> None:
    storage = storage_class(Path(case.storage.root))
    refresh(storage, case.snapshot, check=False)
    unchecked = len(storage.opened)
    refresh(storage, case.snapshot)
    assert len(storage.opened) > 2 * unchecked > 0
    assert store.Index.load(storage) is not None
