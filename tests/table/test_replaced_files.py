"""A file replaced by another of the same name, size and modification time is another file, whoever copied it."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import zskip
from zskip.errors import ConflictError, ZskipWarning
from zskip.formats import ParquetFormat, StagedFile
from zskip.storage import LocalStorage

ROWS = 1000
NEW = 1500
"""In the new file alone."""


def write(path: Path, low: int) -> None:
    table = pa.table({"id": pa.array(range(low, low + ROWS), pa.int64())})
    pq.write_table(table, path, compression="none", use_dictionary=False, row_group_size=500)


def set_times(path: Path, times: os.stat_result) -> None:
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def rsync(source: Path, target: Path) -> None:
    """A hidden copy with the times of the source, renamed over the target."""
    hidden = target.with_name(f".{target.name}.x7Fq2a")
    shutil.copyfile(source, hidden)
    set_times(hidden, source.stat())
    os.replace(hidden, target)


def untar(source: Path, target: Path) -> None:
    archive = source.with_suffix(".tar")
    with tarfile.open(archive, "w") as tar:
        tar.add(source, target.name)
    target.unlink()
    with tarfile.open(archive) as tar:
        tar.extractall(target.parent)


def overwrite(source: Path, target: Path) -> None:
    """The same inode with other bytes."""
    with target.open("r+b") as file:
        file.write(source.read_bytes())
    set_times(target, source.stat())


COPIES: dict[str, Callable[[Path, Path], object]] = {
    "rsync -t": rsync,
    "cp -p": shutil.copy2,
    "tar x": untar,
    "mv": os.replace,
    "in place": overwrite,
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t"
    path.mkdir()
    write(path / "0.parquet", 0)
    write(path / "1.parquet", 5000)
    os.utime(path / "0.parquet", (1e9, 1e9))
    return path


def replace(table: Path, copy: Callable[[Path, Path], object] = shutil.copy2) -> None:
    """Put other rows into the first file, of the same size and time."""
    target, source = table / "0.parquet", table.parent / "new.parquet"
    before = target.stat()
    write(source, 1000)
    set_times(source, before)
    copy(source, target)
    after = target.stat()
    assert (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)


def files(table: Path, where: str) -> list[str]:
    return [Path(file).name for file in zskip.open(str(table)).files(where)]


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
def test_a_replaced_file_is_read_and_indexed_again(table: Path, copy: Callable[[Path, Path], object]) -> None:
    zskip.open(str(table)).index(granularity="row_group")
    assert files(table, f"id = {NEW}") == []
    replace(table, copy)
    with pytest.warns(ZskipWarning, match="nothing of 1 of the 2 files"):
        assert files(table, f"id = {NEW}") == ["0.parquet"]
    zskip.open(str(table)).index()
    assert files(table, f"id = {NEW}") == ["0.parquet"]
    assert files(table, "id = 500") == []
    assert zskip.open(str(table)).files(f"id = {NEW}")[0].row_groups == (1,)


def test_a_table_copied_with_its_index_is_indexed_again(table: Path, tmp_path: Path) -> None:
    zskip.open(str(table)).index()
    copy = tmp_path / "copy"
    shutil.copytree(table, copy)
    with pytest.warns(ZskipWarning, match="nothing of 2 of the 2 files") as caught:
        assert len(files(copy, "id = 500")) == 2
    assert len(caught) == 1
    zskip.open(str(copy)).index()
    assert files(copy, "id = 500") == ["0.parquet"]


def test_a_table_moved_with_its_index_is_not(table: Path, tmp_path: Path) -> None:
    zskip.open(str(table)).index()
    os.rename(table, tmp_path / "moved")
    assert files(tmp_path / "moved", "id = 500") == ["0.parquet"]


def test_a_rewrite_of_a_file_that_was_replaced_is_a_conflict(table: Path) -> None:
    form = ParquetFormat(LocalStorage(str(table)))
    base, staging = form.snapshot(), form.stage()
    write(table / staging / "new.parquet", 0)
    replace(table)
    added = [
        StagedFile(path=f"{staging}/new.parquet", directory="", size=(table / staging / "new.parquet").stat().st_size)
    ]
    with pytest.raises(ConflictError, match="was changed"):
        form.replace(base, np.array([True, False]), added)
    form.abort(staging)
    assert len(files(table, f"id = {NEW}")) == 2


@pytest.mark.spark
def test_queries_read_a_replaced_file(spark: SparkSession, table: Path) -> None:
    zskip.table(spark, str(table)).index(sketches=["bloom:id"])

    def answers() -> list[object]:
        spark.catalog.refreshByPath(str(table))
        frames = [zskip.table(spark, str(table)).df(), spark.read.parquet(str(table))]
        where = [f"id = {NEW}", f"pmod(hash(id), 8) >= 0 AND id IN ({NEW}, 500)"]
        found: list[object] = [frame.where(text).count() for frame in frames for text in where]
        return [*found, *(tuple(frame.selectExpr("min(id)", "max(id)", "count(*)").first() or ()) for frame in frames)]

    small = spark.createDataFrame([(NEW,), (500,)], "id long")
    zskip.enable(spark)
    try:
        before = answers()
        assert before[:4] == [0, 1, 0, 1]
        listed = spark.read.parquet(str(table))
        assert listed.join(small, "id").count() == 1
        replace(table, overwrite)
        after = answers()
        assert after[:4] == [1, 1, 1, 1]
        assert after[4:] == [(1000, 5999, 2000)] * 2
        assert [row.id for row in spark.read.parquet(str(table)).join(small, "id").collect()] == [NEW]
        with pytest.warns(ZskipWarning, match="nothing of 1 of the 2 files"):
            zskip.table(spark, str(table)).df()
        zskip.table(spark, str(table)).index()
        assert answers() == after
        info = zskip.table(spark, str(table)).info().index
        assert info is not None
        assert info.sketches[0].files == 2
        assert files(table, f"id = {NEW}") == ["0.parquet"]
    finally:
        zskip.disable(spark)


@pytest.mark.spark
def test_disks_of_java_and_python_tell_files_apart_alike(spark: SparkSession, table: Path) -> None:
    """Else nothing of a table would be skipped after `enable`."""
    zskip.table(spark, str(table)).index()
    zskip.enable(spark)
    try:
        for low in (500, 5500):
            frame = spark.read.parquet(str(table)).where(f"id = {low}")
            assert "kept 1 of 2 files" in frame._jdf.queryExecution().toString()
            assert frame.count() == 1
    finally:
        zskip.disable(spark)
