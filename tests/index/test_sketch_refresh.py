"""Refreshes with sketches that run at once, are killed, or see the files change under them: nothing is lost."""

from __future__ import annotations

import itertools
import os
import random
import signal
import threading
import time
import warnings
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sketch_files
from crashes import Crash, dying

from zskip.errors import ZskipWarning
from zskip.index import Index, refresh, refresh_sketches
from zskip.index.store import sketches
from zskip.index.store.segment import INDEX_DIR
from zskip.predicate import Columns, parse
from zskip.records import Field, Snapshot
from zskip.sketch import parse_sketch_on
from zskip.types import DataType

FIELDS = {"a": "long", "b": "long"}
COLUMNS = Columns([Field(name=name, type=DataType(kind)) for name, kind in FIELDS.items()])
SKETCHES = ["values(4):a", "ranges(4):b"]


def write(root: Path, number: int) -> None:
    """A file that alone holds its number, within the bounds of all others; whole, or not there."""
    hidden = root / f".{number}.tmp"
    pq.write_table(pa.table({"a": [0, number, 10**6], "b": [0, number, 10**6]}), hidden)
    hidden.rename(root / f"{number:04}.parquet")


def numbers(snapshot: Snapshot) -> list[int]:
    return [int(path[:4]) for path in snapshot.paths]


class Refresher:
    """Brings the index of a directory up to date, sketches included."""

    def __init__(self, storage: Any, snap: Callable[..., Snapshot]) -> None:
        self.storage, self.snap = storage, snap
        self.root = Path(storage.root)

    def snapshot(self) -> Snapshot:
        return self.snap(self.storage, FIELDS)

    def refresh(self, add: list[str] = SKETCHES, drop: tuple[str, ...] = ()) -> Index:
        snapshot = self.snapshot()
        return sketch_files.sketched(refresh(self.storage, snapshot), self.root, snapshot, add, drop)

    def overtaken(self, other: Callable[[], object], add: list[str] = SKETCHES, *, before: bool) -> Index:
        """A refresh during which something else happens, before or after it reads the files."""
        snapshot = self.snapshot()
        index, build = refresh(self.storage, snapshot), sketch_files.builder(self.root, snapshot)

        def slow(*arguments: Any) -> Any:
            if before:
                other()
            states = build(*arguments)
            if not before:
                other()
            return states

        every = snapshot.sizes >= 0
        return refresh_sketches(index, snapshot, slow, every, add=[parse_sketch_on(text, COLUMNS) for text in add])

    def check(self, *, whole: bool) -> None:
        """The newest version is sound and loses no file; whether it knows all of them, and each by both sketches."""
        snapshot = self.snapshot()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            index = Index.load(self.storage)
            assert index is not None
            bound = index.bind(snapshot)
            assert not whole or [s.files for s in bound.info().sketches] == [len(snapshot)] * 2
            file_numbers = numbers(snapshot)
            for i, number in enumerate(file_numbers):
                for column in FIELDS:
                    kept = bound.prune(parse(f"{column} = {number}", COLUMNS)).kept
                    assert kept[i], number
                    assert not whole or kept.sum() == 1, number


@pytest.fixture
def refresher(storage: Any, snap: Any) -> Refresher:
    return Refresher(storage, snap)


def age(root: Path) -> None:
    """Make all files of the index so old that no reader can need what was replaced."""
    for path in (root / INDEX_DIR).iterdir():
        os.utime(path, (1, 1))


# Two at once


@pytest.mark.parametrize("before", [False, True])
def test_each_of_two_refreshes_keeps_what_the_other_built(refresher: Refresher, before: bool) -> None:
    for number in (1, 2):
        write(refresher.root, number)
    refresher.refresh()

    def other() -> None:
        write(refresher.root, 4)
        refresher.refresh()

    write(refresher.root, 3)
    refresher.overtaken(other, before=before)
    refresher.check(whole=True)


@pytest.mark.parametrize("before", [False, True])
def test_each_of_two_refreshes_keeps_the_sketches_that_the_other_added(refresher: Refresher, before: bool) -> None:
    write(refresher.root, 1)
    refresher.overtaken(lambda: refresher.refresh(SKETCHES[1:]), SKETCHES[:1], before=before)
    refresher.check(whole=True)


def test_a_merge_keeps_what_came_meanwhile(refresher: Refresher, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, 5):
        write(refresher.root, number)
        refresher.refresh()

    def other() -> None:
        write(refresher.root, 9)
        refresher.refresh()
        monkeypatch.setattr(sketches, "_MAX_SEGMENTS", 1)

    write(refresher.root, 5)
    index = refresher.overtaken(other, before=True)
    assert [len(record.segments) for record in index.manifest.sketches] == [2, 2]
    refresher.check(whole=True)


def test_a_sketch_that_was_dropped_meanwhile_stays_dropped(refresher: Refresher) -> None:
    for number in (1, 2):
        write(refresher.root, number)
        refresher.refresh()
    write(refresher.root, 3)
    index = refresher.overtaken(lambda: refresher.refresh([], tuple(SKETCHES[:1])), [], before=False)
    assert [record.spec for record in index.manifest.sketches] == SKETCHES[1:]
    refresher.check(whole=False)
    refresher.refresh()
    refresher.check(whole=True)


def work(refresher: Refresher, first: int, count: int | None) -> None:
    for number in itertools.count(first) if count is None else range(first, first + count):
        write(refresher.root, number)
        refresher.refresh()


@pytest.mark.parametrize("make", [threading.Thread, get_context("fork").Process])
def test_many_refreshes_at_once(make: Any, refresher: Refresher) -> None:
    workers = [make(target=work, args=(refresher, first, 4)) for first in (100, 200, 300)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert numbers(refresher.snapshot()) == [first + i for first in (100, 200, 300) for i in range(4)]
    refresher.check(whole=False)
    refresher.refresh()
    refresher.check(whole=True)


# Files that change meanwhile, as in an optimize


def rewrite(refresher: Refresher) -> None:
    """Other files in place of all, and their sketches."""
    for number in numbers(refresher.snapshot()):
        (refresher.root / f"{number:04}.parquet").unlink()
        write(refresher.root, number + 500)
    refresher.refresh([])


def test_files_that_were_replaced_after_they_were_read_leave_nothing_behind(refresher: Refresher) -> None:
    for number in range(1, 5):
        write(refresher.root, number)
    refresher.overtaken(lambda: rewrite(refresher), before=False)
    refresher.check(whole=False)
    refresher.refresh()
    refresher.check(whole=True)
    rows = sum(segment.files for record in refresher.refresh().manifest.sketches for segment in record.segments)
    assert rows <= 2 * 2 * 4, "what is of files that are gone is dropped before it is most of all"


def test_files_that_were_replaced_before_they_are_read_stop_the_refresh_alone(refresher: Refresher) -> None:
    for number in range(1, 5):
        write(refresher.root, number)
    refresher.refresh()
    write(refresher.root, 5)
    with pytest.raises(FileNotFoundError):
        refresher.overtaken(lambda: rewrite(refresher), before=True)
    refresher.check(whole=True)


# Death, and damage


@pytest.mark.parametrize("changed", [False, True])
def test_a_damaged_manifest_does_not_cost_the_sketches(refresher: Refresher, changed: bool) -> None:
    for number in range(1, 4):
        write(refresher.root, number)
        refresher.refresh()
    newest = max((refresher.root / INDEX_DIR).glob("manifest-*"))
    newest.write_bytes(newest.read_bytes()[:-9])
    if changed:
        write(refresher.root, 4)
    with pytest.warns(ZskipWarning, match="going on from version"):
        refresher.refresh([])
    refresher.check(whole=True)
    assert max((refresher.root / INDEX_DIR).glob("manifest-*")) > newest


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_any_step_loses_nothing(
    refresher: Refresher, after: bool, storage_class: Any, snap: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sketches, "_MAX_SEGMENTS", 1)
    for number in range(1, 4):
        write(refresher.root, number)
    refresher.refresh()
    for step in itertools.count(1):
        write(refresher.root, 10 + step)
        (refresher.root / f"{numbers(refresher.snapshot())[0]:04}.parquet").unlink()
        age(refresher.root)
        died = True
        try:
            Refresher(dying(storage_class, refresher.root, step, after), snap).refresh()
            died = False
        except Crash:
            refresher.check(whole=False)
        refresher.refresh()
        refresher.check(whole=True)
        if not died:
            break
    assert step > 12, "two lists, a segment of each sketch and a merged one, two manifests, and what is removed"


@pytest.mark.slow
def test_a_killed_process_loses_nothing(refresher: Refresher) -> None:
    chance = random.Random(1)
    write(refresher.root, 1)
    refresher.refresh()
    for attempt in range(12):
        process = get_context("fork").Process(target=work, args=(refresher, 100 * attempt + 100, None))
        process.start()
        assert process.pid is not None
        time.sleep(chance.uniform(0.02, 0.3))
        os.kill(process.pid, signal.SIGKILL)
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
        refresher.check(whole=False)
        refresher.refresh()
        refresher.check(whole=True)
    assert len(refresher.snapshot()) > 6, "some were killed in the middle of their work"
