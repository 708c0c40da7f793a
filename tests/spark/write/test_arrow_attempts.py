"""What tasks leave behind counts for nothing, and what Arrow cannot do Spark does."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import tables
from pyspark import TaskContext
from pyspark.sql import SparkSession

import zskip
from zskip.errors import ConflictError, InputError, StorageError
from zskip.spark.write.arrow import job
from zskip.spark.write.arrow.job import ArrowRewrite
from zskip.storage import LocalStorage

pytestmark = pytest.mark.spark
BY = ["user", "id"]


def failing(function: Any, text: str) -> Any:
    """A function for `mapInArrow` that fails once it has done its work."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from function(batches)
        if TaskContext.get().partitionId() == 0:
            raise OSError(text)

    return run


def test_files_that_no_task_reports_do_not_count(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tables.make_events(tmp_path / "t")
    by_layout = ArrowRewrite.write_by_layout

    def twice(self: ArrowRewrite, *given: Any, **more: Any) -> Any:
        """Another attempt of each task has written its file, too, and was then killed."""
        written = by_layout(self, *given, **more)
        assert isinstance(self.target, LocalStorage)
        staging = Path(self.target.root) / self.staging
        for file in written:
            shutil.copy(staging / file.name, staging / file.name.replace("-c000", "-c001"))
            (staging / f".{file.name}.tmp").write_bytes(b"half")
        return written

    monkeypatch.setattr(ArrowRewrite, "write_by_layout", twice)
    result = zskip.table(spark, str(path)).optimize(BY, files=4)
    assert result.writer == "arrow"
    assert len(tables.visible(path)) == result.files_after == 4
    assert tables.ids(path) == list(range(tables.ROWS))
    assert not list((path / "_zskip" / "staging").rglob("*.parquet*"))


def test_a_file_that_is_gone_before_the_commit_is_missed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tables.make_events(tmp_path / "t")
    by_layout = ArrowRewrite.write_by_layout

    def one_less(self: ArrowRewrite, *given: Any, **more: Any) -> Any:
        written = by_layout(self, *given, **more)
        Path(self.target.uri(f"{self.staging}/{written[0].name}")).unlink()
        return written

    monkeypatch.setattr(ArrowRewrite, "write_by_layout", one_less)
    with pytest.raises(ConflictError, match="were written; nothing was committed"):
        zskip.table(spark, str(path)).optimize(BY, files=4)
    assert tables.ids(path) == list(range(tables.ROWS))


@pytest.mark.parametrize("side", ["placer", "writer"])
def test_a_full_disk_changes_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    path = tables.make_events(tmp_path / "t")
    before = [f.name for f in tables.visible(path)]
    function = getattr(job, side)
    monkeypatch.setattr(job, side, lambda *given: failing(function(*given), "[Errno 28] No space left on device"))
    with pytest.raises(StorageError, match="no space left"):
        zskip.table(spark, str(path)).optimize(BY, files=4)
    assert [f.name for f in tables.visible(path)] == before
    assert not list((path / "_zskip").rglob("*.parquet"))


def test_a_worker_without_pyarrow_leaves_it_to_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tables.make_events(tmp_path / "t")

    def lacking(*_: Any) -> Any:
        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            raise ModuleNotFoundError("No module named 'pyarrow'")
            yield from batches

        return run

    monkeypatch.setattr(job, "placer", lacking)
    result = zskip.table(spark, str(path)).optimize(BY, files=4)
    assert (result.writer, result.writer_reason) == ("spark", "executors have no pyarrow, or one that is too old")
    assert tables.ids(path) == list(range(tables.ROWS))


def test_a_setting_of_parquet_leaves_it_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "t")
    name = "parquet.bloom.filter.enabled#user"
    spark.conf.set(name, "true")
    try:
        result = zskip.table(spark, str(path)).optimize(BY, files=4)
    finally:
        spark.conf.unset(name)
    assert (result.writer, result.writer_reason) == ("spark", f"the session sets {name}")
    assert tables.ids(path) == list(range(tables.ROWS))


def test_many_small_files_are_written_by_few_tasks(spark: SparkSession, tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "t")
    result = zskip.table(spark, str(path)).optimize(BY, files=200)
    assert result.writer == "arrow"
    assert result.files_after == len(tables.visible(path)) > 150
    assert tables.ids(path) == list(range(tables.ROWS))


def test_no_other_writers(spark: SparkSession, tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "t")
    with pytest.raises(InputError, match='no writer "pandas"'):
        zskip.table(spark, str(path)).optimize(BY, writer="pandas")
