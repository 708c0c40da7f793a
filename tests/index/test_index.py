"""Refresh, bind, and what happens when files, schemas or the index itself change under it."""

from __future__ import annotations

import dataclasses
import gc
import os
import shutil
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiers
from hypothesis import given
from hypothesis import strategies as st

from zskip.errors import IndexFormatError, StorageError, ZskipWarning
from zskip.index import Index, bind_without_index, refresh
from zskip.index.resolve import Absent, readable_as, resolve
from zskip.index.store import bound_segments, compact
from zskip.index.store.cache import ByteCache
from zskip.index.store.leaves import Column, ColumnList
from zskip.index.store.manifest import Manifest
from zskip.index.store.segment import INDEX_DIR, Block, Segment
from zskip.records import ALL_NULL, Field, Partition, Snapshot
from zskip.types import DataType

FIELDS = {"a": "long", "t": "string", "x": "double"}


def write(root: Path | str, name: str, low: int, **more: object) -> None:
    table = pa.table({"a": [low, low + 9], "t": [f"k{low:05d}", None], "x": [low / 2, low + 0.5], **more})
    path = Path(root) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


def lows(bound, name="a"):
    stats = bound.column((name,))
    known = zip(bound.snapshot.paths, stats.bounded, stats.lower, strict=True)
    return {path: low if bounded else None for path, bounded, low in known}


def index_files(root: Path) -> list[str]:
    return sorted(p.name for p in (root / INDEX_DIR).iterdir())


def test_no_index_is_none(storage):
    assert Index.load(storage) is None


def test_only_new_and_changed_files_are_read(storage, snap, tmp_path, indexed):
    for i in range(4):
        write(tmp_path, f"{i}.parquet", i * 10)
    assert lows(indexed(storage, FIELDS)) == {f"{i}.parquet": i * 10 for i in range(4)}
    storage.opened.clear()
    again = indexed(storage, FIELDS)
    assert (again.coverage, again.info().version) == (4, 1)
    assert not [path for path in storage.opened if not path.startswith("_zskip")]
    (tmp_path / "0.parquet").unlink()
    write(tmp_path, "1.parquet", 1000)
    os.utime(tmp_path / "1.parquet", (1, 1))
    os.utime(tmp_path / "2.parquet", (2, 2))
    write(tmp_path, "9.parquet", 90)
    stale = Index.load(storage).bind(snap(storage, FIELDS))
    assert lows(stale) == {"1.parquet": None, "2.parquet": None, "3.parquet": 30, "9.parquet": None}
    assert stale.rows.tolist() == [-1, -1, 2, -1]
    assert (stale.info().files, stale.info().files_total) == (1, 4)
    storage.opened.clear()
    fresh = indexed(storage, FIELDS)
    assert lows(fresh) == {"1.parquet": 1000, "2.parquet": 20, "3.parquet": 30, "9.parquet": 90}
    read = sorted(p for p in storage.opened if not p.startswith("_zskip"))
    assert read == ["1.parquet", "2.parquet", "9.parquet"]


def test_a_file_of_another_size_or_time_is_not_believed(storage, snap, tmp_path, indexed):
    write(tmp_path, "0.parquet", 0)
    snapshot = indexed(storage, FIELDS).snapshot
    index = Index.load(storage)
    for change in ({"sizes": snapshot.sizes + 1}, {"mtimes_ms": snapshot.mtimes_ms + 1}, {"paths": ("other",)}):
        parts = {name: getattr(snapshot, name) for name in Snapshot.__slots__} | change
        bound = index.bind(Snapshot(**parts))
        assert bound.coverage == 0
        assert bound.column(("a",)) is None


def test_full_reads_everything_again(storage, tmp_path, indexed):
    write(tmp_path, "0.parquet", 0)
    before = indexed(storage, FIELDS)
    storage.opened.clear()
    after = indexed(storage, FIELDS, full=True)
    assert "0.parquet" in storage.opened
    assert after.info().version == before.info().version + 1
    assert len(Index.load(storage).manifest.segments) == 1


def test_only_the_asked_column_is_read(storage, tmp_path, indexed, monkeypatch):
    monkeypatch.setattr("zskip.index.store.segment.BLOCK_ROWS", 2)
    monkeypatch.setattr("zskip.index.store.manifest.BLOCK_ROWS", 2)
    for i in range(5):
        write(tmp_path, f"{i}.parquet", i)
    snapshot = indexed(storage, FIELDS).snapshot
    assert len(Index.load(storage).manifest.segments[0].blocks) == 8
    bound = Index.load(storage).bind(snapshot)
    storage.opened.clear()
    assert list(lows(bound, "t").values()) == [b"k%05d" % i for i in range(5)]
    assert list(lows(bound, "x").values()) == [i / 2 for i in range(5)]
    opened = len(storage.opened)
    bound.column(("x",))
    assert len(storage.opened) == opened


def test_many_refreshes_are_merged(storage, tmp_path, indexed):
    for i in range(30):
        write(tmp_path, f"{i:02d}.parquet", i, **({"new": [i, i]} if i % 3 else {}))
        if i % 10 == 9:
            (tmp_path / f"{i - 5:02d}.parquet").unlink()
        bound = indexed(storage, {**FIELDS, "new": "long"})
        assert len(Index.load(storage).manifest.segments) <= compact.MAX_SEGMENTS + 1
        assert bound.coverage == len(bound.snapshot)
    assert lows(bound) == {path: int(path[:2]) for path in bound.snapshot.paths}
    new = bound.column(("new",))
    for i, path in enumerate(bound.snapshot.paths):
        number = int(path[:2])
        assert (new.bounded[i], new.nulls[i]) == ((True, 0) if number % 3 else (False, 2))
        assert not number % 3 or new.lower[i] == number


def test_mostly_dead_segments_are_rewritten(storage, tmp_path, indexed):
    for i in range(10):
        write(tmp_path, f"{i}.parquet", i)
    indexed(storage, FIELDS)
    for i in range(8):
        (tmp_path / f"{i}.parquet").unlink()
    assert lows(indexed(storage, FIELDS)) == {"8.parquet": 8, "9.parquet": 9}
    assert [s.files for s in Index.load(storage).manifest.segments] == [2]


def test_segments_are_closed_when_full(storage, tmp_path, indexed, monkeypatch):
    monkeypatch.setattr("zskip.index.collect.parallel_footers.MAX_ENTRIES", 10)
    monkeypatch.setattr("zskip.index.collect.parallel_footers._BATCH", 3)
    for i in range(12):
        write(tmp_path, f"{i:02d}.parquet", i)
    bound = indexed(storage, FIELDS)
    assert len(Index.load(storage).manifest.segments) == 2
    assert list(lows(bound).values()) == list(range(12))


def test_progress_counts_to_the_end(storage, snap, tmp_path):
    for i in range(5):
        write(tmp_path, f"{i}.parquet", i)
    calls = []
    refresh(storage, snap(storage, FIELDS), progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (5, 5)


def test_an_empty_table_has_an_index(storage, snap):
    bound = refresh(storage, snap(storage, FIELDS)).bind(snap(storage, FIELDS))
    assert (bound.coverage, bound.column(("a",)), len(bound.rows)) == (0, None, 0)


def test_a_file_whose_name_is_not_utf8_is_left_unknown(storage, snap, tmp_path):
    write(tmp_path, "good.parquet", 1)
    shutil.copy(tmp_path / "good.parquet", os.fsencode(tmp_path) + b"/bad-\xff.parquet")
    snapshot = snap(storage, FIELDS)
    with pytest.warns(ZskipWarning, match="not UTF-8"):
        bound = refresh(storage, snapshot).bind(snapshot)
    assert sorted(map(str, lows(bound).values())) == ["1", "None"]


@tiers.examples(200, quick=50)
@given(
    live=st.sets(st.integers(0, 3000), max_size=400),
    listed=st.lists(st.integers(0, 3000), max_size=400),
    run=st.integers(0, 3000),
    patience=st.sampled_from([1, 500]),
)
def test_places_are_those_of_a_dictionary(live, listed, run, patience):
    names = sorted(f"p{x:05d}" for x in {*live, *range(run, run + 700)})
    paths = [f"p{x:05d}" for x in [*listed[::2], *range(run - 5, run + 900), *listed[1::2]]]
    places = {name: i for i, name in enumerate(names)}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bound_segments, "_FILES_PER_RUN", patience)
        result = bound_segments.find_positions(pa.array(paths), pa.array(names, pa.string()), names)
    assert result.tolist() == [places.get(name, -1) for name in paths]


def test_the_version_that_brought_a_file_is_kept(storage, snap, tmp_path):
    for i in range(12):
        write(tmp_path, f"{i:02d}.parquet", i)
        index = refresh(storage, snap(storage, FIELDS, version=i + 5))
    assert len(index.manifest.segments) < 12
    assert index.manifest.table_version == 16
    (tmp_path / "03.parquet").unlink()
    bound = index.bind(snap(storage, FIELDS))
    assert bound.versions().tolist() == [5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16]
    write(tmp_path, "99.parquet", 1)
    assert index.bind(snap(storage, FIELDS)).versions()[-1] == -1


@pytest.mark.parametrize(("limit", "kept"), [(1, 1), (10**6, 3)])
def test_the_cache_is_bounded_by_bytes(limit, kept, storage, tmp_path, indexed, monkeypatch):
    monkeypatch.setattr("zskip.index.store.cache.MEMORY", ByteCache(limit))
    write(tmp_path, "0.parquet", 7)
    bound = indexed(storage, FIELDS)
    columns = [bound.column((name,)) for name in FIELDS]
    storage.opened.clear()
    again = [bound.column((name,)) for name in reversed(FIELDS)]
    assert sum(a is b for a, b in zip(columns, reversed(again), strict=True)) == kept
    assert len(storage.opened) == 3 - kept
    assert [stats.lower[0] for stats in again] == [3.5, b"k00007", 7]


def test_all_indexes_of_a_process_share_one_limit(storage, tmp_path, indexed, monkeypatch):
    write(tmp_path, "0.parquet", 7)
    memory = ByteCache(10**6)
    monkeypatch.setattr("zskip.index.store.cache.MEMORY", memory)
    first, second = indexed(storage, FIELDS), indexed(storage, FIELDS)
    columns = [first.column((name,)) for name in FIELDS]
    first_owner = {owner for owner, _ in memory.entries}
    size = memory.bytes
    memory.limit = size + 1
    second.column((next(iter(FIELDS)),))
    assert memory.bytes <= size + 1
    assert {owner for owner, _ in memory.entries} > first_owner, "the latest stays"
    assert first.column((list(FIELDS)[-1],)) is columns[-1], "what was used last stays longest"
    del second
    gc.collect()
    assert {owner for owner, _ in memory.entries} == first_owner, "what an index has read goes with it"


# Schemas


def test_columns_that_come_and_go_and_change_type(storage, tmp_path, indexed):
    pq.write_table(pa.table({"a": pa.array([1, 2], pa.int32())}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"a": pa.array([3, 4], pa.int64()), "b": [1.5, None]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": ["x", "y"], "b": pa.array([2.5, 3.5], pa.float32())}), tmp_path / "2.parquet")
    pq.write_table(pa.table({"a": [{"k": 1}, None]}), tmp_path / "3.parquet")
    bound = indexed(storage, {"a": "long", "b": "double"})
    a, b = bound.column(("a",)), bound.column(("b",))
    assert a.bounded.tolist() == [True, True, False, False]
    assert a.lower[:2].tolist() == [1, 3]
    assert a.nulls.tolist() == [0, 0, -1, -1]
    assert b.bounded.tolist() == [False, True, True, False]
    assert b.nulls.tolist() == [2, 1, 0, 2]
    assert b.may_nan.tolist() == [False, True, True, False]
    narrow = indexed(storage, {"a": "integer"}).column(("a",))
    assert narrow.bounded.tolist() == [True, False, False, False]


def test_a_missing_column_is_null_only_when_every_file_is_known(storage, snap, tmp_path, indexed):
    write(tmp_path, "0.parquet", 0)
    write(tmp_path, "1.parquet", 1, new=[1, 2])
    fields = {**FIELDS, "new": "long"}
    assert indexed(storage, fields).column(("new",)).nulls.tolist() == [2, 0]
    write(tmp_path, "2.parquet", 2, new=[1, 2])
    assert Index.load(storage).bind(snap(storage, fields)).column(("new",)).nulls.tolist() == [-1, 0, -1]


def test_case_of_names(storage, tmp_path, indexed):
    pq.write_table(pa.table({"A": [1, 2]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"a": [3, 4]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": [5, 6], "A": [7, 8]}), tmp_path / "2.parquet")
    loose = indexed(storage, {"a": "long"})
    assert loose.column(("A",)).bounded.tolist() == [True, True, False]
    assert loose.column(("a",)).nulls.tolist() == [0, 0, -1]
    strict = indexed(storage, {"a": "long"}, case_sensitive=True)
    assert strict.column(("a",)).bounded.tolist() == [False, True, True]
    assert strict.column(("a",)).nulls.tolist() == [2, 0, 0]
    assert strict.column(("A",)) is None


def test_ambiguous_columns_of_the_table_are_unknown(storage, tmp_path, indexed):
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "0.parquet")
    assert indexed(storage, {"a": "long", "A": "long"}).column(("a",)) is None


def test_fields_of_structs(storage, tmp_path, indexed):
    pq.write_table(pa.table({"s": [{"x": 1, "y.z": "p"}, None]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"s": [{"x": None, "w": 2}, {"x": 4, "w": None}], "s.x": [70, 80]}), tmp_path / "1.parquet")
    bound = indexed(storage, {"s": "struct<x:long>", "s.x": "long"})
    x = bound.column(("s", "x"))
    assert (x.lower.tolist(), x.upper.tolist(), x.nulls.tolist()) == ([1, 4], [1, 4], [1, 1])
    assert bound.column(("s", "y.z")).nulls.tolist() == [1, 2]
    assert bound.column(("s.x",)).lower[1] == 70
    assert bound.column(("s",)) is None
    assert bound.column(("nothing",)) is None


def test_resolution_never_takes_a_relative_for_the_column():
    columns = [Column(("s", "x"), "long"), Column(("l",), None)]
    assert resolve(("s",), None, columns, case_sensitive=True) is Absent.UNKNOWN
    assert resolve(("s", "x", "deep"), None, columns, case_sensitive=True) is Absent.UNKNOWN
    assert resolve(("l", "x"), None, columns, case_sensitive=True) is Absent.UNKNOWN
    assert resolve(("s", "y"), None, columns, case_sensitive=True) is Absent.MISSING


@pytest.mark.parametrize(
    ("held", "wanted", "readable"),
    [
        ("byte", "long", True), ("long", "integer", False), ("float", "double", True), ("double", "float", False),
        ("string", "binary", True), ("date", "timestamp", False), ("timestamp", "timestamp_ntz", False),
        ("integer", "double", True), ("long", "double", False), ("integer", "float", False),
        ("decimal(9,2)", "decimal(18,2)", True), ("decimal(18,2)", "decimal(9,2)", False),
        ("decimal(9,2)", "decimal(38,2)", True), ("decimal(20,2)", "decimal(38,2)", True), ("integer", "date", False),
        ("decimal(9,2)", "decimal(10,3)", True), ("decimal(9,2)", "decimal(9,3)", False),
        (None, "long", False), ("boolean", "byte", False),
        ("date", "timestamp_ntz", True), ("integer", "decimal(10,0)", True), ("integer", "decimal(10,1)", False),
        ("long", "decimal(19,0)", True), ("long", "decimal(18,0)", False), ("string", "char(5)", True),
        ("integer", "interval year to month", True), ("long", "interval year", False), ("long", "interval day", True),
    ],
)  # fmt: skip
def test_types_that_read_as_each_other(held, wanted, readable):
    assert readable_as(held, DataType(wanted)) is readable


# Partitions


def test_partition_columns_are_exact_without_an_index():
    snapshot = Snapshot(
        root="/t",
        version=0,
        fields=(Field(name="a", type=DataType("long")),),
        partition_fields=(
            Field(name="Dt", type=DataType("string")),
            Field(name="n", type=DataType("double")),
        ),
        partitions=(
            Partition(directory="1", values=(b"x", 1.0)),
            Partition(directory="2", values=(None, float("nan"))),
        ),
        paths=("1/a", "1/b", "2/a"),
        sizes=np.array([1, 1, 1]),
        mtimes_ms=np.array([1, 1, 1]),
        partition_of=np.array([0, 0, 1], np.int32),
    )
    bound = bind_without_index(snapshot)
    day, number = bound.column(("dt",)), bound.column(("n",))
    assert day.lower.tolist()[:2] == day.upper.tolist()[:2] == [b"x", b"x"]
    assert (day.bounded.tolist(), day.nulls.tolist()) == ([True, True, False], [0, 0, ALL_NULL])
    assert (number.bounded.tolist(), number.nulls.tolist()) == ([True, True, False], [0, 0, 0])
    assert number.may_nan.tolist() == [False, False, True]
    assert bound.column(("a",)) is None
    assert bound.rows.tolist() == [-1, -1, -1]
    assert bound.info().files == 0


# Damage


def test_a_damaged_manifest_is_refused_and_mended(storage, snap, tmp_path, indexed):
    write(tmp_path, "0.parquet", 7)
    indexed(storage, FIELDS)
    [name] = [n for n in index_files(tmp_path) if n.startswith("manifest")]
    (tmp_path / INDEX_DIR / name).write_bytes(b'{"format": 1, "crc": 3}')
    with pytest.raises(IndexFormatError, match="damaged"):
        Index.load(storage)
    with pytest.warns(ZskipWarning, match="building it anew"):
        refresh(storage, snap(storage, FIELDS))
    assert lows(Index.load(storage).bind(snap(storage, FIELDS))) == {"0.parquet": 7}


def test_manifests_round_trip():
    segment = Segment(
        name="segment-" + "0" * 32,
        files=2,
        entries=3,
        columns=ColumnList.of([Column(("a",), "long"), Column(("s", "b.c"), "string"), Column(("l",), None)]),
        schemas=((0, 1), (0, 1, 2)),
        defaults=("a",),
        starts=(0, 2, 3, 3),
        blocks=(Block(4, 5, 6),),
        footer=Block(9, 10, 11),
        listing=Block(0, 12, 13),
    )
    manifest = Manifest(version=3, table_version=9, zskip="0.1.0", segments=(segment,))
    assert Manifest.from_bytes(manifest.to_bytes(), "m") == manifest


def test_what_no_reader_needs_is_removed_only_hours_later(storage, snap, tmp_path, indexed):
    write(tmp_path, "0.parquet", 0)
    old = indexed(storage, FIELDS)
    first = set(index_files(tmp_path))
    indexed(storage, FIELDS, full=True)
    (tmp_path / INDEX_DIR / ".segment-unfinished.tmp").write_bytes(b"")
    assert first < set(index_files(tmp_path))
    assert lows(old) == {"0.parquet": 0}
    for path in (tmp_path / INDEX_DIR).iterdir():
        os.utime(path, (1, 1))
    kept = set(index_files(tmp_path)) - first - {".segment-unfinished.tmp"}
    write(tmp_path, "1.parquet", 10)
    indexed(storage, FIELDS)
    now = set(index_files(tmp_path))
    assert not (first | {".segment-unfinished.tmp"}) & now
    assert kept < now


def test_a_disk_that_refuses_leaves_the_old_index(storage, storage_class, snap, tmp_path, indexed):
    write(tmp_path, "0.parquet", 0)
    indexed(storage, FIELDS)
    before = index_files(tmp_path)
    write(tmp_path, "1.parquet", 10)

    class Full(storage_class):
        def write(self, path, data, *, overwrite=False):
            raise StorageError("no space left")

    with pytest.raises(StorageError, match="no space"):
        refresh(Full(tmp_path), snap(storage, FIELDS))
    assert index_files(tmp_path) == before


def test_threads_wait_for_nobody_who_reads_another_column(storage, tmp_path, indexed, monkeypatch):
    write(tmp_path, "0.parquet", 5)
    bound = indexed(storage, FIELDS)
    begun, go = threading.Event(), threading.Event()
    read, paths = bound._column, []

    def slow(path):
        paths.append(path)
        if path == ("a",):
            begun.set()
            assert go.wait(60)
        return read(path)

    monkeypatch.setattr(bound, "_column", slow)
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(lows, bound, "a") for _ in range(2)]
        assert begun.wait(60)
        try:
            assert pool.submit(lows, bound, "x").result(60) == {"0.parquet": 2.5}
            assert not any(each.done() for each in waiting)
        finally:
            go.set()
        assert [each.result(60) for each in waiting] == [{"0.parquet": 5}] * 2
    assert sorted(paths) == [("a",), ("x",)], "each is read once"


@pytest.mark.parametrize(
    ("name", "kind", "identity", "age", "waits"),
    [
        ("a.parquet", "objects", 5, 0.5, True),
        ("a.parquet", "cluster", 0, 0.5, True),
        ("a.parquet", "disk", 0, 0.5, True),
        ("a.parquet", "disk", 5, 0.5, False),
        ("a.parquet", "objects", 5, 3, False),
        ("part-00000-1b7b1f5c-7a0e-4c56-9d5c-0d6a3c8a9e10-c000.parquet", "objects", 5, 0.5, False),
    ],
)
def test_files_just_written_are_waited_for(storage, snap, tmp_path, monkeypatch, name, kind, identity, age, waits):
    """One that is written after its footer is read must not have the same time."""
    write(tmp_path, name, 7)
    os.utime(tmp_path / name, (time.time() - age,) * 2)
    snapshot = dataclasses.replace(snap(storage, FIELDS), identities=np.array([identity]))
    slept = []
    monkeypatch.setattr(storage, "kind", kind)
    # Only this module's: threads of other tests sleep, too.
    clock = types.SimpleNamespace(time=time.time, sleep=slept.append)
    monkeypatch.setattr("zskip.index.collect.parallel_footers.time", clock)
    for _ in range(2):
        assert lows(refresh(storage, snapshot).bind(snapshot)) == {name: 7}
    assert [0 < seconds <= 2 for seconds in slept] == [True] * waits
    log_names_files_once = dataclasses.replace(snapshot, identities=None)
    refresh(storage, log_names_files_once, full=True)
    assert len(slept) == waits
