"""Whatever happens to the bytes of an index, no query fails and none loses a file; a refresh puts it right."""

from __future__ import annotations

import random
import warnings
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import manifests
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sketch_files
import tiers

from zskip.errors import IndexFormatError, InputError, ZskipWarning
from zskip.index import DamagedIndexError, Index, refresh
from zskip.index import index as store
from zskip.index.store.segment import INDEX_DIR
from zskip.predicate import Columns, parse
from zskip.records import Field
from zskip.storage import FileInfo
from zskip.types import DataType

FIELDS = {"a": "long", "t": "string", "x": "double", "k": "long", "u": "string", "late": "integer"}
WHERE = [
    "a BETWEEN 12 AND 31",
    "t >= 'k00040'",
    "x < 3 OR x IS NULL",
    "late IS NOT NULL",
    "NOT (a <= 29) AND t IS NOT NULL",
    "late IS NULL",
    "a IN (5, 15, 25, 35, 40, 45, 55, 65, 75)",
    "u LIKE '%040%'",
    "k IN (3, 50)",
]
SKETCHES = ["ranges(4):a", "ngram(3):u", "bloom(0.01):k"]
MATCHES: list[Callable[[dict[str, Any]], bool]] = [
    lambda r: 12 <= r["a"] <= 31,
    lambda r: r["t"] is not None and r["t"] >= "k00040",
    lambda r: r["x"] is None or r["x"] < 3,
    lambda r: r.get("late") is not None,
    lambda r: not r["a"] <= 29 and r["t"] is not None,
    lambda r: r.get("late") is None,
    lambda r: r["a"] == 40,
    lambda r: "040" in r["u"],
    lambda r: r["k"] == 3,
]


class MemoryStorage:
    """The files of an index in memory, so that thousands of damages take seconds."""

    kind = "disk"

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

    def open(self, path: str, size: int | None = None) -> Any:
        return pa.BufferReader(self.read(path))


class Case:
    """A table of eight files, its index in three segments, as are its sketches, and the files that predicates need."""

    def __init__(self, root: Path, storage: Any, snap: Callable[..., Any]) -> None:
        for i in range(8):
            table = pa.table({"a": [i * 10, i * 10 + 9], "t": [f"k{i * 10:05d}", None], "x": [i / 2, None]})
            table = table.append_column("k", [[i, 100 - i]]).append_column("u", [[f"k{i * 10:05d}", "zz"]])
            if i >= 5:
                table = table.append_column("late", pa.array([i, None], pa.int32()))
            pq.write_table(table, root / f"{i}.parquet")
            if i in (2, 4, 7):
                self.snapshot = snap(storage, FIELDS)
                sketch_files.sketched(refresh(storage, self.snapshot), root, self.snapshot, SKETCHES)
        self.files = {p.name: p.read_bytes() for p in (root / INDEX_DIR).iterdir()}
        for name in sorted(name for name in self.files if name.startswith("manifest"))[:-1]:
            del self.files[name]  # They only name what the last one names, too.
        self.storage = storage
        rows = [pq.read_table(root / path).to_pylist() for path in self.snapshot.paths]
        columns = Columns([Field(name=name, type=DataType(kind)) for name, kind in FIELDS.items()])
        self.predicates = [parse(text, columns) for text in WHERE]
        self.truth = [np.array([any(map(match, values)) for values in rows]) for match in MATCHES]

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
        return [bound.prune(predicate).kept for predicate in self.predicates]

    def check(self, files: dict[str, bytes], what: object) -> bool:
        """Fail where a damaged index loses a file; whether it still skips as much as the sound one."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ZskipWarning)
            kept = self.kept(files)
        if kept is None:
            return False
        for where, needed, kept_files in zip(WHERE, self.truth, kept, strict=True):
            assert (kept_files | ~needed).all(), (what, where)
        return all((kept_files == needed).all() for kept_files, needed in zip(kept, self.truth, strict=True))


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
    kinds = [name.split("-")[0] for name in case.files]
    assert {kind: kinds.count(kind) for kind in kinds} == {"segment": 3 * 2, "sketch": 3 * 3, "manifest": 1}
    assert case.check(case.files, "nothing")
    without = {name: data for name, data in case.files.items() if not name.startswith("sketch-")}
    assert not case.check(without, "sketches are needed for that")


@pytest.mark.scaled
@pytest.mark.parametrize("seed", tiers.nightly(range(4)))
def test_damaged_bytes_never_lose_a_file(case: Case, seed: int) -> None:
    tries = tiers.count(200, quick=60)
    worse = sum(not case.check(files, what) for what, files in islice(damages(case.files, seed), tries))
    assert worse > tries / 2, "some damage was noticed"


@pytest.mark.slow
@pytest.mark.parametrize("seed", tiers.nightly(range(2)))
def test_damaged_sketches_never_lose_a_file(case: Case, seed: int) -> None:
    sketches = {name: data for name, data in case.files.items() if name.startswith("sketch-")}
    others = {name: data for name, data in case.files.items() if name not in sketches}
    for what, files in islice(damages(sketches, 50 + seed), 120):
        changed = {**others, **files}
        assert changed == case.files or not case.check(changed, what), "all damage is noticed"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ZskipWarning)
            case.kept(resealed(changed))  # Whatever that says, nothing fails.


def resealed(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files with a manifest that tells of the sketches' segments what they are now."""
    name = max(name for name in files if name.startswith("manifest"))
    content = manifests.body(files[name])
    for record in content["sketches"]:
        for segment in record["segments"]:
            data = files.get(f"{segment[0]}.zskip", b"")
            segment[2:] = [len(data), zlib.crc32(data)]
    return {**files, name: manifests.forged(content)}


def test_every_bit_of_a_manifest_counts(case: Case) -> None:
    name = max(name for name in case.files if name.startswith("manifest"))
    for at in range(len(case.files[name])):
        data = bytearray(case.files[name])
        data[at] ^= 1 << at % 8
        assert case.kept({**case.files, name: bytes(data)}) is None, at


ODD = [None, True, -1, 0, 1, 2, 1.5, 2**31, 2**53 + 1, 2**64, 10**400, "", "x", "../../etc/passwd", [], [[]], {}, ["a"]]


@pytest.mark.slow
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
    with pytest.raises(IndexFormatError, match="not the name of a segment"):
        Index.load(MemoryStorage("", {name: manifests.forged(content)}))  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["../../elsewhere", "/etc/passwd", "sketch-../x", "sketch-" + "0" * 31 + "/", None, 7])
def test_names_of_sketches_that_lead_out_of_the_index_are_refused(case: Case, path: object) -> None:
    name = max(name for name in case.files if name.startswith("manifest"))
    content = manifests.body(case.files[name])
    content["sketches"][1]["segments"][0][0] = path
    with pytest.raises(DamagedIndexError, match="none of a sketch's segment"):
        Index.load(MemoryStorage("", {name: manifests.forged(content)}))  # type: ignore[arg-type]


ODD_SKETCHES: list[dict[str, Any]] = [
    {"spec": spec}
    for spec in (
        "",
        ":",
        "a",
        "bloom(0.01):",
        "bloom(1e999):k",
        "ranges(-1):k",
        "ranges(" + "9" * 5000 + "):k",
        "geo:k",
    )
]
ODD_SKETCHES += [{"spec": "values(9):" + "(" * 9000 + "k"}, {"spec": "values(9):no_such_column"}, {"spec": "x(1):k"}]
ODD_SKETCHES += [
    {"timezone": zone, "spec": f"values(9):{of}(a)"} for zone in ("", "/etc/x", "\0") for of in ("hour", "f")
]


@pytest.mark.parametrize("change", ODD_SKETCHES, ids=range(len(ODD_SKETCHES)))
def test_a_sketch_that_is_none_leaves_its_files(case: Case, change: dict[str, Any]) -> None:
    name = max(name for name in case.files if name.startswith("manifest"))
    content = manifests.body(case.files[name])
    content["sketches"][2] |= change
    assert not case.check({**case.files, name: manifests.forged(content)}, change)


def other_states(states: pa.Table, how: str) -> pa.Table:
    """The states of a segment as no zskip would write them."""
    nulls = {name: pa.nulls(len(states), states.schema.field(name).type) for name in states.column_names}
    changes = {
        "no paths": {"path": nulls["path"]},
        "no sizes": {"size": nulls["size"]},
        "no times": {"mtime_ms": nulls["mtime_ms"]},
        "no states": {"state": nulls["state"]},
        "not sealed": {"state": pa.array([b"\x80\x04cos\nsystem\n"] * len(states), pa.binary())},
        "empty": {"state": pa.array([b""] * len(states), pa.binary())},
        "cut": {"state": pa.array([state and state[:-1] for state in states["state"].to_pylist()], pa.binary())},
        "outside": {"path": pa.array([f"../../{path}" for path in states["path"].to_pylist()])},
    }
    columns = {name: states[name] for name in states.column_names} | changes.get(how, {})
    changed = pa.table(columns)
    return (
        changed.slice(0, 0) if how == "no rows" else changed.drop_columns(["reason"]) if how == "columns" else changed
    )


@pytest.mark.parametrize(
    "how",
    ["no paths", "no sizes", "no times", "no states", "not sealed", "empty", "cut", "outside", "no rows", "columns"],
)
def test_states_that_no_zskip_wrote_leave_their_files(case: Case, how: str) -> None:
    changed = dict(case.files)
    for name in case.files:
        if name.startswith("sketch-"):
            sink = pa.BufferOutputStream()
            pq.write_table(other_states(pq.read_table(pa.BufferReader(case.files[name])), how), sink)
            changed[name] = sink.getvalue().to_pybytes()
    assert not case.check(resealed(changed), how)


def test_states_of_another_sketch_leave_their_files(case: Case) -> None:
    name = max(name for name in case.files if name.startswith("manifest"))
    content = manifests.body(case.files[name])
    first, second, third = (record["segments"] for record in content["sketches"])
    for record, segments in zip(content["sketches"], (second, third, first), strict=True):
        record["segments"] = segments
    assert not case.check({**case.files, name: manifests.forged(content)}, "exchanged")


@pytest.mark.scaled
@pytest.mark.parametrize("seed", tiers.nightly(range(3)))
def test_a_refresh_mends_whatever_happened(case: Case, seed: int, storage_class: Any, tmp_path: Path) -> None:
    storage = storage_class(Path(case.storage.root))
    home = storage_class(tmp_path)
    directory = tmp_path / INDEX_DIR
    directory.mkdir(parents=True)
    for what, files in islice(damages(case.files, 100 + seed), tiers.count(40, quick=15)):
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
                index = sketch_files.sketched(index, storage.root, case.snapshot, SKETCHES)
            except InputError:
                continue  # a manifest under another's name, which is of no table
        bound = index.bind(case.snapshot)
        for where, needed, predicate in zip(WHERE, case.truth, case.predicates, strict=True):
            assert (bound.prune(predicate).kept == needed).all(), (what, where)


def test_only_a_checked_refresh_reads_old_segments(case: Case, storage_class: Any) -> None:
    storage = storage_class(Path(case.storage.root))
    refresh(storage, case.snapshot, check=False)
    unchecked = len(storage.opened)
    refresh(storage, case.snapshot)
    assert len(storage.opened) > 2 * unchecked > 0
    assert store.Index.load(storage) is not None
