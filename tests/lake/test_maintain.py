"""`Lake.maintain`: the best first, no row lost, no more than the budget."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables
from pyspark.sql import SparkSession

import zskip
from zskip.errors import ConflictError, InputError, StorageError
from zskip.lake import maintain as lake_maintain

ROWS = 500


def write(path: Path, files: int, seed: int = 0, start: int = 0) -> Path:
    """Files of rows from everywhere."""
    path.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    for i in range(start, start + files):
        rows = {"id": np.arange(i * ROWS, (i + 1) * ROWS), "a": rng.integers(0, 10**6, ROWS)}
        pq.write_table(pa.table(rows), path / f"came-{i:05d}.parquet")
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three tables of small files; the more files, the more a merge saves for its bytes."""
    for files in (4, 8, 16):
        write(tmp_path / "lake" / f"t{files:02d}", files)
    return tmp_path / "lake"


@pytest.mark.spark
def test_the_best_of_all_tables_come_first(spark: SparkSession, root: Path, caplog: pytest.LogCaptureFixture) -> None:
    lake = zskip.lake(spark, str(root))
    before = {path: tables.ids(path) for path in root.iterdir()}
    sizes = {table.table: table.bytes for table in lake.survey().tables}
    budget = sizes[f"{root}/t16"] + sizes[f"{root}/t08"]
    planned = lake.maintain(budget, dry_run=True)
    assert (planned.batches, planned.bytes_written, planned.dry_run) == (2, budget, True)
    assert {path: tables.ids(path) for path in root.iterdir()} == before
    assert len(list(root.rglob("*.json*"))) == 0
    with caplog.at_level(logging.INFO, "zskip.lake"):
        done = lake.maintain(budget)
    decisions = [r.getMessage().partition(": ")[0] for r in caplog.records if ": merge" in r.getMessage()]
    assert decisions[:2] == [f"{root}/t16", f"{root}/t08"]
    assert done.stopped == "budget"
    assert done.bytes_written <= budget
    assert not done.failed
    assert {path: tables.ids(path) for path in root.iterdir()} == before
    by_journal = [zskip.open(str(path)).history() for path in root.iterdir()]
    assert sum(operation.bytes_added for history in by_journal for operation in history) == done.bytes_written
    assert sum(map(len, by_journal)) == done.batches == sum(table.batches for table in done.tables)
    assert "bytes written" in str(done)
    assert "t16" in str(done)
    last = lake.maintain(budget)
    assert (last.batches, last.stopped.startswith("nothing left")) == (1, True)
    assert lake.maintain().batches == 0


@pytest.mark.spark
def test_clustered_tables_keep_their_layout(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path / "lake" / "t", 8)
    table = zskip.table(spark, str(path))
    table.optimize("a", curve="linear", target_file_size=6_000)
    write(path, 4, seed=1, start=8)
    lake = zskip.lake(spark, str(tmp_path / "lake"))
    (line,) = lake.survey().tables
    assert (line.action, line.clustered_by, line.by) == ("maintain", ("a",), ())
    assert line.overlap is not None
    assert 0 < line.overlap < 1
    before, kept = tables.ids(path), table.prune("a BETWEEN 100 AND 200").files
    done = lake.maintain()
    assert done.batches >= 1
    assert tables.ids(path) == before
    assert zskip.open(str(path)).history()[0].by == ("a",)
    assert zskip.table(spark, str(path)).prune("a BETWEEN 100 AND 200").files < kept
    (after,) = lake.survey().tables
    assert after.bytes_read_a_day < line.bytes_read_a_day
    assert after.action == "leave"


@pytest.fixture
def filtered(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table whose queries filter by `a`; its files are as large as new ones, so that merging them saves nothing."""
    for module in ("zskip.lake.examine", "zskip.table.rewrite.maintenance_plan", "zskip.table.optimize_request"):
        monkeypatch.setattr(sys.modules[module], "DEFAULT_FILE_SIZE", 100_000)
    path = tmp_path / "lake" / "t"
    path.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for i in range(6):
        rows = pa.table({"a": rng.permutation(6_000), "b": np.arange(6_000) + 6_000 * i, "pad": rng.random(6_000)})
        pq.write_table(rows, path / f"{i}.parquet", compression="none", use_dictionary=False)
    table = zskip.table(spark, str(path))
    table.record(True)
    for i in range(12):
        table.files(f"a = {i * 500}")
    zskip.lake(None, str(path)).record(False)
    return path


@pytest.mark.spark
def test_tables_of_which_nothing_is_known_are_indexed(spark: SparkSession, filtered: Path) -> None:
    lake = zskip.lake(spark, str(filtered))
    (line,) = lake.survey().tables
    assert (line.action, line.indexed) == ("index", 0.0)
    (planned,) = lake.maintain(dry_run=True).tables
    assert (planned.batches, planned.decisions, lake.survey().tables[0].indexed) == (0, ("index its files",), 0.0)
    (done,) = lake.maintain().tables
    assert (done.batches, done.bytes_written, done.decisions) == (0, 0, ("index 6 files",))
    assert zskip.open(str(filtered)).prune("b = 7000").files == 1
    assert lake.survey().tables[0].indexed == 1.0
    assert not lake.maintain().tables, "an index is made once"


@pytest.mark.spark
def test_a_failure_is_told_and_the_next_table_goes_on(
    spark: SparkSession, root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    merge = lake_maintain.compact_files

    def refuse(handle: Any, *arguments: Any) -> Any:
        if handle.storage.root.endswith("t16"):
            raise StorageError("the disk is full")
        if handle.storage.root.endswith("t08"):
            raise ZeroDivisionError("a bug")
        return merge(handle, *arguments)

    monkeypatch.setattr(lake_maintain, "compact_files", refuse)
    (root / "broken").mkdir()
    (root / "broken" / "x.parquet").write_bytes(b"no Parquet")
    done = zskip.lake(spark, str(root)).maintain(jobs=3)
    assert done.failed.keys() == {f"{root}/t16", f"{root}/t08", f"{root}/broken"}
    assert done.failed[f"{root}/t16"] == "the disk is full"
    assert done.failed[f"{root}/t08"] == "ZeroDivisionError: a bug"
    assert {record.exc_info[0] for record in caplog.records if record.exc_info} == {ZeroDivisionError}
    assert {table.table for table in done.tables} == {f"{root}/t04"}
    assert "the disk is full" in str(done)


@pytest.mark.spark
def test_other_writers_come_first(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files come and go between ranking and commit: the next call merges what is left, and nothing is lost."""
    path = write(tmp_path / "lake" / "t", 6)
    merge = lake_maintain.compact_files

    def interfere(*arguments: Any) -> Any:
        (path / "came-00000.parquet").unlink()
        write(path, 1, seed=5, start=6)
        return merge(*arguments)

    monkeypatch.setattr(lake_maintain, "compact_files", interfere)
    done = zskip.lake(spark, str(path)).maintain()
    assert (done.batches, done.failed) == (0, {})
    monkeypatch.setattr(lake_maintain, "compact_files", merge)
    assert zskip.lake(spark, str(path)).maintain().batches == 1
    assert tables.ids(path) == list(range(ROWS, 7 * ROWS))
    monkeypatch.setattr(lake_maintain, "compact_files", lambda *_: (_ for _ in ()).throw(ConflictError("again")))
    write(path, 3, start=7)
    assert zskip.lake(spark, str(path)).maintain().failed == {str(path): "again"}


@pytest.mark.spark
def test_a_budget_that_nothing_fits_names_the_smallest(spark: SparkSession, root: Path) -> None:
    lake = zskip.lake(spark, str(root))
    size = next(table.bytes for table in lake.survey().tables if table.table.endswith("t04"))
    for dry_run in (True, False):
        with pytest.raises(InputError, match=rf"fits no batch; the smallest that pays has {size} bytes"):
            lake.maintain("1kB", dry_run=dry_run)
    assert lake.maintain(size).batches == 1
    assert lake.maintain(min_gain=1e9).batches == 0, "never what does not pay"


@pytest.mark.spark
def test_tables_at_once_keep_to_the_budget(spark: SparkSession, root: Path) -> None:
    lake = zskip.lake(spark, str(root))
    sizes = {table.table: table.bytes for table in lake.survey().tables}
    best = {f"{root}/t16", f"{root}/t04"}
    done = lake.maintain(sum(sizes[name] for name in best), jobs=3)
    assert {table.table for table in done.tables} == best, "of what does not fit, the next best that does"
    assert done.bytes_written <= sum(sizes[name] for name in best)


@pytest.mark.spark
def test_seconds_end_a_call(spark: SparkSession, root: Path) -> None:
    done = zskip.lake(spark, str(root)).maintain(seconds=1e-6)
    assert (done.stopped, done.batches) == ("seconds", 0)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"budget": "much"}, "budget='much' is not a size"),
        ({"budget": 0}, "budget=0 is not a size"),
        ({"seconds": 0}, "seconds=0"),
        ({"jobs": 0}, "jobs=0"),
        ({"jobs": True}, "jobs=True"),
        ({"min_gain": -1}, "min_gain=-1"),
        ({"min_gain": float("nan")}, "min_gain=nan"),
        ({"dry_run": 1}, "dry_run=1"),
        ({}, "needs Spark"),
    ],
)
def test_bad_arguments(root: Path, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        zskip.lake(None, str(root)).maintain(**arguments)
