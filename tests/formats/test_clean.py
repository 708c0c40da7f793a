"""`Table.clean`: what killed processes leave is listed and removed, and nothing else is."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from pathlib import Path

import format_tables
import pytest
import tiers
from format_tables import FORMATS, Maker, content, opened, rewrite, rows_of, stage_all
from owners import dead_owner, owner

import zskip
from zskip.errors import IndexFormatError, TableNotFoundError
from zskip.formats import new_table
from zskip.formats.hive import is_hidden
from zskip.storage import LocalStorage


@pytest.fixture
def table(maker: Maker, tmp_path: Path) -> Path:
    path = tmp_path / "t ä"
    maker.append(path, content(20), partitioned=True)
    return path


def files(path: Path) -> dict[str, tuple[int, int]]:
    """All files below a path, hidden ones included, and when they were written."""
    return {str(f): (f.stat().st_size, f.stat().st_mtime_ns) for f in path.rglob("*") if f.is_file()}


def orphans(maker: Maker, path: Path) -> set[str]:
    """Data files that the format knows nothing of, and whatever zskip keeps besides its log and index."""
    unknown = {file.path for file in LocalStorage(str(path)).walk(is_hidden)} - maker.known_files(path)
    hidden = {f.relative_to(path).as_posix() for f in (path / "_zskip").rglob("*") if f.is_file()}
    return unknown | {f for f in hidden if f.split("/")[1] not in ("log", "index")}


@pytest.mark.slow
@pytest.mark.parametrize("maker", tiers.nightly(FORMATS[1:] + FORMATS[:1]), ids=lambda maker: maker.name)
@pytest.mark.parametrize("after", tiers.nightly([True, False]), ids=["after", "before"])
def test_killed_at_every_step(maker: Maker, tmp_path: Path, after: bool) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(format_tables.PRELOADED)
    listed = 0
    for step in range(1, 100):
        path = tmp_path / str(step)
        maker.append(path, content(8), partitioned=step % 2 == 0)
        maker.append(path, content(4, 8), partitioned=step % 2 == 0)
        rewrite(opened(path), "one")
        before = rows_of(maker.read(path))
        version = opened(path).snapshot().version
        child = context.Process(target=format_tables.die_in_rewrite, args=(str(path), step, after))
        child.start()
        child.join(60)
        assert child.exitcode in (0, -signal.SIGKILL)
        left, as_it_was = orphans(maker, path), files(path)
        result = zskip.open(maker.address(path)).clean()
        assert files(path) == as_it_was, "a dry run"
        assert not result.deleted
        assert result.leftovers or result.unfinished or not left
        assert (child.exitcode != 0) or not (result.leftovers or result.unfinished)
        listed += bool(result.leftovers)
        live = {str(path / p) for p in opened(path).snapshot().paths} if not result.unfinished else set()
        assert not [x for x in result.leftovers for p in live if p.startswith(x.path)]
        removed = zskip.open(maker.address(path)).clean(delete=True)
        if not result.unfinished:
            assert removed.leftovers == result.leftovers
            missing = set(as_it_was) - set(files(path))
            assert sum(as_it_was[f][0] for f in missing) == removed.bytes
        assert orphans(maker, path) == set()
        assert rows_of(maker.read(path)) == before
        if maker.time_travel:
            assert rows_of(maker.read(path, version)) == before
        again = zskip.open(maker.address(path)).clean()
        assert (again.leftovers, again.unfinished) == ((), 0)
        if child.exitcode == 0:
            assert step > 5
            assert listed >= 2
            return
    pytest.fail("the rewrite never ended")


def test_a_living_rewrite_is_left_alone(maker: Maker, table: Path) -> None:
    form, before = opened(table), rows_of(maker.read(table))
    base = form.snapshot()
    added = stage_all(form, base, "slow")
    as_it_was = files(table)
    assert zskip.open(maker.address(table)).clean(delete=True).leftovers == ()
    assert files(table) == as_it_was
    form.replace(base, base.partition_of >= 0, added, {})
    assert rows_of(maker.read(table)) == before


def test_files_of_earlier_versions_stay(maker: Maker, table: Path) -> None:
    rewrite(opened(table), "one")
    rewrite(opened(table), "two")
    as_it_was = files(table)
    assert zskip.open(maker.address(table)).clean(delete=True).leftovers == ()
    assert files(table) == as_it_was


def test_what_another_host_staged_stays_for_a_day(maker: Maker, table: Path) -> None:
    added = stage_all(opened(table), opened(table).snapshot(), "far")
    staging = table / added[0].path.rpartition("/")[0]
    (staging / "_owner.json").write_bytes(owner(host="elsewhere"))
    assert zskip.open(maker.address(table)).clean().leftovers == ()
    os.utime(staging / "_owner.json", (time.time() - 90_000,) * 2)
    (leftover,) = zskip.open(maker.address(table)).clean(delete=True).leftovers
    assert (leftover.path, leftover.files) == (str(staging), len(added) + 1)
    assert not staging.exists()


NOTED = [maker for maker in FORMATS if maker.name in ("delta", "iceberg")]
"""Formats that note where they move files."""


def plant(table: Path, note: str, name: str = "0" * 32) -> Path:
    """The staging directory of a dead rewrite with a note of moves."""
    staging = table / "_zskip" / "staging" / name
    staging.mkdir(parents=True)
    (staging / "_owner.json").write_bytes(dead_owner())
    (staging / "_moved.json").write_text(note)
    return staging


@pytest.mark.parametrize("maker", NOTED, ids=lambda maker: maker.name)
@pytest.mark.parametrize(
    "target",
    ["../victim", "a/../../victim", "/victim", "", ".", "_delta_log", "metadata", "metadata/x", "_zskip/index", "live"],
)
def test_a_note_deletes_nothing_but_files_of_a_rewrite(
    maker: Maker, tmp_path: Path, target: str, caplog: pytest.LogCaptureFixture
) -> None:
    table, victim = tmp_path / "t", tmp_path / "victim"
    maker.append(table, content(8), partitioned=True)
    zskip.open(maker.address(table)).index()
    victim.mkdir()
    (victim / "x").write_bytes(b"1")
    (table / "metadata").mkdir(exist_ok=True)
    (table / "metadata" / "x").write_bytes(b"1")
    live = list(opened(table).snapshot().paths)
    targets = [str(victim) if target == "/victim" else target]
    if target in ("live", "metadata"):  # files that stay, and directories, which no rewrite moves
        targets = [*live, live[0].rpartition("/")[0], "metadata"]
    before = {name: state for name, state in files(tmp_path).items() if "/staging/" not in name}
    staging = plant(table, json.dumps({"version": 0, "at_ms": 0, "targets": targets}))
    leftovers = zskip.open(maker.address(table)).clean(delete=True).leftovers
    with caplog.at_level("WARNING", "zskip"):
        opened(table).abort(opened(table).stage())
    assert {name: state for name, state in files(tmp_path).items() if "/staging/" not in name} == before
    assert staging.exists() == (target not in ("live", "metadata"))
    assert ("is damaged" in caplog.text) == staging.exists()
    assert {leftover.path for leftover in leftovers} <= {str(staging)}


@pytest.mark.parametrize("maker", NOTED, ids=lambda maker: maker.name)
@pytest.mark.parametrize(
    "note",
    [
        "",
        "{",
        "[]",
        "7",
        '"x"',
        "{}",
        '{"targets": "a"}',
        '{"targets": [1]}',
        '{"targets": [], "NUMBER": "x"}',
        "[" * 9999,
    ],
)
def test_a_damaged_note_stays_and_blocks_nothing(
    maker: Maker, tmp_path: Path, note: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = tmp_path / "t"
    maker.append(table, content(8), partitioned=True)
    before = rows_of(maker.read(table))
    staging = plant(table, note.replace("NUMBER", "version" if maker.name == "delta" else "at_ms"))
    with caplog.at_level("WARNING", "zskip"):
        rewrite(opened(table))
    assert any(f'"{staging}/_moved.json" is damaged' in message for message in caplog.messages)
    assert zskip.open(maker.address(table)).clean(delete=True).leftovers == ()
    assert staging.exists()
    assert rows_of(maker.read(table)) == before


@pytest.mark.parametrize("maker", NOTED, ids=lambda maker: maker.name)
def test_a_staging_directory_of_another_name_blocks_nothing(maker: Maker, tmp_path: Path) -> None:
    table = tmp_path / "t"
    maker.append(table, content(8), partitioned=True)
    before = rows_of(maker.read(table))
    plant(table, json.dumps({"targets": []}), "no number")
    rewrite(opened(table))
    assert rows_of(maker.read(table)) == before


def test_files_stay_where_the_log_does_not_tell(tmp_path: Path) -> None:
    maker = format_tables.maker("delta")
    maker.append(tmp_path, content(20), partitioned=False)
    base = opened(tmp_path).snapshot()
    rewrite(opened(tmp_path))
    live = opened(tmp_path).snapshot()
    note = tmp_path / "_zskip" / "staging" / "dead"
    note.mkdir()
    (note / "_owner.json").write_bytes(dead_owner())
    (note / "_moved.json").write_text(json.dumps({"version": base.version, "targets": list(live.paths)}))
    newest = tmp_path / "_delta_log" / f"{live.version:020d}.json"
    kept = newest.read_bytes()
    newest.write_text("{")
    as_it_was = files(tmp_path)
    assert zskip.open(str(tmp_path)).clean(delete=True).leftovers == ()
    assert files(tmp_path) == as_it_was
    newest.write_bytes(kept)


def test_a_table_that_never_appeared(tmp_path: Path) -> None:
    parent = LocalStorage(str(tmp_path))
    alive, dead = new_table.begin(parent, "new"), new_table.begin(parent, "new")
    (tmp_path / dead / "part-0.parquet").write_bytes(b"x" * 9)
    (tmp_path / dead / "_owner.json").write_bytes(dead_owner())
    other = new_table.begin(parent, "newer")
    (tmp_path / other / "_owner.json").write_bytes(dead_owner())
    (leftover,) = zskip.open(str(tmp_path / "new")).clean(delete=True).leftovers
    assert (leftover.path, leftover.files, "into=" in leftover.reason) == (str(tmp_path / dead), 2, True)
    assert {f.name for f in tmp_path.iterdir()} == {alive, other}
    with pytest.raises(TableNotFoundError, match="does not exist"):
        zskip.open(str(tmp_path / "new")).clean()


@pytest.mark.parametrize("apart", [False, True], ids=["inside", "index_path"])
def test_garbage_of_the_index(table: Path, tmp_path: Path, apart: bool) -> None:
    home = tmp_path / "index" if apart else table
    opened = zskip.open(str(table), index_path=str(home) if apart else None)
    opened.index()
    index = home / "_zskip" / "index"
    names = {f"segment-{'0' * 32}-files.zskip", ".manifest.0.tmp", f"sketch-{'0' * 32}.zskip"}
    for name in names:
        (index / name).write_bytes(b"12")
    (home / "_zskip" / "log").mkdir(exist_ok=True)
    (home / "_zskip" / "log" / ".1.json.0.tmp").write_bytes(b"12")
    assert opened.clean().leftovers == (), "somebody may be about to publish them"
    for file in [*index.iterdir(), *(home / "_zskip" / "log").iterdir()]:
        os.utime(file, (1e9, 1e9))
    live = {file.name for file in index.iterdir()} - names
    expected = {str(index / name) for name in names}
    expected |= set() if apart else {str(home / "_zskip" / "log" / ".1.json.0.tmp")}
    assert {left.path for left in opened.clean(delete=True).leftovers} == expected
    assert {file.name for file in index.iterdir()} == live
    assert opened.info().index is not None


def test_an_index_of_another_version_is_not_garbage(table: Path) -> None:
    zskip.open(str(table)).index()
    index = table / "_zskip" / "index"
    (manifest,) = index.glob("manifest-*")
    kept = manifest.read_bytes()
    for file in index.iterdir():
        os.utime(file, (1e9, 1e9))
    manifest.write_bytes(kept[:-9])
    assert zskip.open(str(table)).clean(delete=True).leftovers == (), "what is damaged is mended by a refresh"
    from zskip.index.store.manifest import zlib

    body = kept[kept.index(b", ") + 2 :].replace(b'"format":2', b'"format":9')
    manifest.write_bytes(b'{"crc": "%08x", %s' % (zlib.crc32(body), body))
    with pytest.raises(IndexFormatError, match="9"):
        zskip.open(str(table)).clean(delete=True)
    assert len(list(index.iterdir())) > 1
