"""SIGKILL before and after every single step of a commit: the table is as before or as after, and is mended."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiers
from crashes import Dying

from zskip.errors import ConflictError, IndexFormatError, StorageError
from zskip.formats import ParquetFormat, StagedFile
from zskip.formats.base import STAGED
from zskip.formats.hive import is_hidden
from zskip.formats.parquet.log import REPLACED
from zskip.storage import FileInfo, LocalStorage

DIRECTORIES = ("", "day=1", "day=2/region=a%3Db")
ROWS = 30


class ReadOnly(LocalStorage):
    """Refuses every change."""

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        raise StorageError("read-only")

    def rename(self, source: str, target: str) -> None:
        raise StorageError("read-only")

    def delete(self, path: str) -> None:
        raise StorageError("read-only")


def make(path: Path, directories: Sequence[str]) -> None:
    for d, directory in enumerate(directories):
        (path / directory).mkdir(parents=True, exist_ok=True)
        for i in range(3):
            ids = np.arange(ROWS // 3) + i * ROWS // 3 + d * ROWS
            pq.write_table(pa.table({"id": ids}), path / directory / f"old-{i}.parquet")


def rows(files: list[Path]) -> list[int]:
    return sorted(x for f in files for x in pq.ParquetFile(f).read().column("id").to_pylist())


def visible(path: Path) -> list[Path]:
    return [path / file.path for file in LocalStorage(str(path)).walk(is_hidden)]


def rewrite(table: ParquetFormat, path: Path, name: str = "new") -> int:
    """Replace each partition's files by one with the same rows."""
    base = table.snapshot()
    staging = table.stage()
    added = []
    for number, partition in enumerate(base.partitions):
        old_files = [path / p for p, of in zip(base.paths, base.partition_of, strict=True) if of == number]
        staged = f"{staging}/{name}-{number}.parquet{STAGED}"
        pq.write_table(pa.table({"id": rows(old_files)[::-1]}), path / staged)
        added.append(StagedFile(path=staged, directory=partition.directory, size=(path / staged).stat().st_size))
    return table.replace(base, np.ones(len(base), bool), added)


def dies(work: Callable[[], object]) -> bool:
    """Run in a forked process; whether it was killed rather than done."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def check(path: Path, expected: list[int], names: set[str]) -> None:
    """zskip reads one version whole, at once; any reader does after zskip's call."""
    unfinished = ParquetFormat(ReadOnly(str(path))).snapshot()
    assert rows([path / p for p in unfinished.paths]) == expected
    snapshot = ParquetFormat(LocalStorage(str(path))).snapshot()
    assert {p.rpartition("/")[2][:3] for p in snapshot.paths} in [{name} for name in names]
    assert sorted(visible(path)) == sorted(path / p for p in snapshot.paths)
    assert rows(visible(path)) == expected


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("directories", tiers.first([["day=1"], [""], ["day=1/r=x", "day=2/r=y%3D"]]))
def test_killed_at_every_step(tmp_path: Path, directories: list[str], after: bool) -> None:
    for step in range(1, 200):
        path = tmp_path / str(step)
        make(path, directories)
        expected = rows(visible(path))
        killed = dies(lambda path=path, step=step: rewrite(ParquetFormat(Dying(str(path), step, after)), path))
        check(path, expected, {"old", "new"})
        rewrite(ParquetFormat(LocalStorage(str(path))), path, "two")
        check(path, expected, {"two"})
        left = [p for p in (path / "_zskip").rglob("*") if p.is_file() and "log" not in p.parts]
        assert left == []
        if not killed:
            assert step >= 10
            return
    pytest.fail("the rewrite never ended")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_while_finishing_what_was_cut_short(tmp_path: Path, after: bool) -> None:
    first = next(s for s in range(1, 200) if committed_at(tmp_path / f"probe-{s}", s))
    for step in range(1, 200):
        path = tmp_path / str(step)
        make(path, ("",))
        expected = rows(visible(path))
        assert dies(lambda path=path: rewrite(ParquetFormat(Dying(str(path), first, True)), path))
        killed = dies(lambda path=path, step=step: ParquetFormat(Dying(str(path), step, after)).snapshot())
        check(path, expected, {"new"})
        if not killed:
            assert step > 4
            return
    pytest.fail("finishing never ended")


def committed_at(path: Path, step: int) -> bool:
    """Whether a process killed after this step leaves a commit that is not finished."""
    make(path, ("",))
    dies(lambda: rewrite(ParquetFormat(Dying(str(path), step, True)), path))
    return any((path / "_zskip" / "log").glob("*.json"))


def test_a_rename_cut_short_between_link_and_unlink(tmp_path: Path) -> None:
    make(tmp_path, ("",))
    expected = rows(visible(tmp_path))
    first = next(s for s in range(1, 200) if committed_at(tmp_path.parent / f"{tmp_path.name}-{s}", s))
    assert dies(lambda: rewrite(ParquetFormat(Dying(str(tmp_path), first, True)), tmp_path))
    (staged,) = (tmp_path / "_zskip" / "staging").rglob(f"new-0.parquet{STAGED}")
    os.link(staged, tmp_path / "new-0.parquet")
    (tmp_path / "_zskip" / "trash" / f"{1:020d}").mkdir(parents=True)
    os.link(tmp_path / "old-0.parquet", tmp_path / "_zskip" / "trash" / f"{1:020d}" / f"old-0.parquet{REPLACED}")
    check(tmp_path, expected, {"new"})


def test_of_two_writers_one_commits_and_the_other_changes_nothing(tmp_path: Path) -> None:
    make(tmp_path, ("",))
    expected = rows(visible(tmp_path))
    slow = ParquetFormat(LocalStorage(str(tmp_path)))
    base, staging = slow.snapshot(), slow.stage()
    pq.write_table(pa.table({"id": expected}), tmp_path / staging / "slow.parquet")
    rewrite(ParquetFormat(LocalStorage(str(tmp_path))), tmp_path)
    added = [
        StagedFile(
            path=f"{staging}/slow.parquet", directory="", size=(tmp_path / staging / "slow.parquet").stat().st_size
        )
    ]
    with pytest.raises(ConflictError, match="is gone"):
        slow.replace(base, np.ones(len(base), bool), added)
    slow.abort(staging)
    check(tmp_path, expected, {"new"})
    assert not (tmp_path / staging).exists()


def test_a_source_changed_meanwhile_is_a_conflict(tmp_path: Path) -> None:
    make(tmp_path, ("",))
    table = ParquetFormat(LocalStorage(str(tmp_path)))
    base, staging = table.snapshot(), table.stage()
    pq.write_table(pa.table({"id": [1]}), tmp_path / staging / "x.parquet")
    pq.write_table(pa.table({"id": [999]}), tmp_path / "old-1.parquet")
    before = rows(visible(tmp_path))
    with pytest.raises(ConflictError, match="was changed"):
        table.replace(base, np.ones(len(base), bool), [StagedFile(path=f"{staging}/x.parquet", directory="", size=1)])
    assert rows(visible(tmp_path)) == before


def test_an_abort_never_takes_what_is_committed(tmp_path: Path) -> None:
    make(tmp_path, ("",))
    expected = rows(visible(tmp_path))
    first = next(s for s in range(1, 200) if committed_at(tmp_path.parent / f"{tmp_path.name}-{s}", s))
    assert dies(lambda: rewrite(ParquetFormat(Dying(str(tmp_path), first, True)), tmp_path))
    table = ParquetFormat(LocalStorage(str(tmp_path)))
    (staging,) = LocalStorage(str(tmp_path)).list_dir("_zskip/staging")
    table.abort(staging.path)
    table.stage()
    check(tmp_path, expected, {"new"})


def test_a_lost_staged_file_is_said_before_anything_is_deleted(tmp_path: Path) -> None:
    make(tmp_path, ("",))
    expected = rows(visible(tmp_path))
    first = next(s for s in range(1, 200) if committed_at(tmp_path.parent / f"{tmp_path.name}-{s}", s))
    assert dies(lambda: rewrite(ParquetFormat(Dying(str(tmp_path), first, True)), tmp_path))
    (staged,) = (tmp_path / "_zskip" / "staging").rglob(f"new-0.parquet{STAGED}")
    staged.unlink()
    with pytest.raises(StorageError, match="safe in"):
        ParquetFormat(LocalStorage(str(tmp_path))).snapshot()
    kept = [*visible(tmp_path), *(tmp_path / "_zskip" / "trash").rglob(f"*.parquet{REPLACED}")]
    assert rows(kept) == expected


def test_a_log_of_another_version_stops_everything(tmp_path: Path) -> None:
    make(tmp_path, ("",))
    LocalStorage(str(tmp_path)).write(f"_zskip/log/{1:020d}.json", b'{"format": 99}')
    with pytest.raises(IndexFormatError, match="99"):
        ParquetFormat(LocalStorage(str(tmp_path))).snapshot()


def test_a_listing_of_many_files_is_one_look_at_each(tmp_path: Path) -> None:
    for i in range(2000):
        (tmp_path / f"part-{i}.parquet").touch()
    files = LocalStorage(str(tmp_path)).walk(is_hidden)
    assert len(files) == 2000
    assert isinstance(files[0], FileInfo)
