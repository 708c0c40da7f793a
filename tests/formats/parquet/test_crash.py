"""SIGKILL at each step of a commit of plain Parquet: the table is as before or as after, never mixed, and is mended.

The process that mends is killed as well, and so is one inside `LocalStorage`, between two calls of the system.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiers

from zskip.errors import StorageError
from zskip.formats import ParquetFormat, StagedFile
from zskip.formats.base import STAGED
from zskip.formats.hive import is_hidden
from zskip.formats.parquet.log import REPLACED
from zskip.storage import FileInfo, Kind, LocalStorage, Storage

FLAT = ("",)
HIVE = ("region=us%20east/day=2024-01-02", "region=__HIVE_DEFAULT_PARTITION__/day=x")
FILES = 2
ROWS = 8
MANY = 300
"""More steps than any commit here has."""


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed process wrote, the system keeps; only a loss of power asks for more, and that takes time."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


class CrashingStorage:
    """Hands everything to another storage, and kills its process before or after the k-th change."""

    def __init__(self, inner: Storage, step: int, after: bool) -> None:
        self._inner = inner
        self._step = step
        self._after = after
        self._count = 0
        self._lock = threading.Lock()

    @property
    def root(self) -> str:
        return self._inner.root

    @property
    def kind(self) -> Kind:
        return self._inner.kind

    @property
    def options(self) -> Mapping[str, str]:
        return self._inner.options

    def uri(self, path: str) -> str:
        return self._inner.uri(path)

    def is_dir(self, path: str) -> bool:
        return self._inner.is_dir(path)

    def is_exclusive(self) -> bool:
        return self._inner.is_exclusive()

    def walk(self, skip: Callable[[str], bool]) -> list[FileInfo]:
        return self._inner.walk(skip)

    def list_dir(self, path: str) -> list[FileInfo]:
        return self._inner.list_dir(path)

    def stat(self, path: str) -> FileInfo | None:
        return self._inner.stat(path)

    def read(self, path: str) -> bytes:
        return self._inner.read(path)

    def open(self, path: str, size: int | None = None) -> BinaryIO:
        return self._inner.open(path, size)

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        self._step_of(lambda: self._inner.write(path, data, overwrite=overwrite))

    def rename(self, source: str, target: str) -> None:
        self._step_of(lambda: self._inner.rename(source, target))

    def delete(self, path: str) -> None:
        self._step_of(lambda: self._inner.delete(path))

    def _step_of(self, work: Callable[[], None]) -> None:
        with self._lock:
            self._count += 1
            mine = self._count == self._step
        if mine and not self._after:
            die()
        try:
            work()
        finally:
            if mine:
                die()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def is_killed(work: Callable[[], object]) -> bool:
    """Run in a forked process; whether it was killed rather than done."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the child failed by itself"
    return os.WIFSIGNALED(status)


def make(path: Path, directories: Sequence[str]) -> Path:
    for d, directory in enumerate(directories):
        (path / directory).mkdir(parents=True)
        for i in range(FILES):
            start = (d * FILES + i) * ROWS
            table = pa.table({"id": range(start, start + ROWS), "copy": [7] * ROWS})
            pq.write_table(table, path / directory / f"part-{i}.parquet")
    return path


class Copied(LocalStorage):
    """As an object store: a rename is a copy, after which the source is deleted."""

    kind: Any = "objects"

    def rename(self, source: str, target: str) -> None:
        if self.stat(target) is not None:
            raise FileExistsError(target)
        self.write(target, self.read(source), overwrite=True)
        self.delete(source)


class Places:
    """What the tests' tables lie in."""

    kind: type[LocalStorage] = LocalStorage


@pytest.fixture(params=[LocalStorage, Copied], ids=["disk", "store"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Places, "kind", request.param)


class ReadOnly(LocalStorage):
    """Refuses every change."""

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        raise StorageError("read-only")

    def rename(self, source: str, target: str) -> None:
        raise StorageError("read-only")

    def delete(self, path: str) -> None:
        raise StorageError("read-only")


def local(path: Path) -> LocalStorage:
    return Places.kind(str(path))


def rewrite(storage: Storage, path: Path, name: str = "new") -> None:
    """Replace each partition's files by others that hold the same rows in another order."""
    table = ParquetFormat(storage)
    base = table.snapshot()
    staging = table.stage()
    added = []
    for number, partition in enumerate(base.partitions):
        files = [path / p for p, of in zip(base.paths, base.partition_of, strict=True) if of == number]
        rows = pa.concat_tables(pq.ParquetFile(f).read() for f in files)
        rows = rows.take(np.random.default_rng(0).permutation(len(rows)))
        half = len(rows) // 2
        for i, part in enumerate((rows.slice(0, half), rows.slice(half))):
            staged = f"{staging}/{name}-{number}-{i}.parquet{STAGED}"
            pq.write_table(part, path / staged)
            added.append(StagedFile(path=staged, directory=partition.directory, size=(path / staged).stat().st_size))
    table.replace(base, np.ones(len(base), bool), added)


def visible(path: Path) -> set[Path]:
    """The files that any reader sees."""
    return {path / file.path for file in local(path).walk(is_hidden)}


def rows_of(files: set[Path]) -> Counter[tuple[Any, ...]]:
    counts: Counter[tuple[Any, ...]] = Counter()
    for file in files:
        table = pq.ParquetFile(file).read()
        # With its partition, so that a file cannot go astray.
        counts.update((file.parent, *row.values()) for row in table.to_pylist())
    return counts


def ids_of(rows: Counter[tuple[Any, ...]]) -> list[int]:
    return sorted(row[1] for row in rows.elements())


def check_whole(path: Path, old: set[Path], expected: Counter[tuple[Any, ...]]) -> bool:
    """One call of zskip gives one version whole, and so do all readers after it; whether that is the new version."""
    assert not list((path / "_zskip").rglob("*.parquet")), "who reads **/*.parquet reads their rows"
    unfinished = ParquetFormat(ReadOnly(str(path))).snapshot()
    assert ids_of(rows_of({path / p for p in unfinished.paths})) == ids_of(expected)
    snapshot = ParquetFormat(local(path)).snapshot()
    live = {path / p for p in snapshot.paths}
    assert len(live) == len(snapshot)
    assert live == old or not live & old, "a mixture of both versions"
    assert all(f.is_file() for f in live)
    assert rows_of(live) == expected
    assert visible(path) == live
    return live != old


def check_mended(path: Path, old: set[Path], expected: Counter[tuple[Any, ...]]) -> None:
    """The same, and a later rewrite succeeds and leaves nothing of the dead."""
    check_whole(path, old, expected)
    live = visible(path)
    for staging in (path / "_zskip" / "staging").glob("*"):
        owner = staging / "_owner.json"
        if not owner.exists() or owner.stat().st_size == 0:
            # Killed before it was written down whose it is: nobody can tell that the process is dead, for a day.
            for file in (*staging.iterdir(), staging):
                os.utime(file, (0, 0))
    rewrite(local(path), path, "later")
    assert not visible(path) & live
    assert rows_of(visible(path)) == expected
    assert local(path).list_dir("_zskip/staging") == []
    assert local(path).list_dir("_zskip/trash") == []


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("directories", tiers.first([list(HIVE), list(FLAT)]), ids=["hive", "flat"])
def test_every_step(tmp_path: Path, directories: list[str], after: bool) -> None:
    outcomes = []
    for step in range(1, MANY):
        path = make(tmp_path / str(step), directories)
        old = visible(path)
        expected = rows_of(old)
        killed = is_killed(lambda path=path, step=step: rewrite(CrashingStorage(local(path), step, after), path))
        outcomes.append(check_whole(path, old, expected))
        check_mended(path, old, expected)
        if not killed:
            break
    assert outcomes == sorted(outcomes), "once committed, committed for good"
    assert set(outcomes) == {False, True}
    assert len(outcomes) > 4 * len(directories)


@pytest.mark.slow
def test_every_step_of_mending_every_step(tmp_path: Path) -> None:
    """The first dies after its n-th step, those that mend after their k-th."""
    for step in range(1, MANY):
        for mending in range(1, MANY):
            path = make(tmp_path / f"{step}-{mending}", HIVE[:1])
            old = visible(path)
            expected = rows_of(old)
            done = not is_killed(lambda path=path, step=step: rewrite(CrashingStorage(local(path), step, True), path))
            deaths = 0
            # Three of them, since whoever always dies before the step that is left gets nowhere.
            while deaths < 3 and is_killed(
                lambda path=path, k=mending: ParquetFormat(CrashingStorage(local(path), k, True)).snapshot()
            ):
                deaths += 1
            check_whole(path, old, expected)
            if deaths == 0:
                check_mended(path, old, expected)
                break
        if done:
            return
    pytest.fail("the rewrite never ended")


class Syscalls:
    """Kills the process before or after the k-th call of the system that changes a name."""

    NAMES = ("link", "replace", "rename", "unlink", "rmdir", "makedirs")

    def __init__(self, step: int, after: bool, links: bool) -> None:
        self._left = step
        self._after = after
        for name in self.NAMES:
            setattr(os, name, self._dying(getattr(os, name)))
        if not links:
            os.link = self._refuse

    @staticmethod
    def _refuse(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "no hard links")

    def _dying(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def work(*args: Any, **options: Any) -> Any:
            self._left -= 1
            mine = self._left == 0
            if mine and not self._after:
                die()
            try:
                return call(*args, **options)
            finally:
                if mine:
                    die()

        return work


@pytest.mark.parametrize(
    ("kind", "links"),
    tiers.first([(LocalStorage, True), (LocalStorage, False), (Copied, True)]),
    ids=["links", "no-links", "copies"],
)
@pytest.mark.parametrize("mend", tiers.first([False, True]), ids=["commit", "mend"])
def test_every_system_call(
    tmp_path: Path, mend: bool, kind: type[LocalStorage], links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also between a link or copy and the unlink after it, and within a file system that has no links."""
    monkeypatch.setattr(Places, "kind", kind)
    for step in range(1, MANY):
        path = make(tmp_path / str(step), FLAT)
        old = visible(path)
        expected = rows_of(old)
        if mend:
            cut_short(path)

        def work(path: Path = path, step: int = step) -> None:
            Syscalls(step, False, links)
            if mend:
                ParquetFormat(local(path)).snapshot()
            else:
                rewrite(local(path), path)

        killed = is_killed(work)
        log = path / "_zskip" / "log" / f"{1:020d}.json"
        if not links and log.exists() and log.stat().st_size == 0:
            # Without links the one step that cannot be made at once: the name of the entry is taken, its content is
            # not there. Nothing was moved yet; zskip says so and stops.
            assert visible(path) == old
            log.unlink()
        check_mended(path, old, expected)
        if not killed:
            assert step > 10
            return
    pytest.fail("never ended")


def cut_short(path: Path) -> None:
    """Leave a commit of which nothing is moved."""
    for step in range(1, MANY):
        is_killed(lambda step=step: rewrite(CrashingStorage(local(path), step, True), path))
        if any((path / "_zskip" / "log").glob("*.json")):
            return
    pytest.fail("never committed")


@pytest.mark.parametrize("directories", [FLAT, HIVE], ids=["flat", "hive"])
def test_renames_between_link_and_unlink(tmp_path: Path, directories: tuple[str, ...]) -> None:
    path = make(tmp_path / "t", directories)
    old = visible(path)
    expected = rows_of(old)
    cut_short(path)
    entry = ParquetFormat(local(path)).last_operation()
    assert entry is not None
    for file in old:
        trash = path / "_zskip" / "trash" / f"{entry[0]:020d}" / f"{file.relative_to(path)}{REPLACED}"
        trash.parent.mkdir(parents=True, exist_ok=True)
        os.link(file, trash)
    for staged in (path / "_zskip" / "staging").glob(f"*/new-*{STAGED}"):
        os.link(staged, path / sorted(directories)[int(staged.name.split("-")[1])] / staged.stem)
    assert check_whole(path, old, expected)


def test_a_full_disk_at_every_step_is_an_error_and_no_loss(tmp_path: Path) -> None:
    class Full(CrashingStorage):
        def _step_of(self, work: Callable[[], None]) -> None:
            self._count += 1
            if self._count >= self._step:
                raise StorageError("the disk is full")
            work()

    for step in range(1, MANY):
        path = make(tmp_path / str(step), HIVE)
        old = visible(path)
        expected = rows_of(old)
        full = Full(local(path), step, False)
        try:
            rewrite(full, path)
        except StorageError:
            # Reads go on, by the log if need be.
            snapshot = ParquetFormat(full).snapshot()
            assert ids_of(rows_of({path / f for f in snapshot.paths})) == ids_of(expected)
        else:
            return
        check_whole(path, old, expected)
    pytest.fail("never ended")


def test_a_lost_staged_file_is_said_before_anything_is_deleted(tmp_path: Path) -> None:
    path = make(tmp_path / "t", FLAT)
    expected = rows_of(visible(path))
    cut_short(path)
    next((path / "_zskip" / "staging").rglob(f"new-*{STAGED}")).unlink()
    with pytest.raises(StorageError, match="safe in"):
        ParquetFormat(local(path)).snapshot()
    kept = {*visible(path), *(path / "_zskip" / "trash").rglob(f"*.parquet{REPLACED}")}
    assert set(ids_of(expected)) <= set(ids_of(rows_of(kept)))


def test_an_abort_never_takes_what_is_committed(tmp_path: Path) -> None:
    path = make(tmp_path / "t", FLAT)
    old = visible(path)
    expected = rows_of(old)
    cut_short(path)
    (staging,) = local(path).list_dir("_zskip/staging")
    table = ParquetFormat(local(path))
    table.abort(staging.path)
    table.stage()
    assert check_whole(path, old, expected)
