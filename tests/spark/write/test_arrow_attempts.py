"""What tasks leave behind counts for nothing, and what Arrow cannot do Spark does."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables
from pyspark import TaskContext
from pyspark.sql import SparkSession
from session_settings import settings

import zskip
from zskip.errors import ConflictError, CorruptFileError, StorageError, UnsupportedError
from zskip.spark.write.arrow import job, placing, sorting
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
        for file in written.files:
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
        Path(self.target.uri(f"{self.staging}/{written.files[0].name}")).unlink()
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
    monkeypatch.setattr(
        job, side, lambda *given, **more: failing(function(*given, **more), "[Errno 28] No space left on device")
    )
    with pytest.raises(StorageError, match="no space left"):
        zskip.table(spark, str(path)).optimize(BY, files=4)
    assert [f.name for f in tables.visible(path)] == before
    assert not list((path / "_zskip").rglob("*.parquet*"))


def test_a_worker_without_pyarrow_leaves_it_to_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tables.make_events(tmp_path / "t")

    def lacking(*_: Any, **__: Any) -> Any:
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
    with settings(spark, **{name: "true"}):
        result = zskip.table(spark, str(path)).optimize(BY, files=4)
    assert (result.writer, result.writer_reason) == ("spark", f"the session sets {name}")
    assert tables.ids(path) == list(range(tables.ROWS))


@pytest.mark.slow
def test_many_small_files_are_written_by_few_tasks(spark: SparkSession, tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "t")
    result = zskip.table(spark, str(path)).optimize(BY, files=200)
    assert result.writer == "arrow"
    assert result.files_after == len(tables.visible(path)) > 150
    assert tables.ids(path) == list(range(tables.ROWS))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("side", "error", "text"),
    [
        (placing, pa.ArrowInvalid, "offset overflow while concatenating arrays"),
        (sorting, pa.ArrowInvalid, "offset overflow while concatenating arrays"),
        (sorting, pa.ArrowMemoryError, "malloc of size 53777856 failed"),
        (placing, OverflowError, "Python integer 2147483648 out of bounds for int32"),
    ],
    ids=["near", "far", "memory", "offsets"],
)
def test_rows_that_pyarrow_cannot_join_are_left_to_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: Any, error: type[Exception], text: str
) -> None:
    path = tables.make_events(tmp_path / "t")

    def overflow(*_: Any) -> None:
        raise error(text)

    monkeypatch.setattr(side, "join", overflow)
    result = zskip.table(spark, str(path)).optimize(BY, files=4)
    assert (result.writer, result.writer_reason) == ("spark", f"pyarrow cannot divide or join its rows: {text}")
    assert tables.ids(path) == list(range(tables.ROWS))


def test_a_file_cut_short_in_the_middle_of_a_job_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tables.make_events(tmp_path / "t")
    before = [f.name for f in tables.visible(path)]
    by_layout = ArrowRewrite.write_by_layout

    def cut(self: ArrowRewrite, *given: Any, **more: Any) -> Any:
        file = tables.visible(path)[3]
        file.write_bytes(file.read_bytes()[:-1000])
        return by_layout(self, *given, **more)

    monkeypatch.setattr(ArrowRewrite, "write_by_layout", cut)
    with pytest.raises(CorruptFileError, match=before[3]):
        zskip.table(spark, str(path)).optimize(BY, files=4)
    assert [f.name for f in tables.visible(path)] == before


def test_awkward_names(spark: SparkSession, tmp_path: Path) -> None:
    names = ["a.b", 'x "y"', " ", "tick`", "ünï, (cödé)"]
    random = np.random.default_rng(1)
    columns = {name: pa.array(random.integers(0, 9, 600).astype(str)) for name in names}
    rows = pa.table({**columns, "a": pa.array([{"b": i} for i in range(600)]), "id": range(600)})
    (tmp_path / "t").mkdir()
    for i in range(3):
        pq.write_table(rows.slice(200 * i, 200), tmp_path / "t" / f"{i}.parquet")
    table = zskip.table(spark, str(tmp_path / "t"))
    result = table.optimize(names, files=4)
    assert (result.writer, result.writer_reason) == ("arrow", "")
    assert spark.read.parquet(str(tmp_path / "t")).columns == rows.column_names
    after = pa.concat_tables(pq.read_table(file) for file in tables.visible(tmp_path / "t"))
    assert after.sort_by("id").to_pylist() == rows.to_pylist()


def test_columns_in_another_order_and_columns_that_are_missing(spark: SparkSession, tmp_path: Path) -> None:
    full = pa.Table.from_pylist([{"id": i, "user": i * 7 % 50, "more": str(i)} for i in range(300)])
    for name in ("ordered", "missing"):
        (tmp_path / name).mkdir()
        pq.write_table(full, tmp_path / name / "0.parquet")
    pq.write_table(full.select(["more", "user", "id"]), tmp_path / "ordered" / "1.parquet")
    result = zskip.table(spark, str(tmp_path / "ordered")).optimize(BY, files=2)
    assert (result.writer, result.writer_reason) == ("arrow", "")
    after = pa.concat_tables(pq.read_table(file) for file in tables.visible(tmp_path / "ordered")).sort_by("id")
    assert after.equals(pa.concat_tables([full, full]).sort_by("id"))
    pq.write_table(full.drop_columns(["more"]), tmp_path / "missing" / "1.parquet")
    with pytest.raises(UnsupportedError, match="mergeSchema"):
        zskip.table(spark, str(tmp_path / "missing")).optimize(BY, files=2)
    with settings(spark, parquet__mergeSchema="true"):
        result = zskip.table(spark, str(tmp_path / "missing")).optimize(BY, files=2)
    assert (result.writer, result.writer_reason) == ("arrow", "")
    assert tables.ids(tmp_path / "missing") == sorted([*range(300), *range(300)])
