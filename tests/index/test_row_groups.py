"""Entries for row groups: reading only those that the index names gives what reading all gives."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import decimal
import json
import os
import pickle
import random
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import arrow_tables
import fuzz
import manifests
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import random_tables
import tables
import tiers

import zskip
from zskip.errors import InputError, ZskipWarning
from zskip.index import BoundIndex, Index, prune_row_groups, refresh
from zskip.index import index as store
from zskip.index.store import compact
from zskip.index.store.manifest import Manifest, list_manifests, manifest_path
from zskip.index.store.segment import INDEX_DIR
from zskip.predicate import Column, Columns, Compare, Constant, parse, to_sql
from zskip.records import ColumnStats, Known
from zskip.table.index_binding import bind_index, bind_metadata
from zskip.table.version import read_snapshot
from zskip.types import DataType

ROWS = 60
"""Rows of a row group of `events`."""


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """Three files of twenty row groups, in the order of `id`."""
    table = tables.events(3600).sort_by("id")
    (tmp_path / "t").mkdir()
    for i in range(3):
        pq.write_table(table.slice(1200 * i, 1200), tmp_path / "t" / f"{i}.parquet", row_group_size=ROWS)
    return tmp_path / "t"


def opened(path: Path) -> zskip.Table:
    return zskip.open(str(path))


def groups_of(path: Path, where: Any) -> dict[str, tuple[int, ...] | None]:
    return {Path(file).name: file.row_groups for file in opened(path).files(where)}


def segments_of(path: Path) -> tuple[list[str], list[str] | None]:
    """The names of the segments of files, and of row groups."""
    index = Index.load(opened(path)._handle.storage)
    assert index is not None
    parts = index.manifest.row_group_segments
    return [s.name for s in index.manifest.segments], None if parts is None else [s.name for s in parts]


def write(path: Path, low: int, groups: int = 3, **more: Any) -> None:
    """A file with one row group for each ten numbers from `low` on."""
    pq.write_table(pa.table({"a": range(low, low + 10 * groups), **more}), path, row_group_size=10)


# Nothing is lost


@pytest.mark.scaled
def test_random_tables_lose_no_row(tmp_path: Path, storage_class: Any, snap: Callable[..., Any]) -> None:
    done, skipped = 0, 0
    for seed in range(tiers.count(60, quick=15)):
        rng = random.Random(seed)
        table = random_tables.table(rng)
        root = tmp_path / str(seed)
        root.mkdir()
        for i, rows in enumerate(table.files):
            content = arrow_tables.table_of(table.columns, rows)
            pq.write_table(content, root / f"{i}.parquet", row_group_size=rng.randint(1, 3))
        snapshot = snap(storage_class(root), {c.path[0]: c.type.name for c in table.columns})
        bound = refresh(storage_class(root), snapshot, row_groups=True).bind(snapshot)
        for _ in range(20):
            predicate = random_tables.predicate(rng, table)
            kept = bound.prune(predicate).kept
            row_groups = prune_row_groups(bound, predicate, kept)
            assert row_groups is not None
            assert set(row_groups.by_file) == set(np.flatnonzero(kept).tolist()), "all are known"
            for i, rows in enumerate(table.files):
                matching = {number for number, row in enumerate(rows) if True in fuzz.possible(predicate, row)}
                metadata = pq.read_metadata(root / f"{i}.parquet")
                at = 0
                for group in range(metadata.num_row_groups):
                    count = metadata.row_group(group).num_rows
                    needed = bool(matching & set(range(at, at + count)))
                    read = group in row_groups.by_file.get(i, ())
                    assert read or not needed, (seed, to_sql(predicate), i, group)
                    done, skipped, at = done + 1, skipped + (not read), at + count
    assert skipped > 0.3 * done, "hardly any row group was skipped: the test says nothing"


def expressions(seed: int) -> Iterator[pc.Expression]:
    """Random filters on `events`."""
    rng = random.Random(seed)
    day, at = dt.date(2024, 1, 1), dt.datetime(2023, 11, 14, tzinfo=dt.timezone.utc)

    def leaf() -> pc.Expression:
        low = rng.randrange(3600)
        return rng.choice(
            [
                (pc.field("id") >= low) & (pc.field("id") < low + rng.randrange(200)),
                pc.field("user") == rng.randrange(500),
                pc.field("user").is_null(),
                pc.field("day") < day + dt.timedelta(days=rng.randrange(40)),
                pc.field("at") > at + dt.timedelta(days=rng.randrange(110, 118)),
                pc.field("score") > rng.uniform(1, 4),
                pc.field("score").is_nan(),
                pc.field("name").isin([f"name-{rng.randrange(3000):04d}" for _ in range(3)]),
                pc.field("price") > pa.scalar(decimal.Decimal("9990.00"), pa.decimal128(12, 2)),
                ~pc.field("flag"),
            ]
        )

    while True:
        kind = rng.random()
        yield leaf() if kind < 0.3 else leaf() & leaf() if kind < 0.6 else leaf() | leaf() if kind < 0.8 else ~leaf()


def test_reading_the_named_row_groups_is_reading_all(events: Path) -> None:
    opened(events).index(granularity="row_group")
    whole = pa.concat_tables(pq.read_table(file) for file in tables.visible(events))
    table, read = opened(events), 0
    for where, _ in zip(expressions(1), range(80), strict=False):
        parts = [pq.ParquetFile(file).read_row_groups(list(file.row_groups)) for file in table.files(where)]
        some = pa.concat_tables([*parts, whole.slice(0, 0)]).filter(where)
        assert sorted(some["id"].to_pylist()) == sorted(whole.filter(where)["id"].to_pylist()), where
        report = table.prune(where)
        assert report.row_groups == sum(part.num_rows for part in parts) // ROWS
        assert report.row_groups_total == 60
        read += report.row_groups
    assert read < 0.8 * 60 * 80
    one = table.files(pc.field("id") == 1234)
    assert [(Path(file).name, file.row_groups) for file in one] == [("1.parquet", (0,))]


def test_partitions_fields_of_structs_and_missing_columns(tmp_path: Path) -> None:
    for k in range(2):
        (tmp_path / f"k={k}").mkdir()
        structs = [{"x": k * 100 + i} for i in range(30)]
        write(tmp_path / f"k={k}" / "a.parquet", 0, s=structs, late=[*range(10), *[None] * 20])
        write(tmp_path / f"k={k}" / "b.parquet", 0)
    opened(tmp_path).index(granularity="row_group")

    def kept(where: str) -> list[tuple[str, tuple[int, ...] | None]]:
        return [("/".join(Path(f).parts[-2:]), f.row_groups) for f in opened(tmp_path).files(where)]

    assert kept("k = 1 AND a = 15") == [("k=1/a.parquet", (1,)), ("k=1/b.parquet", (1,))]
    handle = opened(tmp_path)._handle
    bound = bind_index(handle, read_snapshot(handle))
    inside = Compare("=", Column(("s", "x"), DataType("long")), 125)
    row_groups = prune_row_groups(bound, inside, bound.prune(inside).kept)
    assert row_groups is not None
    assert {bound.snapshot.paths[i]: numbers for i, numbers in row_groups.by_file.items()} == {"k=1/a.parquet": (2,)}
    assert kept("late IS NOT NULL") == [("k=0/a.parquet", (0,)), ("k=1/a.parquet", (0,))]
    assert kept("k = 0 AND late IS NULL") == [("k=0/a.parquet", (1, 2)), ("k=0/b.parquet", (0, 1, 2))]
    assert kept("k = 0 OR a = 15")[2:] == [("k=1/a.parquet", (1,)), ("k=1/b.parquet", (1,))]


def test_a_column_with_a_default_is_not_null_where_it_is_missing(tmp_path: Path) -> None:
    """Also where only a file without any row declares it."""
    field = {"name": "late", "type": "long", "nullable": True, "metadata": {"EXISTS_DEFAULT": "5"}}
    declared = {b"org.apache.spark.sql.parquet.row.metadata": json.dumps({"type": "struct", "fields": [field]})}
    empty = pa.table({"a": pa.array([], pa.int64()), "late": pa.array([], pa.int64())})
    pq.write_table(empty.replace_schema_metadata(declared), tmp_path / "empty.parquet")
    write(tmp_path / "old.parquet", 0)
    write(tmp_path / "new.parquet", 0, late=[*range(10), *[None] * 20])
    opened(tmp_path).index(granularity="row_group")
    assert groups_of(tmp_path, "late = 5") == {"new.parquet": (0,), "old.parquet": (0, 1, 2)}
    opened(tmp_path).index()
    assert groups_of(tmp_path, "late IS NOT NULL") == {"new.parquet": (0,), "old.parquet": (0, 1, 2)}


def test_a_file_of_which_no_row_group_matches_is_left_out(tmp_path: Path) -> None:
    for i in range(2):
        pq.write_table(pa.table({"a": [0, 1, 8, 9]}), tmp_path / f"{i}.parquet", row_group_size=2)
    opened(tmp_path).index()
    assert len(opened(tmp_path).files("a = 5")) == 2
    opened(tmp_path).index(granularity="row_group")
    assert opened(tmp_path).files("a = 5") == []
    report = opened(tmp_path).prune("a = 5")
    assert (report.files, report.bytes, report.rows, report.row_groups, report.row_groups_total) == (0, 0, 0, 0, 4)


def test_the_example_of_the_page_reads_few_row_groups(events: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "engines.md").read_text()
    code = page.split("## Row groups")[1].split("```python\n")[1].split("```")[0]
    names: dict[str, Any] = {}
    exec(compile(code.replace('"events"', repr(str(events))), "engines.md", "exec", dont_inherit=True), names)
    assert capsys.readouterr().out == "20 1 row groups\n"
    assert sorted(names["rows"].to_table()["id"].to_pylist()) == list(range(700, 720))
    assert [[group.id for group in part.row_groups] for part in names["fragments"]] == [[11]]


# Unknown


def test_without_row_groups_in_the_index_files_are_read_whole(events: Path) -> None:
    with pytest.warns(ZskipWarning, match="no index"):
        assert groups_of(events, "id = 5") == dict.fromkeys(["0.parquet", "1.parquet", "2.parquet"])
    opened(events).index()
    assert groups_of(events, "id = 5") == {"0.parquet": None}
    report = opened(events).prune("id = 5")
    assert (report.row_groups, report.row_groups_total) == (None, None)


def test_a_new_or_touched_file_is_read_whole_until_a_refresh(tmp_path: Path) -> None:
    write(tmp_path / "0.parquet", 0)
    write(tmp_path / "1.parquet", 0)
    opened(tmp_path).index(granularity="row_group")
    write(tmp_path / "2.parquet", 0)
    os.utime(tmp_path / "1.parquet", (1, 1))
    with pytest.warns(ZskipWarning, match="knows nothing of 2"):
        assert groups_of(tmp_path, "a = 5") == {"0.parquet": (0,), "1.parquet": None, "2.parquet": None}
    with pytest.warns(ZskipWarning):
        report = opened(tmp_path).prune("a = 5")
    assert (report.row_groups, report.row_groups_total) == (None, None)
    opened(tmp_path).index()
    assert groups_of(tmp_path, "a = 5") == {f"{i}.parquet": (0,) for i in range(3)}


@pytest.mark.parametrize("change", ["one less", "twice", "a gap", "other rows"])
def test_row_groups_that_do_not_make_up_their_file_are_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    write(tmp_path / "0.parquet", 0)
    write(tmp_path / "1.parquet", 100)
    opened(tmp_path).index(granularity="row_group")
    assert groups_of(tmp_path, "a IN (5, 105)") == {"0.parquet": (0,), "1.parquet": (0,)}
    bind = store.SegmentReader.listing

    def forged(reader: Any, **options: Any) -> Any:
        bound = bind(reader, **options)
        if bound.row_groups is not None:
            numbers, rows = bound.row_groups.copy(), bound.rows.copy()
            if change == "one less":
                rows[2] = -1
            elif change == "twice":
                numbers[2] = 0
            elif change == "a gap":
                numbers[:3] = [0, 0, 3]
            else:
                rows[0] = 11
            object.__setattr__(bound, "row_groups", numbers)
            object.__setattr__(bound, "rows", rows)
        return bound

    monkeypatch.setattr(store.SegmentReader, "listing", forged)
    assert groups_of(tmp_path, "a IN (5, 105)") == {"0.parquet": None, "1.parquet": (0,)}
    report = opened(tmp_path).prune("a IN (5, 105)")
    assert (report.row_groups, report.row_groups_total) == (None, None)


# Refresh


def read_by(storage: Any, snapshot: Any, **options: Any) -> list[str]:
    storage.opened.clear()
    refresh(storage, snapshot, **options)
    return sorted(path for path in storage.opened if not path.startswith("_zskip"))


def test_only_new_files_are_read_and_once(tmp_path: Path, storage: Any, snap: Callable[..., Any]) -> None:
    for i in range(4):
        write(tmp_path / f"{i}.parquet", 100 * i)
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "empty.parquet")
    fields = {"a": "long"}
    everything = ["0.parquet", "1.parquet", "2.parquet", "3.parquet", "empty.parquet"]
    assert read_by(storage, snap(storage, fields)) == everything
    assert read_by(storage, snap(storage, fields), row_groups=True) == everything[:4]
    version = Index.load(storage).version  # type: ignore[union-attr]
    assert read_by(storage, snap(storage, fields)) == []
    assert Index.load(storage).version == version, "nothing changed"  # type: ignore[union-attr]
    (tmp_path / "0.parquet").unlink()
    write(tmp_path / "1.parquet", 1000)
    os.utime(tmp_path / "1.parquet", (1, 1))
    write(tmp_path / "9.parquet", 900)
    assert read_by(storage, snap(storage, fields)) == ["1.parquet", "9.parquet"]
    assert groups_of(tmp_path, "a IN (1015, 925, 205, 15)") == {"1.parquet": (1,), "2.parquet": (0,), "9.parquet": (2,)}
    assert read_by(storage, snap(storage, fields), full=True) == [
        "1.parquet",
        "2.parquet",
        "3.parquet",
        "9.parquet",
        "empty.parquet",
    ]
    assert groups_of(tmp_path, "a = 1015") == {"1.parquet": (1,)}


def test_the_granularity_stays_until_it_is_changed(events: Path) -> None:
    plain = opened(events).index()
    assert plain.granularity == "file"
    with_parts = opened(events).index(granularity="row_group")
    assert (with_parts.granularity, with_parts.bytes > plain.bytes) == ("row_group", True)
    kept = opened(events).index()
    assert (kept.granularity, kept.version) == ("row_group", with_parts.version)
    assert opened(events).info().index.granularity == "row_group"  # type: ignore[union-attr]
    assert groups_of(events, "id = 5") == {"0.parquet": (0,)}
    dropped = opened(events).index(granularity="file")
    assert (dropped.granularity, dropped.bytes, dropped.version) == ("file", plain.bytes, with_parts.version + 1)
    assert opened(events).index(granularity="file").version == dropped.version
    assert segments_of(events)[1] is None
    assert groups_of(events, "id = 5") == {"0.parquet": None}


def test_an_empty_table_remembers_its_granularity(tmp_path: Path, storage: Any, snap: Callable[..., Any]) -> None:
    assert refresh(storage, snap(storage, {"a": "long"}), row_groups=True).manifest.row_group_segments == ()
    write(tmp_path / "0.parquet", 0)
    opened(tmp_path).index()
    assert groups_of(tmp_path, "a = 5") == {"0.parquet": (0,)}
    (tmp_path / "0.parquet").unlink()
    assert refresh(storage, snap(storage, {"a": "long"})).manifest.row_group_segments == ()


@pytest.mark.parametrize("granularity", ["row-group", "", 1])
def test_another_granularity_is_refused_before_anything_is_written(events: Path, granularity: Any) -> None:
    with pytest.raises(InputError, match=f'granularity="{granularity}" is not one of file, row_group'):
        opened(events).index(granularity=granularity)
    assert not (events / INDEX_DIR).exists()


def test_many_refreshes_are_merged_each_kind_by_itself(tmp_path: Path) -> None:
    for i in range(24):
        write(tmp_path / f"{i:02d}.parquet", 100 * i, **({"new": range(30)} if i % 3 else {}))
        opened(tmp_path).index(granularity="row_group" if i == 0 else None)
        whole, parts = segments_of(tmp_path)
        assert parts is not None
        assert max(len(whole), len(parts)) <= compact.MAX_SEGMENTS + 1
        assert not set(whole) & set(parts)
    assert len(whole) < 24
    for i in range(24):
        assert groups_of(tmp_path, f"a = {100 * i + 15}") == {f"{i:02d}.parquet": (1,)}
    for i in range(20):
        (tmp_path / f"{i:02d}.parquet").unlink()
    opened(tmp_path).index()
    index = Index.load(opened(tmp_path)._handle.storage)
    assert index is not None
    assert sum(s.files for s in index.manifest.segments) == 4
    assert sum(s.files for s in index.manifest.row_group_segments or ()) == 12
    assert groups_of(tmp_path, "a = 2215") == {"22.parquet": (1,)}


def test_old_segments_are_cleaned_and_live_ones_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "0.parquet", 0)
    opened(tmp_path).index(granularity="row_group")
    write(tmp_path / "1.parquet", 0)
    for path in (tmp_path / INDEX_DIR).iterdir():
        os.utime(path, (1, 1))
    opened(tmp_path).index()
    whole, parts = segments_of(tmp_path)
    assert (len(whole), len(parts or ())) == (2, 2)
    assert groups_of(tmp_path, "a = 5") == {"0.parquet": (0,), "1.parquet": (0,)}
    monkeypatch.setattr(store, "_KEEP_HOURS", -1)
    opened(tmp_path).index(granularity="file")
    names = {path.name.rsplit("-", 1)[0] for path in (tmp_path / INDEX_DIR).glob("segment-*")}
    assert names == set(whole)


def test_many_refreshes_leave_few_files_and_old_versions_whole(
    tmp_path: Path, storage: Any, snap: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Versions that follow each other fast do not wait for hours, and segments that no version names yet are kept."""
    monkeypatch.setattr(store, "_KEEP_MANIFESTS", 5)
    unpublished = tmp_path / INDEX_DIR / "segment-unpublished-files.zskip"
    counts = []
    for i in range(24):
        write(tmp_path / f"{i:02}.parquet", i)
        refresh(storage, snap(storage, {"a": "long"}))
        if not i:
            unpublished.write_bytes(b"")
        counts.append(len(list((tmp_path / INDEX_DIR).iterdir())))
    assert max(counts[12:]) <= max(counts[:12]) + 4
    assert unpublished.exists()
    names = {path.name.rsplit("-", 1)[0] for path in (tmp_path / INDEX_DIR).glob("segment-*")}
    kept = list_manifests(storage.list_dir(INDEX_DIR))
    assert len(kept) == 5
    named = {"segment-unpublished"}
    for version in kept:
        manifest = Manifest.from_bytes(storage.read(manifest_path(version)), str(version))
        assert all(
            (tmp_path / INDEX_DIR / f"{segment.name}-{part}.zskip").exists()
            for segment in manifest.segments
            for part in ("files", "entries")
        )
        named |= {segment.name for segment in manifest.segments}
    assert names == named


def test_a_refresh_that_comes_second_does_not_undo_the_granularity(
    tmp_path: Path, storage: Any, snap: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "0.parquet", 0)
    refresh(storage, snap(storage, {"a": "long"}), row_groups=True)
    collect = store.collect_footers

    def overtaken(*arguments: Any) -> Any:
        segments = collect(*arguments)
        monkeypatch.setattr(store, "collect_footers", collect)
        refresh(storage, snap(storage, {"a": "long"}), row_groups=False)
        return segments

    monkeypatch.setattr(store, "collect_footers", overtaken)
    write(tmp_path / "1.parquet", 0)
    index = refresh(storage, snap(storage, {"a": "long"}))
    assert index.manifest.row_group_segments is None
    assert groups_of(tmp_path, "a = 5") == {"0.parquet": None, "1.parquet": None}
    refresh(storage, snap(storage, {"a": "long"}), row_groups=True)
    assert groups_of(tmp_path, "a = 5") == {"0.parquet": (0,), "1.parquet": (0,)}


class CrashError(Exception):
    pass


@pytest.mark.parametrize("step", range(5))
def test_a_crash_at_any_write_leaves_row_groups_that_are_right(
    tmp_path: Path, storage: Any, storage_class: Any, snap: Callable[..., Any], step: int
) -> None:
    write(tmp_path / "0.parquet", 0)
    refresh(storage, snap(storage, {"a": "long"}), row_groups=True)
    write(tmp_path / "1.parquet", 0)
    left = [step]

    class Dying(storage_class):  # type: ignore[misc]
        def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
            if not left[0]:
                raise CrashError
            left[0] -= 1
            super().write(path, data, overwrite=overwrite)

    with pytest.raises(CrashError):
        refresh(Dying(tmp_path), snap(storage, {"a": "long"}))
    with pytest.warns(ZskipWarning, match="knows nothing of 1"):
        assert groups_of(tmp_path, "a = 5") == {"0.parquet": (0,), "1.parquet": None}
    refresh(storage, snap(storage, {"a": "long"}))
    assert groups_of(tmp_path, "a = 5") == {"0.parquet": (0,), "1.parquet": (0,)}


# Damage


@pytest.mark.parametrize("kind", ["files", "entries"])
@pytest.mark.parametrize("how", ["flip", "cut", "gone"])
def test_a_damaged_segment_is_left_out_and_mended(events: Path, kind: str, how: str) -> None:
    opened(events).index(granularity="row_group")
    _, parts = segments_of(events)
    assert parts is not None
    path = events / INDEX_DIR / f"{parts[0]}-{kind}.zskip"
    data = path.read_bytes()
    if how == "flip":
        path.write_bytes(bytes(byte ^ 255 if at % 50 == 0 else byte for at, byte in enumerate(data)))
    elif how == "cut":
        path.write_bytes(data[: len(data) // 3])
    else:
        path.unlink()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        groups = groups_of(events, "id = 5")
    assert [w.category for w in caught] == [ZskipWarning]
    assert groups == {"0.parquet": None if kind == "files" else tuple(range(20))}
    opened(events).index()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert groups_of(events, "id = 5") == {"0.parquet": (0,)}


def test_damaged_segments_of_files_leave_row_groups_unknown(events: Path) -> None:
    opened(events).index(granularity="row_group")
    whole, parts = segments_of(events)
    (events / INDEX_DIR / f"{whole[0]}-files.zskip").unlink()
    with pytest.warns(ZskipWarning):
        assert groups_of(events, "id = 5") == dict.fromkeys(["0.parquet", "1.parquet", "2.parquet"])
    opened(events).index()
    assert segments_of(events)[1] == parts
    assert groups_of(events, "id = 5") == {"0.parquet": (0,)}


ODD = [None, True, -1, 0, 1, 2**64, "", "x", "../../etc/passwd", [], [[]], {}, ["a"]]


def test_bytes_of_segments_and_manifests_lose_no_row_group(events: Path) -> None:
    opened(events).index(granularity="row_group")
    _, parts = segments_of(events)
    assert parts is not None
    home, rng = events / INDEX_DIR, random.Random(4)
    (manifest,) = home.glob("manifest-*")
    sound = {path: path.read_bytes() for path in [*home.glob(f"{parts[0]}*"), manifest]}
    worse = 0
    for _ in range(300):
        path = rng.choice(list(sound))
        data = bytearray(sound[path])
        if path == manifest:
            content = manifests.body(sound[path])
            node: Any = content
            key: Any = "row_group_segments"
            while isinstance(node[key], list | dict) and node[key] and (node is content or rng.random() < 0.8):
                node = node[key]
                key = rng.choice(list(node) if isinstance(node, dict) else range(len(node)))
            node[key] = rng.choice(ODD)
            data = bytearray(manifests.forged(content))
        elif rng.random() < 0.5:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        else:
            del data[rng.randrange(len(data)) :]
        path.write_bytes(bytes(data))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ZskipWarning)
            groups = groups_of(events, "id = 1234")
        assert "1.parquet" in groups
        assert groups["1.parquet"] is None or 0 in groups["1.parquet"]
        worse += groups != {"1.parquet": (0,)}
        path.write_bytes(sound[path])
    assert worse > 100


# What the user holds


def test_a_kept_file_is_text() -> None:
    file = zskip.KeptFile("/a/b.parquet", (1, 3))
    assert (file, hash(file), json.dumps([file])) == ("/a/b.parquet", hash("/a/b.parquet"), '["/a/b.parquet"]')
    for other in (pickle.loads(pickle.dumps(file)), copy.deepcopy(file)):
        assert (other, other.row_groups, type(other)) == (file, (1, 3), zskip.KeptFile)
    assert zskip.KeptFile("x").row_groups is None
    assert os.path.basename(file) == "b.parquet"
    assert pa.array([file], pa.string()).to_pylist() == ["/a/b.parquet"]


def test_an_index_elsewhere_knows_row_groups_too(events: Path, tmp_path: Path) -> None:
    table = zskip.open(str(events), index_path=str(tmp_path / "elsewhere"))
    table.index(granularity="row_group")
    assert [file.row_groups for file in table.files("id = 5")] == [(0,)]
    assert not (events / "_zskip").exists()


def test_row_groups_of_a_bound_index_without_them(events: Path) -> None:
    handle = opened(events)._handle
    bound: BoundIndex = bind_metadata(handle, read_snapshot(handle))
    kept = np.ones(3, np.bool_)
    assert prune_row_groups(bound, Constant(True), kept) is None


def test_what_a_format_says_of_a_file_is_not_said_of_its_row_groups(tmp_path: Path, storage: Any, snap: Any) -> None:
    table = pa.table({"a": [1, 2, 3, 4, 5, 6], "b": [7, 7, 7, None, None, None]})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=3, write_statistics=["a"])
    plain = snap(storage, {"a": "long", "b": "long"})
    column_stats = ColumnStats(
        type=DataType("long"),
        lower=np.array([7]),
        upper=np.array([7]),
        bounded=np.ones(1, np.bool_),
        nulls=np.array([3]),
        may_nan=np.zeros(1, np.bool_),
    )
    known = Known(rows=np.array([6]), column=lambda name: column_stats if name == "b" else None)
    snapshot = dataclasses.replace(plain, known=known)
    bound = refresh(storage, snapshot, row_groups=True).bind(snapshot)
    for where, kept in (
        ("b = 7", (0, 1)),
        ("b IS NOT NULL", (0, 1)),
        ("b = 7 AND a > 3", (1,)),
        ("b = 7 AND a < 2", (0,)),
    ):
        predicate = parse(where, Columns(snapshot.fields))
        row_groups = prune_row_groups(bound, predicate, bound.prune(predicate).kept)
        assert row_groups is not None
        assert row_groups.by_file == {0: kept}
    assert not bound.prune(parse("b = 8", Columns(snapshot.fields))).kept.any()
