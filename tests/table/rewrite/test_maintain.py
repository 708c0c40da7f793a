"""`Table.maintain`: what came since is brought into order, no row is lost, and no more is written than was allowed."""

from __future__ import annotations

import gzip
import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables
from pyspark.sql import SparkSession

import zskip
from zskip.errors import ColumnError, ConflictError, InputError, StorageError
from zskip.formats import ParquetFormat
from zskip.storage import LocalStorage
from zskip.table import journal

pytestmark = pytest.mark.spark
ROWS = 2000
TARGET = 6_000


def append(path: Path, start: int, rows: int = ROWS) -> None:
    """One file with rows from everywhere."""
    path.mkdir(exist_ok=True)
    rng = np.random.default_rng(start)
    content = {"id": np.arange(start, start + rows), "a": rng.integers(0, 5000, rows), "b": rng.integers(0, 99, rows)}
    pq.write_table(pa.table(content), path / f"came-{start:06d}.parquet")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table of two files that nothing has put in order."""
    for start in (0, ROWS):
        append(tmp_path / "t", start)
    return tmp_path / "t"


def files(path: Path) -> dict[str, int]:
    return {str(file): file.stat().st_mtime_ns for file in path.rglob("*") if file.is_file()}


def test_a_table_is_kept_in_order(spark: SparkSession, path: Path) -> None:
    table = zskip.table(spark, str(path))
    before = files(path)
    planned = table.maintain(by=["a", "b"], target_file_size=TARGET, dry_run=True)
    assert files(path) == before
    first = table.maintain(by=["a", "b"], target_file_size=TARGET)
    assert (first.batches, first.files_removed, first.by) == (1, 2, ("a", "b"))
    assert (planned.batches, planned.files_removed) == (first.batches, first.files_removed)
    assert first.kept_before == planned.kept_before > 0.9
    assert first.kept_after < 0.7
    assert abs(first.kept_after - planned.kept_after) < 0.2
    assert first.bytes_written == sum(file.stat().st_size for file in tables.visible(path))
    again = table.maintain()
    assert (again.batches, again.bytes_written, again.kept_after) == (0, 0, first.kept_after)
    old = set(tables.visible(path))
    append(path, 2 * ROWS, 300)
    second = table.maintain()
    assert second.batches <= 1
    assert len(old & set(tables.visible(path))) >= len(old) // 2
    assert tables.ids(path) == list(range(2 * ROWS + 300))
    layout = table.info().layout
    assert layout is not None
    assert (layout.by, layout.curve) == (("a", "b"), "zorder")
    assert [of.operation for of in table.history()] == ["maintain"] * (1 + second.batches)
    assert table.verify(queries=1).ok


def test_a_workload_says_which_files_are_worth_it(spark: SparkSession, path: Path) -> None:
    table = zskip.table(spark, str(path))
    table.optimize(["a", "b"], curve="fitted", files=8, workload=[f"a = {i * 50}" for i in range(100)])
    append(path, 2 * ROWS, 300)
    cold = table.maintain(workload=["a > 900000"], target_file_size=TARGET, dry_run=True)
    hot = table.maintain(workload=[("a = 77", 3), "a = 4000", "id = 3"], target_file_size=TARGET, dry_run=True)
    assert cold.kept_before < hot.kept_before
    with pytest.raises(InputError, match="no query of the workload"):
        table.maintain(workload=["gone = 1"])
    table.record()
    table.files("a = 3")
    assert table.maintain(target_file_size=TARGET).by == ("a", "b")
    assert tables.ids(path) == list(range(2 * ROWS + 300))
    layout = table.info().layout
    assert layout is not None
    assert layout.curve == "fitted"


@pytest.mark.slow
def test_new_rows_go_by_the_tree_and_a_moved_workload_gets_a_new_one(spark: SparkSession, path: Path) -> None:
    table = zskip.table(spark, str(path))
    hot = [f"a BETWEEN {i * 50} AND {i * 50 + 9}" for i in range(100)]
    table.optimize(["a", "b"], curve="fitted", files=8, workload=hot, unseen=0.1)
    first = journal.read_journal(LocalStorage(str(path)))[-1].layout()
    assert first is not None
    assert first.curve.tree is not None
    tree = table.info().layout.tree  # type: ignore[union-attr]
    assert tree is not None
    assert tree.leaves == 8
    assert tree.first[0].left.startswith("a < ")
    assert "a tree of 8 leaves cuts a" in str(table.explain("b = 3"))
    append(path, 2 * ROWS, ROWS)
    assert table.maintain(workload=hot, unseen=0.1).refit == ""
    placed = journal.read_journal(LocalStorage(str(path)))[-1].layout()
    assert placed is not None
    assert placed.curve.tree is not None
    root = [(t.columns[0], bounds[t.columns[0]][t.cuts[0] - 1])
            for t, bounds in ((first.curve.tree, first.bounds), (placed.curve.tree, placed.bounds))]  # fmt: skip
    assert root[0] == root[1]
    moved = [f"b = {i}" for i in range(99)]
    assert "under a new tree" in table.maintain(workload=moved, dry_run=True).refit
    refitted = table.maintain(workload=moved, refit=True)
    assert "were rewritten" in refitted.refit
    assert refitted.kept_after < 0.8 * refitted.kept_before
    assert table.maintain(workload=moved, dry_run=True).refit == ""
    assert tables.ids(path) == list(range(3 * ROWS))
    assert table.verify(queries=1).ok


def test_an_order_of_bits_of_an_older_version_is_kept(spark: SparkSession, path: Path) -> None:
    table = zskip.table(spark, str(path))
    table.optimize(["a", "b"], files=8)
    (record,) = (path / "_zskip").rglob("*.json.gz")
    content = json.loads(gzip.decompress(record.read_bytes()))
    content["operation"]["curve"] = "fitted"
    content["layout"]["pattern"].sort()
    record.write_bytes(gzip.compress(json.dumps(content).encode()))
    append(path, 2 * ROWS, ROWS)
    assert table.maintain().batches >= 1
    layout = journal.read_journal(LocalStorage(str(path)))[-1].layout()
    assert layout is not None
    assert layout.curve.tree is None
    assert layout.pattern == tuple(sorted(layout.pattern))
    assert tables.ids(path) == list(range(3 * ROWS))


def test_budget_and_seconds_are_kept(spark: SparkSession, path: Path) -> None:
    table = zskip.table(spark, str(path))
    size = max(file.stat().st_size for file in tables.visible(path))
    kept = []
    for i in range(2):
        found = table.maintain(by=["a", "b"], target_file_size=TARGET, budget=size // 2)
        assert (found.files_removed, found.batches, found.stopped) == (1, 1, "budget"), i
        kept += [found.kept_before, found.kept_after]
    assert kept == sorted(kept, reverse=True)
    assert tables.ids(path) == list(range(2 * ROWS))
    append(path, 2 * ROWS)
    late = table.maintain(seconds=1e-9)
    assert (late.batches, late.stopped) == (0, "seconds")


def test_small_files_are_merged_whatever_they_hold(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    for start in range(0, 60, 10):
        append(path, start, 10)
    table = zskip.table(spark, str(path))
    planned = table.maintain(by="a", dry_run=True)
    found = table.maintain(by="a")
    assert table.info().layout is None
    assert (found.files_removed, found.files_added, found.batches) == (6, 1, 1)
    assert (planned.files_removed, planned.files_added, planned.batches) == (6, 1, 1)
    assert tables.ids(path) == list(range(60))
    assert table.maintain(by="a").batches == 0


def test_another_writer_spoils_a_batch_and_it_is_planned_again(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, calls = ParquetFormat.replace, []

    def replace(self: ParquetFormat, *arguments: Any) -> int:
        calls.append(1)
        if len(calls) == 1:
            (path / "came-000000.parquet").unlink()
            append(path, 2 * ROWS, 50)
        return honest(self, *arguments)

    monkeypatch.setattr(ParquetFormat, "replace", replace)
    found = zskip.table(spark, str(path)).maintain(by=["a", "b"], target_file_size=TARGET)
    assert (found.batches >= 1, len(calls) >= 2) == (True, True)
    assert tables.ids(path) == list(range(ROWS, 2 * ROWS + 50))


def test_a_file_replaced_while_it_is_read_is_a_conflict(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewrite = importlib.import_module("zskip.table.rewrite.rewrite")
    honest, calls = rewrite.write_files, []

    def write(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            (path / "came-000000.parquet").unlink()
            append(path, 2 * ROWS, 50)
        return honest(*arguments)

    monkeypatch.setattr(rewrite, "write_files", write)
    zskip.table(spark, str(path)).maintain(by=["a", "b"], target_file_size=TARGET)
    assert len(calls) >= 2
    assert tables.ids(path) == list(range(ROWS, 2 * ROWS + 50))


def test_who_always_loses_says_so(spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> int:
        raise ConflictError("somebody else")

    monkeypatch.setattr(ParquetFormat, "replace", refuse)
    monkeypatch.setattr(importlib.import_module("zskip.table.rewrite.maintain"), "_MOST_CONFLICTS", 2)
    with pytest.raises(ConflictError, match=r"keep rewriting.*0 batches"):
        zskip.table(spark, str(path)).maintain(by=["a", "b"], target_file_size=TARGET)
    assert tables.ids(path) == list(range(2 * ROWS))


def test_a_full_disk_leaves_what_is_committed(spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = zskip.table(spark, str(path))
    table.maintain(by=["a", "b"], target_file_size=TARGET)
    append(path, 2 * ROWS)
    before = set(tables.visible(path))

    def full(*_: Any) -> int:
        raise StorageError("no space left on device")

    monkeypatch.setattr(ParquetFormat, "replace", full)
    with pytest.raises(StorageError, match="no space"):
        table.maintain()
    assert set(tables.visible(path)) == before
    assert tables.ids(path) == list(range(3 * ROWS))


def test_the_schema_may_change(spark: SparkSession, path: Path) -> None:
    table = zskip.table(spark, str(path))
    table.maintain(by=["a", "b"], target_file_size=TARGET)
    for file in tables.visible(path):
        rows = pq.read_table(file).drop_columns(["b"]).replace_schema_metadata()
        pq.write_table(rows.set_column(1, "a", rows["a"].cast(pa.string())), file)
    # Retyped: the layout's bounds say nothing any more; dropped: it has to be said what comes instead.
    with pytest.raises(ColumnError, match=r'clustered by a, b, which is no longer possible.*no column "b"'):
        table.maintain()
    found = table.maintain(by=["a", "id"])
    assert found.by == ("a", "id")
    assert tables.ids(path) == list(range(2 * ROWS))


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "never clustered.*by="),
    ({"by": ["a", "b"], "budget": "1kB"}, "less than one file of 128.0 MB"),
    ({"by": ["a", "b"], "seconds": -3}, "seconds=-3"),
    ({"by": []}, "no column"),
    ({"by": ["a", "nope"]}, 'no column "nope"'),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input(spark: SparkSession, path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        zskip.table(spark, str(path)).maintain(**arguments)
    assert not (path / "_zskip" / "log").exists()
    assert len(tables.visible(path)) == 2
