"""Plain Parquet: what a snapshot holds, what a rewrite refuses, and what footers say before one."""

from __future__ import annotations

import datetime as dt
import errno
import json
import multiprocessing
import os
import shutil
import threading
import time
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from owners import dead_owner, owner

from zskip.errors import (
    ConflictError,
    CorruptFileError,
    IndexFormatError,
    InputError,
    StorageError,
    TableNotFoundError,
    UnsupportedError,
)
from zskip.formats import ParquetFormat, StagedFile, new_table
from zskip.formats.footers.footer import _columns, read_footers
from zskip.formats.footers.inspection import inspect_footers
from zskip.formats.hive import is_hidden
from zskip.formats.parquet import log
from zskip.index import bind_footers
from zskip.records import Snapshot
from zskip.storage import FileInfo, LocalStorage

LOG = f"_zskip/log/{1:020d}.json"
OLD = 1_600_000_000


def write(path: Path, ids: list[int] | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array([0] if ids is None else ids, pa.int64())}), path)
    return path


def opened(path: Path) -> ParquetFormat:
    return ParquetFormat(LocalStorage(str(path)))


def snapshot(path: Path) -> Snapshot:
    return opened(path).snapshot()


def visible(path: Path) -> dict[str, list[int]]:
    """Each visible file with its ids."""
    files = LocalStorage(str(path)).walk(is_hidden)
    return {f.path: pq.ParquetFile(path / f.path).read()["id"].to_pylist() for f in files if f.size}


def ids(files: dict[str, list[int]]) -> list[int]:
    return sorted(i for file in files.values() for i in file)


def stage_all(table: ParquetFormat, path: Path, name: str) -> tuple[Snapshot, list[StagedFile], str]:
    """One new file for each partition, with all its rows."""
    base = table.snapshot()
    staging = table.stage()
    added = []
    for number, partition in enumerate(base.partitions):
        own = [p for p, of in zip(base.paths, base.partition_of, strict=True) if of == number]
        rows = [i for p in own for i in pq.ParquetFile(path / p).read()["id"].to_pylist()]
        file = write(path / staging / f"{name}-{number}.parquet", rows[::-1])
        added.append(
            StagedFile(path=f"{staging}/{file.name}", directory=partition.directory, size=file.stat().st_size),
        )
    return base, added, staging


def everything(base: Snapshot) -> np.ndarray:
    return np.ones(len(base), bool)


# Snapshots


def test_the_files_of_a_snapshot_are_in_path_order_with_size_and_time(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        write(tmp_path / f"{name}.parquet")
        os.utime(tmp_path / f"{name}.parquet", (OLD, OLD))
    snap = snapshot(tmp_path)
    assert snap.paths == ("a.parquet", "b.parquet", "c.parquet")
    assert snap.sizes.tolist() == [(tmp_path / p).stat().st_size for p in snap.paths]
    assert snap.mtimes_ms.tolist() == [OLD * 1000] * 3
    assert (snap.version, snap.root) == (0, str(tmp_path))
    assert [p.directory for p in snap.partitions] == [""]
    assert [(f.name, str(f.type)) for f in snap.fields] == [("id", "long")]
    assert not (tmp_path / "_zskip").exists(), "a look changes nothing"


def test_hidden_and_empty_files_are_no_data(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet")
    for name in ("_SUCCESS", ".a.parquet.crc", "_metadata", "x.parquet._COPYING_", "_tmp/y.parquet", ".git/z.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"no parquet")
    (tmp_path / "empty.parquet").touch()
    (tmp_path / "p=1").mkdir()
    (tmp_path / "p=1" / "empty.parquet").touch()
    assert snapshot(tmp_path).paths == ("a.parquet",)


def test_a_partition_directory_may_begin_with_an_underscore(tmp_path: Path) -> None:
    write(tmp_path / "_p=1" / "a.parquet")
    snap = snapshot(tmp_path)
    assert snap.paths == ("_p=1/a.parquet",)
    assert [f.name for f in snap.partition_fields] == ["_p"]


def test_nested_partitions(tmp_path: Path) -> None:
    for directory in ("y=2024/r=eu", "y=2024/r=us", "y=2025/r=eu"):
        write(tmp_path / directory / "1.parquet")
        write(tmp_path / directory / "0.parquet")
    snap = snapshot(tmp_path)
    assert [(f.name, str(f.type)) for f in snap.partition_fields] == [("y", "integer"), ("r", "string")]
    assert [p.values for p in snap.partitions] == [(2024, b"eu"), (2024, b"us"), (2025, b"eu")]
    assert snap.partition_of.tolist() == [0, 0, 1, 1, 2, 2]
    for file in snap:
        assert file.path.rpartition("/")[0] == snap.partitions[file.partition].directory


def sink(path: Path, batches: dict[str, list[str]], **entry: Any) -> Path:
    """The log of a stream's sink; batches: the URIs of files by the log's own files."""
    (path / "_spark_metadata").mkdir(parents=True)
    for name, uris in batches.items():
        entries = [{"path": uri, "size": 1, "isDir": False, "modificationTime": 1, **entry} for uri in uris]
        (path / "_spark_metadata" / name).write_text("\n".join(["v1", *map(json.dumps, entries)]))
    return path


def test_the_log_of_a_sink_lists_the_files(tmp_path: Path) -> None:
    path = tmp_path / "t ä%"
    for name in ("a", "b", "c", "d", "failed"):
        write(path / f"{name}.parquet")
    uri = path.as_uri()
    sink(path, {"0": [f"{uri}/gone.parquet"], "2.compact": [f"{uri}/a.parquet"], "1": [], ".2.compact.crc": []})
    assert snapshot(path).paths == ("a.parquet",)
    (path / "_spark_metadata" / "10").write_text(
        (path / "_spark_metadata" / "2.compact").read_text().replace("a.p", "b.p")
    )
    (path / "_spark_metadata" / "3").write_text(
        (path / "_spark_metadata" / "2.compact").read_text().replace("a.p", "lost.p")
    )
    snap = snapshot(path)
    assert snap.paths == ("a.parquet", "b.parquet", "lost.parquet"), "reading what is lost fails, as in Spark"
    (tmp_path / "link").symlink_to(path)
    assert snapshot(tmp_path / "link").paths == snap.paths
    for table in (opened(path), opened(path)):
        with pytest.raises(UnsupportedError, match=r"_spark_metadata.*into="):
            table.check_appendable()
    shutil.copytree(path, tmp_path / "copy")
    with pytest.raises(UnsupportedError, match="was moved or copied"):
        snapshot(tmp_path / "copy")


@pytest.mark.parametrize(
    ("content", "error"),
    [("v2", UnsupportedError), ("", UnsupportedError), ("v1\n{", StorageError), ('v1\n{"path": 1}', StorageError)],
)
def test_a_log_of_a_sink_that_is_not_understood(tmp_path: Path, content: str, error: type[Exception]) -> None:
    write(tmp_path / "a.parquet")
    (sink(tmp_path, {}) / "_spark_metadata" / "0").write_text(content)
    with pytest.raises(error, match="_spark_metadata/0"):
        snapshot(tmp_path)


@pytest.mark.parametrize("uri", ["file:///elsewhere/a.parquet", "{}/../a.parquet", "s3://bucket{}/a.parquet"])
def test_a_log_of_a_sink_leads_nowhere_else(tmp_path: Path, uri: str) -> None:
    write(tmp_path / "t" / "a.parquet")
    sink(tmp_path / "t", {"0": [uri.format(tmp_path / "t")]})
    with pytest.raises(UnsupportedError, match="lies outside the table"):
        snapshot(tmp_path / "t")


@pytest.mark.parametrize(
    ("names", "are_buckets"),
    [
        (["part-00000-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f_00003.c000.snappy.parquet"], True),
        (["00003_0_part-00000-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f_00003.c000.zstd.parquet"], True),
        (["p=1/part-r-00000-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f_00003.gz.parquet"], True),
        (["part-00000-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f-c000.snappy.parquet"], False),
        (["data_001.parquet", "data_002.parquet"], False),
        (["part-00000-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f_00003.c000.snappy.parquet", "more.parquet"], False),
    ],
)
def test_names_of_buckets(tmp_path: Path, names: list[str], are_buckets: bool) -> None:
    for name in names:
        write(tmp_path / name)
    table = opened(tmp_path)
    if not are_buckets:
        table.check_replaceable()
        return
    for check in (table.check_replaceable, table.check_appendable):
        with pytest.raises(UnsupportedError, match="buckets"):
            check()


@pytest.mark.parametrize(
    ("texts", "kind", "values"),
    [
        (["1", "-2", "007", "+3"], "integer", [1, -2, 7, 3]),
        (["1", "2147483648"], "long", [1, 2**31]),
        (["-9223372036854775808", "9223372036854775807"], "long", [-(2**63), 2**63 - 1]),
        (["1.5", "-2.5e3", ".5"], "double", [1.5, -2500.0, 0.5]),
        (["2024-02-29", "1969-12-31"], "date", [(dt.date(2024, 2, 29) - dt.date(1970, 1, 1)).days, -1]),
        (["eu", "us east", "naïve"], "string", [b"eu", b"us east", "naïve".encode()]),
        (["__HIVE_DEFAULT_PARTITION__", "3"], "integer", [None, 3]),
        (["__HIVE_DEFAULT_PARTITION__"], "string", [None]),
        (["a%3Db%2Fc%25", "x%20y", "50%", "%zz"], "string", [b"a=b/c%", b"x y", b"50%", b"%zz"]),
        ([""], "string", [b""]),
    ],
)
def test_types_and_values_of_partitions(tmp_path: Path, texts: list[str], kind: str, values: list[object]) -> None:
    for text in texts:
        write(tmp_path / f"p={text}" / "a.parquet")
    snap = snapshot(tmp_path)
    assert [str(f.type) for f in snap.partition_fields] == [kind]
    assert {p.directory: p.values for p in snap.partitions} == {
        f"p={text}": (value,) for text, value in zip(texts, values, strict=True)
    }


@pytest.mark.parametrize(
    "texts",
    [
        ["1", "eu"],
        ["1", "1.5"],
        ["2024-01-01", "eu"],
        ["2024-02-30"],
        ["2024-01-01 10%3A00%3A00"],
        ["9223372036854775808"],
        ["NaN"],
    ],
)
def test_a_type_that_only_a_session_can_tell_is_not_orderable(tmp_path: Path, texts: list[str]) -> None:
    for text in texts:
        write(tmp_path / f"p={text}" / "a.parquet")
    (field,) = snapshot(tmp_path).partition_fields
    assert field.type.form is None


@pytest.mark.parametrize("directories", [("a=1", "b=1"), ("a=1", "a=1/b=2"), ("a=1/b=2", "b=2/a=1")])
def test_conflicting_partition_columns_are_refused(tmp_path: Path, directories: tuple[str, str]) -> None:
    for directory in directories:
        write(tmp_path / directory / "x.parquet")
    with pytest.raises(UnsupportedError, match="different partition columns") as caught:
        snapshot(tmp_path)
    assert all(f'"{d}"' in str(caught.value) for d in directories)


def test_files_beside_partition_directories_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "stray.parquet")
    write(tmp_path / "p=1" / "x.parquet")
    with pytest.raises(UnsupportedError, match="move one of them"):
        snapshot(tmp_path)


@pytest.mark.parametrize("directory", ["plain", "p=1/plain", "=1"])
def test_plain_directories_within_a_table_are_refused(tmp_path: Path, directory: str) -> None:
    write(tmp_path / directory / "x.parquet")
    with pytest.raises(UnsupportedError, match="not a partition directory"):
        snapshot(tmp_path)


def test_nothing_there_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError, match="does not exist"):
        snapshot(tmp_path / "none")
    with pytest.raises(TableNotFoundError, match="no Parquet files"):
        snapshot(tmp_path)
    (tmp_path / "empty.parquet").touch()
    (tmp_path / "_hidden.parquet").write_bytes(b"x")
    with pytest.raises(TableNotFoundError, match="no Parquet files"):
        snapshot(tmp_path)


def test_a_first_file_that_is_no_parquet_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no parquet at all")
    write(tmp_path / "b.parquet")
    with pytest.raises(CorruptFileError, match=r"a\.parquet"):
        snapshot(tmp_path)


@pytest.mark.slow
def test_a_hundred_thousand_files(tmp_path: Path) -> None:
    started = time.monotonic()
    for i in range(100_000):
        if i % 1000 == 0:
            directory = tmp_path / f"p={i // 1000}"
            directory.mkdir()
            if time.monotonic() - started > 5:
                pytest.skip("making files is slow here")
        os.close(os.open(directory / str(i), os.O_CREAT | os.O_WRONLY))
    started = time.monotonic()
    assert len(LocalStorage(str(tmp_path)).walk(is_hidden)) == 100_000
    assert time.monotonic() - started < 20


# Rewrites


@pytest.fixture
def table(tmp_path: Path) -> Path:
    for p in range(2):
        for i in range(2):
            start = (2 * p + i) * 10
            write(tmp_path / "t" / f"p={p}" / f"part-{i}.parquet", list(range(start, start + 10)))
    return tmp_path / "t"


@pytest.mark.parametrize("killed", [None, "p=1", "_zskip/trash"])
def test_partitions_on_another_disk(table: Path, monkeypatch: pytest.MonkeyPatch, killed: str | None) -> None:
    """Whoever is killed while files are copied from disk to disk, the next call goes on."""
    link, copy, mount = os.link, shutil.copy2, str(table / "p=1")

    def across(source: str, target: str) -> None:
        if source.startswith(mount) != target.startswith(mount):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        link(source, target)

    def die(source: str, target: str) -> None:
        copy(source, target)
        if killed is not None and target.startswith(str(table / killed)):
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "link", across)
    monkeypatch.setattr(shutil, "copy2", die)
    form = opened(table)
    base, added, _ = stage_all(form, table, "new")
    if killed is None:
        form.replace(base, everything(base), added)
    else:
        with pytest.raises(KeyboardInterrupt):
            form.replace(base, everything(base), added)
        monkeypatch.setattr(shutil, "copy2", copy)
        assert len(opened(table).snapshot()) == 2
    assert sorted(visible(table)) == ["p=0/new-0.parquet", "p=1/new-1.parquet"]
    assert ids(visible(table)) == list(range(40))


def test_many_rewrites_leave_a_short_log(table: Path) -> None:
    for turn in range(22):
        form = opened(table)
        base, added, _ = stage_all(form, table, f"turn{turn}")
        assert form.replace(base, everything(base), added) == turn + 1
    assert ids(visible(table)) == list(range(40))
    assert len(list((table / "_zskip" / "log").iterdir())) <= 2 * 21
    assert snapshot(table).version == 22


@pytest.mark.parametrize("what", ["gone", "rewritten", "touched"])
def test_a_changed_source_is_a_conflict_and_changes_nothing(table: Path, what: str) -> None:
    form = opened(table)
    base, added, staging = stage_all(form, table, "new")
    source = table / "p=1" / "part-0.parquet"
    if what == "gone":
        source.unlink()
    elif what == "rewritten":
        write(source, [5] * 1000)
    else:
        os.utime(source, (OLD, OLD))
    before = visible(table)
    with pytest.raises(ConflictError, match=r"part-0\.parquet.*nothing was committed"):
        form.replace(base, everything(base), added)
    assert visible(table) == before
    assert form.last_operation() is None
    form.abort(staging)
    assert not (table / staging).exists()
    assert visible(table) == before


def _race(table: Path, name: str, barrier: Barrier, code: dict[type, int]) -> None:
    form = opened(table)
    base, added, _ = stage_all(form, table, name)
    barrier.wait(60)
    try:
        form.replace(base, everything(base), added)
    except Exception as problem:
        os._exit(code.get(type(problem), 1))
    os._exit(0)


def test_of_racing_processes_one_wins(table: Path) -> None:
    context = multiprocessing.get_context("fork")
    for turn in range(5):
        barrier = context.Barrier(3)
        children = [
            context.Process(target=_race, args=(table, f"w{turn}{i}", barrier, {ConflictError: 7})) for i in range(3)
        ]
        for child in children:
            child.start()
        for child in children:
            child.join(60)
        assert sorted(child.exitcode or 0 for child in children) == [0, 7, 7]
        assert ids(visible(table)) == list(range(40))
    assert snapshot(table).version == 5
    form = opened(table)
    base, added, _ = stage_all(form, table, "last")
    form.replace(base, everything(base), added)
    assert LocalStorage(str(table)).list_dir("_zskip/staging") == []


def test_readers_always_see_each_row_once_while_others_write(table: Path) -> None:
    stop = threading.Event()
    problems: list[object] = []

    def read() -> None:
        form = opened(table)
        while not stop.is_set():
            try:
                names = {p.rpartition("/")[2].rpartition("-")[0] for p in form.snapshot().paths}
                if len(names) != 1:
                    problems.append(names)
            except CorruptFileError:
                # The first file went after the listing: the footer is not there any more.
                pass
            except Exception as problem:
                problems.append(problem)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    form = opened(table)
    try:
        for turn in range(30):
            base, added, _ = stage_all(form, table, f"turn{turn}")
            form.replace(base, everything(base), added)
    finally:
        stop.set()
        for reader in readers:
            reader.join(60)
    assert problems == []
    assert ids(visible(table)) == list(range(40))


class Torn(LocalStorage):
    """Lists, once, an entry of the log that is swept before the listing comes to its mark."""

    torn = False

    def list_dir(self, path: str) -> list[FileInfo]:
        entries = super().list_dir(path)
        if path == log.LOG and not self.torn:
            self.torn = True
            entries.append(FileInfo(f"{path}/{0:020d}.json", 1, 0))
        return entries


def test_a_log_that_is_swept_while_it_is_listed(table: Path) -> None:
    form = opened(table)
    base, added, _ = stage_all(form, table, "new")
    form.replace(base, everything(base), added)
    expected = form.snapshot()
    snap = ParquetFormat(Torn(str(table))).snapshot()
    assert (snap.version, snap.paths) == (1, expected.paths)
    assert log.list_pending(Torn(str(table))) == []


# A commit that is not finished


class ReadOnly(LocalStorage):
    """Refuses every change."""

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        raise StorageError(f'cannot write "{path}": read-only')

    def rename(self, source: str, target: str) -> None:
        raise StorageError(f'cannot move "{source}": read-only')

    def delete(self, path: str) -> None:
        raise StorageError(f'cannot delete "{path}": read-only')


class Stuck(LocalStorage):
    """Allows so many moves."""

    def __init__(self, root: str, moves: int) -> None:
        super().__init__(root)
        self._moves = moves

    def rename(self, source: str, target: str) -> None:
        if self._moves == 0:
            raise StorageError(f'cannot move "{source}"')
        self._moves -= 1
        super().rename(source, target)


@pytest.mark.parametrize("moves", range(6))
def test_who_may_not_write_reads_by_the_log(table: Path, moves: int) -> None:
    form = ParquetFormat(Stuck(str(table), moves))
    base, added, _ = stage_all(form, table, "new")
    with pytest.raises(StorageError, match="cannot move"):
        form.replace(base, everything(base), added)
    before = {p: p.stat().st_mtime_ns for p in table.rglob("*")}
    snap = ParquetFormat(ReadOnly(str(table))).snapshot()
    assert {p: p.stat().st_mtime_ns for p in table.rglob("*")} == before
    assert snap.version == 1
    assert {p.rpartition("/")[2] for p in snap.paths} == {"new-0.parquet", "new-1.parquet"}
    for file in snap:
        (p,) = snap.partitions[file.partition].values
        assert sorted(pq.ParquetFile(table / file.path).read()["id"].to_pylist()) == list(range(20 * p, 20 * p + 20))
        assert (table / file.path).stat().st_size == file.size
    assert sorted(p.directory for p in snap.partitions) == ["p=0", "p=1"]
    with pytest.raises(StorageError, match="cannot finish an earlier rewrite"):
        ParquetFormat(ReadOnly(str(table))).replace(snap, everything(snap), [])
    assert snapshot(table).paths == ("p=0/new-0.parquet", "p=1/new-1.parquet")
    assert ids(visible(table)) == list(range(40))


@pytest.mark.parametrize(
    ("content", "says"),
    [(b'{"format": 99}', "format 99"), (b"{", "damaged"), (b'{"format": 1}', "damaged"), (b"[]", "damaged")],
)
def test_a_log_that_is_not_understood_stops_all(table: Path, content: bytes, says: str) -> None:
    form = opened(table)
    base, added, _ = stage_all(form, table, "new")
    before = visible(table)
    LocalStorage(str(table)).write(LOG, content)
    with pytest.raises(IndexFormatError, match=says) as caught:
        form.snapshot()
    assert LOG in str(caught.value)
    with pytest.raises(IndexFormatError, match=says):
        form.replace(base, everything(base), added)
    assert visible(table) == before


@pytest.mark.parametrize("size", [None, 3])
@pytest.mark.parametrize("mode", ["replace", "append", "overwrite"])
def test_a_staged_file_that_is_not_the_one_that_was_written_commits_nothing(
    table: Path, mode: str, size: int | None
) -> None:
    form, before = opened(table), visible(table)
    base, added, _ = stage_all(form, table, "new")
    (table / added[-1].path).unlink()
    if size is not None:
        (table / added[-1].path).write_bytes(b"x" * size)
    with pytest.raises(ConflictError, match=r"new-1\.parquet.*since it was written; nothing was committed"):
        commit(form, mode, base, added)
    assert log.versions(LocalStorage(str(table))) == ([], set())
    assert visible(table) == before


def commit(form: ParquetFormat, mode: str, base: Snapshot, added: list[StagedFile]) -> int | None:
    if mode == "replace":
        return form.replace(base, everything(base), added)
    return form.append(base, added) if mode == "append" else form.overwrite(base, added)


@pytest.mark.parametrize("error", [FileExistsError("there is something already"), StorageError("no answer")])
@pytest.mark.parametrize("committed", [True, False])
def test_a_commit_whose_reply_is_lost_is_known_by_its_entry(
    table: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, committed: bool
) -> None:
    form, write_file, failures = opened(table), LocalStorage.write, [error]
    base, added, _ = stage_all(form, table, "new")

    def fail_once(storage: LocalStorage, path: str, data: bytes, **options: Any) -> None:
        fails = path == LOG and failures
        if committed or not fails:
            write_file(storage, path, data, **options)
        if fails:
            raise failures.pop()

    monkeypatch.setattr(LocalStorage, "write", fail_once)
    if isinstance(error, StorageError) and not committed:
        with pytest.raises(StorageError, match="no answer"):
            form.append(base, added)
    else:
        assert form.append(base, added) == 1
    is_there = committed or isinstance(error, FileExistsError)
    assert ids(visible(table)) == sorted([*range(40), *(range(40) if is_there else ())])


def refuse_links(*_: object, **__: object) -> None:
    raise OSError(errno.ENOTSUP, "Operation not supported")


def test_an_entry_that_is_empty_is_no_commit(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without hard links a writer takes the name first; it may be writing, or have crashed."""
    monkeypatch.setattr(os, "link", refuse_links)
    form, before = opened(table), visible(table)
    base, added, _ = stage_all(form, table, "new")
    replace = os.replace

    def crash(source: str, target: str) -> None:
        if target.endswith(LOG):
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        form.append(base, added)
    monkeypatch.setattr(os, "replace", replace)
    assert (table / LOG).stat().st_size == 0
    assert visible(table) == before
    assert opened(table).snapshot().version == 0
    with pytest.raises(ConflictError, match="constantly"):
        form.append(base, added)  # its writer may be about to go on
    os.utime(table / LOG, (time.time() - 3600,) * 2)
    assert form.append(base, added) == 2
    assert opened(table).snapshot().version == 2
    base, added, _ = stage_all(form, table, "newer")
    assert form.replace(base, everything(base), added) == 3
    assert ids(visible(table)) == sorted([*range(40), *range(40)])


def test_of_two_that_go_on_after_a_crash_both_commit(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", refuse_links)
    LocalStorage(str(table)).write(LOG, b"")
    os.utime(table / LOG, (time.time() - 3600,) * 2)
    base = opened(table).snapshot()
    staged = [stage_all(opened(table), table, name)[1] for name in ("one", "two")]
    barrier, versions = threading.Barrier(2), []

    def append(added: list[StagedFile]) -> None:
        form = opened(table)
        barrier.wait()
        while True:
            try:
                versions.append(form.append(base, added))
                return
            except ConflictError:
                time.sleep(0.01)

    threads = [threading.Thread(target=append, args=(added,)) for added in staged]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(versions) == [2, 3]
    assert ids(visible(table)) == sorted([*range(40)] * 3)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": 2}, "version 2"),
        ({"removed": [{"path": "../other/a.parquet", "size": 1, "mtime_ms": 1}]}, "not the path of a data file"),
        ({"removed": [{"path": "/etc/passwd", "size": 1, "mtime_ms": 1}]}, "not the path of a data file"),
        ({"removed": [{"path": 7, "size": 1, "mtime_ms": 1}]}, "not the path of a data file"),
        ({"removed": [{"path": "_zskip/index/a", "size": 1, "mtime_ms": 1}]}, "not the path of a data file"),
        ({"added": [{"staged": "_zskip/staging/x/a", "target": "../a", "size": 1}]}, "not the path of a data file"),
        ({"added": [{"staged": "_zskip/staging/../../../x/a", "target": "a", "size": 1}]}, "not a staged file"),
        ({"added": [{"staged": "_zskip/staging/../a", "target": "a", "size": 1}]}, "not a staged file"),
        (
            {"added": [{"staged": "_zskip/staging/x/a", "target": ".hoodie/a", "size": 1}]},
            "not the path of a data file",
        ),
        ({"added": [{"staged": "p=0/old-0.parquet", "target": "a", "size": 1}]}, "not a staged file"),
        ({"added": [{"staged": "_zskip/staging/a", "target": "a", "size": 1}]}, "not a staged file"),
    ],
)
def test_a_log_that_leads_out_of_the_table_is_refused(table: Path, change: dict[str, Any], says: str) -> None:
    (table.parent / "other").mkdir()
    beside = table.parent / "other" / "a.parquet"
    beside.write_bytes(b"x")
    entry = {"format": 1, "version": 1, "added": [], "removed": [], "info": {}} | change
    LocalStorage(str(table)).write(LOG, json.dumps(entry).encode())
    before = visible(table)
    with pytest.raises(IndexFormatError, match=f"damaged .*{says}"):
        opened(table).snapshot()
    assert visible(table) == before
    assert beside.exists()


def test_stray_files_in_zskips_home_do_no_harm(table: Path) -> None:
    storage = LocalStorage(str(table))
    for path in ("_zskip/staging/.DS_Store", "_zskip/staging/note", "_zskip/log/.x.json.tmp", "_zskip/trash/note"):
        storage.write(path, b"?")
    form = opened(table)
    base, added, _ = stage_all(form, table, "new")
    assert form.replace(base, everything(base), added) == 1
    assert ids(visible(table)) == list(range(40))


def test_staging_of_dead_processes_is_swept_and_of_live_ones_kept(table: Path) -> None:
    dead, old, mine = "_zskip/staging/dead", "_zskip/staging/old", opened(table).stage()
    storage = LocalStorage(str(table))
    storage.write(f"{dead}/_owner.json", dead_owner())
    storage.write(f"{old}/_owner.json", owner(host="another"))
    os.utime(table / old / "_owner.json", (OLD, OLD))
    storage.write("_zskip/staging/far/_owner.json", owner(host="another"))
    other = opened(table).stage()
    left = {f.path for f in storage.list_dir("_zskip/staging")}
    assert left == {mine, other, "_zskip/staging/far"}


# New tables


def test_a_new_table_appears_whole(tmp_path: Path) -> None:
    parent = LocalStorage(str(tmp_path))
    hidden = new_table.begin(parent, "new")
    assert is_hidden(hidden)
    write(tmp_path / hidden / "p=1" / "a.parquet", [1])
    assert not (tmp_path / "new").exists()
    new_table.publish(parent, hidden, "new")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new"]
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["p=1"], "the owner's note is gone"
    assert snapshot(tmp_path / "new").paths == ("p=1/a.parquet",)


def test_an_empty_directory_is_no_table_yet(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    parent = LocalStorage(str(tmp_path))
    hidden = new_table.begin(parent, "new")
    write(tmp_path / hidden / "a.parquet", [1])
    new_table.publish(parent, hidden, "new")
    assert snapshot(tmp_path / "new").paths == ("a.parquet",)


@pytest.mark.parametrize("make", [lambda p: p.write_bytes(b"1"), lambda p: write(p / "x.parquet")], ids=["file", "dir"])
def test_a_taken_place_is_refused_at_the_start_and_at_the_end(tmp_path: Path, make: Callable[[Path], object]) -> None:
    parent = LocalStorage(str(tmp_path))
    make(tmp_path / "new")
    with pytest.raises(InputError, match="taken already"):
        new_table.begin(parent, "new")
    hidden = new_table.begin(parent, "later")
    write(tmp_path / hidden / "a.parquet", [1])
    make(tmp_path / "later")
    before = {p: p.is_file() and p.read_bytes() for p in (tmp_path / "later").rglob("*")}
    with pytest.raises(InputError, match="taken meanwhile"):
        new_table.publish(parent, hidden, "later")
    assert {p: p.is_file() and p.read_bytes() for p in (tmp_path / "later").rglob("*")} == before


def test_what_dead_processes_began_is_swept(tmp_path: Path) -> None:
    parent = LocalStorage(str(tmp_path))
    child = os.fork()
    if child == 0:
        new_table.begin(parent, "new")
        new_table.begin(parent, "other")
        os._exit(0)
    os.waitpid(child, 0)
    assert len(list(tmp_path.glob(".new.zskip-*"))) == 1
    live = new_table.begin(parent, "new")
    new_table.begin(parent, "new")
    assert (tmp_path / live).exists(), "that of a live process stays"
    assert len(list(tmp_path.glob(".new.zskip-*"))) == 2
    assert len(list(tmp_path.glob(".other.zskip-*"))) == 1, "that of another table is not looked at"


# Footers


def inspected(path: Path, **options: Any) -> tuple[list[int], str]:
    storage = LocalStorage(str(path))
    inspection = inspect_footers(storage, ParquetFormat(storage).snapshot(), **options)
    return inspection.rows.tolist(), inspection.codec


def test_rows_and_codec_of_each_file(tmp_path: Path) -> None:
    for i, (rows, codec) in enumerate([(3, "zstd"), (5, "snappy"), (4, "zstd"), (0, "gzip")]):
        pq.write_table(
            pa.table({"id": pa.array(range(rows), pa.int64())}), tmp_path / f"{i}.parquet", compression=codec
        )
    assert inspected(tmp_path) == ([3, 5, 4, 0], "zstd")


def test_files_without_rows_have_no_codec(tmp_path: Path) -> None:
    pq.ParquetWriter(tmp_path / "a.parquet", pa.schema({"id": pa.int64()})).close()
    assert inspected(tmp_path) == ([0], "")


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (pa.table({"id": [1], "more": [1]}), 'column "more" is absent'),
        (pa.table({"id": ["1"]}), 'column "id" is long'),
        (pa.table({"id": pa.array([1], pa.int32())}), 'column "id" is long'),
        (pa.table({"ID": [1]}), "absent"),
        (pa.table({"id": [[1]]}), 'column "id" is long'),
    ],
)
def test_mixed_schemas_are_refused_unless_spark_merges(tmp_path: Path, other: pa.Table, says: str) -> None:
    write(tmp_path / "a.parquet", [1])
    pq.write_table(other, tmp_path / "b.parquet")
    with pytest.raises(UnsupportedError, match="mergeSchema") as caught:
        inspected(tmp_path)
    assert says in str(caught.value)
    assert "a.parquet" in str(caught.value)
    assert "b.parquet" in str(caught.value)
    assert inspected(tmp_path, merge=True)[0] == [1, 1]


@pytest.mark.parametrize(
    ("kind", "inferred", "lost"),
    [
        (pa.int64(), [], "v"),
        (pa.struct({"x": pa.int64(), "Y": pa.int64()}), [("x", "long")], "v.Y"),
        (pa.list_(pa.struct({"x": pa.int64(), "y": pa.int64()})), [("x", "long")], "v.element.y"),
        (pa.map_(pa.string(), pa.struct({"x": pa.int64(), "y": pa.int64()})), [("x", "long")], "v.value.y"),
        (pa.struct({"x": pa.list_(pa.struct({"y": pa.int64()}))}), [("x", "array<struct<z>>")], "v.x.element.y"),
    ],
)
@pytest.mark.parametrize("merge", [True, False])
def test_what_spark_has_not_inferred_is_refused(
    tmp_path: Path, kind: pa.DataType, inferred: list[tuple[str, str]], lost: str, merge: bool
) -> None:
    fields = [{"name": name, "type": text if "<" not in text else _array_of_z()} for name, text in inferred]
    described: Any = {"type": "struct", "fields": fields}
    if pa.types.is_list(kind):
        described = {"type": "array", "elementType": described}
    elif pa.types.is_map(kind):
        described = {"type": "map", "keyType": "string", "valueType": described}
    columns = [{"name": "ID", "type": "long"}, *([{"name": "V", "type": described}] if inferred else [])]
    for name in ("a", "b"):
        pq.write_table(pa.table({"id": [1], "v": pa.array([None], kind)}), tmp_path / f"{name}.parquet")
    schema = json.dumps({"type": "struct", "fields": columns})
    with pytest.raises(UnsupportedError, match=rf'a.parquet" has the column "{lost}".*mergeSchema.*_common_metadata'):
        inspected(tmp_path, merge=merge, inferred=schema)
    with pytest.raises(UnsupportedError, match='"id"'):
        inspected(tmp_path, merge=merge, inferred=schema, case_sensitive=True)
    assert inspected(tmp_path, merge=merge)[0] == [1, 1]


def _array_of_z() -> dict[str, Any]:
    return {"type": "array", "elementType": {"type": "struct", "fields": [{"name": "z", "type": "long"}]}}


@pytest.mark.parametrize("text", ['{"type":"struct","fields":[{"name":"a"', "StructType(List())", "[]", '{"a": 1}', ""])
def test_a_broken_schema_of_spark_does_not_count(tmp_path: Path, text: str) -> None:
    key = "org.apache.spark.sql.parquet.row.metadata"
    rows = pa.table({"id": [1]}).replace_schema_metadata({key: text + "__COLLATIONS"})
    pq.write_table(rows, tmp_path / "a.parquet")
    snap = snapshot(tmp_path)
    assert [(f.name, str(f.type)) for f in snap.fields] == [("id", "long")]
    bound = bind_footers(LocalStorage(str(tmp_path)), snap).column(("id",))
    assert bound is not None
    assert bound.upper.tolist() == [1]


def test_the_order_of_columns_and_nullability_do_not_matter(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1], "y": ["a"], "z": [[{"b": 1}]]}), tmp_path / "a.parquet")
    element = pa.field("element", pa.struct([pa.field("b", pa.int64(), False)]), False)
    kinds = {"y": pa.string(), "x": pa.int64(), "z": pa.list_(element)}
    schema = pa.schema([pa.field(name, kind, False) for name, kind in kinds.items()])
    pq.write_table(pa.table({"y": ["b"], "x": [2], "z": [[{"b": 1}]]}, schema=schema), tmp_path / "b.parquet")
    assert inspected(tmp_path)[0] == [1, 1]


def test_int96_and_microseconds_are_both_timestamps(tmp_path: Path) -> None:
    at = pa.array([dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)], pa.timestamp("us", tz="UTC"))
    rows = pa.table({"at": at, "all": pa.array([[at[0].as_py()]], pa.list_(pa.timestamp("us", tz="UTC")))})
    pq.write_table(rows, tmp_path / "a.parquet")
    pq.write_table(rows, tmp_path / "b.parquet", use_deprecated_int96_timestamps=True)
    assert inspected(tmp_path)[0] == [1, 1]


@pytest.mark.parametrize("damage", [lambda b: b[:-20], lambda b: b"x" * len(b), lambda b: b[:3], lambda b: b[:-8]])
def test_a_corrupt_file_is_named(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    for name in ("a", "b", "c"):
        write(tmp_path / f"{name}.parquet", [1])
    broken = tmp_path / "b.parquet"
    broken.write_bytes(damage(broken.read_bytes()))
    with pytest.raises(CorruptFileError, match=r"b\.parquet.*restore it") as caught:
        inspected(tmp_path)
    assert "\n" not in str(caught.value)


def test_files_that_differ_in_little_are_told_apart(tmp_path: Path) -> None:
    """Columns are read once of footers that say the same of them."""
    one, two = pa.struct([("x", pa.int64())]), pa.struct([("y", pa.int64())])
    types = (pa.int64(), pa.string(), pa.int64(), one, two, pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.int64())
    for i, kind in enumerate(types):
        pq.write_table(pa.table({"a": pa.array([None] * i, kind)}), tmp_path / f"{i}.parquet", compression="gzip")
    pq.write_table(pa.table({"b": [1, 2]}), tmp_path / "8.parquet", compression="zstd")
    names = [f"{i}.parquet" for i in range(9)]
    footers = list(read_footers(LocalStorage(str(tmp_path)), [(name, 0) for name in names]))
    assert [footer.rows for footer in footers] == [*range(8), 2]
    assert [footer.columns for footer in footers] == [
        _columns(pq.read_metadata(tmp_path / name).schema) for name in names
    ]
    kinds = [footer.columns[0][1] for footer in footers]
    assert kinds[0] == kinds[2] == kinds[7] != kinds[1]
    assert len({kinds[i] for i in (1, 3, 4, 5, 6)}) == 5
    assert [footer.codec for footer in footers] == ["gzip"] * 8 + ["zstd"]


def test_a_file_that_is_gone_may_have_been_replaced(tmp_path: Path) -> None:
    with pytest.raises(CorruptFileError, match=r'part-1\.parquet" is gone; if another writer has replaced it'):
        list(read_footers(LocalStorage(str(tmp_path)), [("part-1.parquet", 1)]))
