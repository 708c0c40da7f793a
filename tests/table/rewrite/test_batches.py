"""`Table.optimize(max_batch=)`: a commit a batch, several at once, and the rest by the next call after a crash."""

from __future__ import annotations

import importlib
import logging
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables
import tiers
from crashes import Crash
from pyspark.sql import SparkSession

import zskip
from zskip.errors import ConflictError, InputError, StorageError, UnsupportedError
from zskip.formats import ParquetFormat
from zskip.storage import LocalStorage
from zskip.table.rewrite.batches import read_note

pytestmark = pytest.mark.spark
ROWS = 500


def append(path: Path, name: str, start: int, rows: int = ROWS) -> None:
    path.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(start)
    ids = np.arange(start, start + rows)
    content = {"id": ids, "day": ids // 100, "a": rng.integers(0, 5000, rows)}
    pq.write_table(pa.table(content), path / f"{name}.parquet")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table of eight files, each of some days."""
    for i in range(8):
        append(tmp_path / "t", f"came-{i}", i * ROWS)
    return tmp_path / "t"


def batch_of(path: Path, files: int) -> int:
    return files * max(file.stat().st_size for file in tables.visible(path))


def names(path: Path) -> set[str]:
    return {file.name for file in tables.visible(path)}


@pytest.mark.slow
def test_each_batch_is_a_commit_of_its_own(spark: SparkSession, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = zskip.table(spark, str(path))
    with caplog.at_level(logging.INFO, "zskip"):
        done = table.optimize(by=["day", "a"], max_batch=batch_of(path, 2), files=16)
    assert (done.batches, done.batches_before, done.files_before, done.rows) == (4, 0, 8, 8 * ROWS)
    assert (done.files_after, done.added.files, done.removed.files) == (16, 16, 8)
    assert [of.operation for of in table.history()] == ["optimize"] * 4
    assert [of.files_removed for of in table.history()] == [2] * 4
    assert (done.version, table.info().layout.files) == (4, 16)  # type: ignore[union-attr]
    assert tables.ids(path) == list(range(8 * ROWS))
    assert done.predicted_share_before is not None
    assert done.predicted_share_after is not None
    assert done.predicted_share_after < done.predicted_share_before
    said = [record.message for record in caplog.records if " of 4 batches, " in record.message]
    assert len(said) == 4
    assert said[-1].split(", ")[1] == f"{done.removed.bytes / 1000:.1f} kB of {done.removed.bytes / 1000:.1f} kB"
    # Files that came one after another hold days of their own, and so does each batch.
    days = sorted((min(d), max(d)) for f in tables.visible(path) for d in [pq.read_table(f)["day"].to_pylist()])
    assert sum(low // 10 == high // 10 for low, high in days) == 16
    assert read_note(LocalStorage(str(path))) is None
    assert table.verify(queries=1).ok


def test_several_at_once_and_whole_partitions(spark: SparkSession, tmp_path: Path) -> None:
    for region in "abc":
        for i in range(2):
            append(tmp_path / "t" / f"region={region}", f"came-{i}", ord(region) * 10 * ROWS + i * ROWS)
    table = zskip.table(spark, str(tmp_path / "t"))
    before = tables.ids(tmp_path / "t")
    seen = set()
    honest = ParquetFormat.replace

    def replace(self: ParquetFormat, *arguments: Any) -> int:
        seen.add(threading.current_thread().name)
        return honest(self, *arguments)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ParquetFormat, "replace", replace)
        done = table.optimize(
            by=["day", "a"],
            max_batch=batch_of(tmp_path / "t", 2),
            target_file_size=batch_of(tmp_path / "t", 1),
            where="region <> 'b'",
            jobs=3,
        )
    assert (done.batches, done.partitions, done.files_before) == (2, 2, 4)
    assert seen == {"zskip-batch-0", "zskip-batch-1"}
    assert tables.ids(tmp_path / "t") == before
    assert {f.parent.name for f in tables.visible(tmp_path / "t")} == {"region=a", "region=b", "region=c"}
    assert "came-0.parquet" in {f.name for f in (tmp_path / "t" / "region=b").iterdir()}


@pytest.mark.parametrize(
    ("jobs", "after"), tiers.only([(2, False), (1, True)], [(1, True)]), ids=["at once", "one by one"]
)
def test_cut_short_the_next_call_does_the_rest(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int, after: bool
) -> None:
    table = zskip.table(spark, str(path))
    arguments: dict[str, Any] = {"by": ["day", "a"], "max_batch": batch_of(path, 2), "target_file_size": 4_000}
    honest, calls, lock = ParquetFormat.replace, [0], threading.Lock()

    def dies(self: ParquetFormat, *given: Any) -> int:
        with lock:
            calls[0] += 1
            mine = calls[0]
        if mine == 3 and not after:
            raise Crash
        version = honest(self, *given)
        if mine == 3:
            raise Crash
        return version

    with monkeypatch.context() as patched:
        patched.setattr(ParquetFormat, "replace", dies)
        with pytest.raises(Crash):
            table.optimize(**arguments, jobs=jobs)
    done, left = names(path), sum(name.startswith("came") for name in names(path))
    assert left == 8 - 2 * (calls[0] - (not after))
    assert tables.ids(path) == list(range(8 * ROWS))
    append(path, "new", 8 * ROWS)
    rest = table.optimize(**arguments, jobs=jobs)
    assert (rest.batches, rest.batches_before) == (left // 2, 4 - left // 2)
    assert rest.files_before == left
    assert {name for name in done if not name.startswith("came")} <= names(path)
    assert "new.parquet" in names(path)
    assert tables.ids(path) == list(range(9 * ROWS))
    # That call is over: the next one begins anew.
    assert table.optimize(**arguments).batches_before == 0
    assert table.verify(queries=1).ok


@pytest.mark.slow  # Two calls after a crash, which other tests make one by one.
def test_what_has_changed_in_between_is_taken_as_it_is(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = zskip.table(spark, str(path))
    arguments: dict[str, Any] = {"by": ["day", "a"], "max_batch": batch_of(path, 2)}
    arguments["target_file_size"] = batch_of(path, 1)
    honest, calls = ParquetFormat.replace, []

    def replace(self: ParquetFormat, *given: Any) -> int:
        calls.append(1)
        if len(calls) == 2:
            (path / "came-2.parquet").unlink()
        if len(calls) == 4:
            raise StorageError("no space left on device")
        return honest(self, *given)

    with monkeypatch.context() as patched:
        patched.setattr(ParquetFormat, "replace", replace)
        with pytest.raises(StorageError, match="no space"):
            table.optimize(**arguments)
    lost = set(range(2 * ROWS, 3 * ROWS))
    assert tables.ids(path) == sorted(set(range(8 * ROWS)) - lost)
    assert {name for name in names(path) if name.startswith("came")} == {f"came-{i}.parquet" for i in range(4, 8)}
    # Other arguments are another call.
    other = table.optimize(**{**arguments, "by": ["a", "day"]})
    assert other.batches_before == 0
    assert tables.ids(path) == sorted(set(range(8 * ROWS)) - lost)


@pytest.mark.slow
def test_cut_short_after_the_last_batch_nothing_is_left(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = zskip.table(spark, str(path))
    arguments: dict[str, Any] = {"by": ["day", "a"], "max_batch": batch_of(path, 4)}
    arguments["target_file_size"] = batch_of(path, 1)

    def dies(*_: Any) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(importlib.import_module("zskip.table.rewrite.batches"), "forget_note", dies)
        with pytest.raises(Crash):
            table.optimize(**arguments)
    done = names(path)
    rest = table.optimize(**arguments)
    assert (rest.batches, rest.batches_before, names(path)) == (0, 2, done)
    # A table that was made anew in its place is another one.
    with monkeypatch.context() as patched:
        patched.setattr(importlib.import_module("zskip.table.rewrite.batches"), "forget_note", dies)
        with pytest.raises(Crash):
            table.optimize(**arguments)
    for file in tables.visible(path):
        file.unlink()
    append(path, "other", 0)
    assert (table.optimize(**arguments).batches, tables.ids(path)) == (1, list(range(ROWS)))


def test_a_new_table_appears_whole(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    before = {f: f.stat().st_mtime_ns for f in path.rglob("*")}
    new = tmp_path / "new"
    honest, seen = ParquetFormat.replace, []

    def replace(self: ParquetFormat, *arguments: Any) -> int:
        seen.append(new.exists())
        return honest(self, *arguments)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ParquetFormat, "replace", replace)
        done = zskip.table(spark, str(path)).optimize(
            by=["day", "a"], max_batch=batch_of(path, 4), files=8, into=str(new), jobs=2
        )
    assert seen == [False, False]
    assert (done.path, done.batches, done.files_after, done.removed.files) == (str(new), 2, 8, 0)
    assert {f: f.stat().st_mtime_ns for f in path.rglob("*")} == before
    assert tables.ids(new) == list(range(8 * ROWS))
    assert zskip.table(spark, str(new)).verify(queries=1).ok
    assert [f.name for f in tmp_path.iterdir() if f.name.startswith(".new")] == []


def test_what_another_layout_has_replaced_is_not_done(spark: SparkSession, path: Path) -> None:
    table = zskip.table(spark, str(path))
    arguments: dict[str, Any] = {"by": ["day", "a"], "max_batch": batch_of(path, 8), "target_file_size": "4kB"}

    def full(*_: Any) -> int:
        raise StorageError("no space left on device")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ParquetFormat, "replace", full)
        with pytest.raises(StorageError, match="no space"):
            table.optimize(**arguments)
    assert read_note(LocalStorage(str(path))) is not None
    table.optimize(by=["a", "id"], files=4)
    done = table.optimize(**arguments)
    assert (done.batches, done.batches_before) == (1, 0)
    assert table.history()[0].by == ("day", "a")
    assert tables.ids(path) == list(range(8 * ROWS))


def test_no_part_of_a_new_table_is_seen_in_an_object_store(
    spark: SparkSession, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalStorage, "kind", "objects")
    new = tmp_path / "new"
    with pytest.raises(UnsupportedError, match="visible from its first commit on"):
        zskip.table(spark, str(path)).optimize(by=["day", "a"], max_batch="1GB", into=str(new))
    assert not new.exists()
    assert not (path / "_zskip").exists()


@pytest.mark.slow  # Each try rewrites the files anew.
def test_who_always_loses_says_so(spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> int:
        raise ConflictError("somebody else")

    monkeypatch.setattr(ParquetFormat, "replace", refuse)
    with pytest.raises(ConflictError, match="somebody else"):
        zskip.table(spark, str(path)).optimize(
            by=["day", "a"], max_batch=batch_of(path, 4), target_file_size=batch_of(path, 1), jobs=2
        )
    assert tables.ids(path) == list(range(8 * ROWS))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"by": ["a", "nope"]}, 'no column "nope"'), ({"where": "a > 3"}, "not a partition column")],
)
def test_bad_input(spark: SparkSession, path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        zskip.table(spark, str(path)).optimize(**{"by": ["day", "a"], "max_batch": "1GB", **arguments})
    assert not (path / "_zskip").exists()
