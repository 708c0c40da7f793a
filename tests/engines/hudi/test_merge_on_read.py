"""Merge-on-read tables: read and rewritten with their log files, which Hudi itself merges."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import zskip
from zskip.errors import ConflictError, UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "v",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.metadata.enable": "false",
    "hoodie.compact.inline": "false",
}
Unpack = Callable[[str], Path]


def read(spark: SparkSession, path: Path) -> DataFrame:
    return spark.read.format("hudi").load(str(path))


def rows_of(frame: DataFrame) -> list[Any]:
    """The rows but for the name of their file."""
    return sorted(map(tuple, frame.drop("_hoodie_file_name").collect()), key=repr)


def change(spark: SparkSession, path: Path, where: str, name: str, operation: str = "upsert") -> None:
    """Let Hudi change the names of some rows, or delete them, in log files."""
    from pyspark.sql import functions as F

    frame = read(spark, path)
    own = [column for column in frame.columns if not column.startswith("_hoodie")]
    changed = frame.where(where).select(*own).withColumn("name", F.lit(name)).withColumn("ts", F.col("ts") + 1)
    named = {**OPTIONS, "hoodie.datasource.write.operation": operation}
    changed.write.format("hudi").options(**named).mode("append").save(str(path))


def test_a_frame_is_hudis_own_from_fewer_files(engine_spark: SparkSession, unpack: Unpack) -> None:
    path = unpack("mor")
    table = zskip.table(engine_spark, str(path))
    assert table.index(sketches=["values:id"]).files == 3
    change(engine_spark, path, "id = 4", "", "delete")
    frame, everything = table.df(), read(engine_spark, path)
    assert rows_of(frame) == rows_of(everything)
    assert frame.schema == everything.schema
    # One file has log files beside it, one may hold such an id.
    for where, files in {"id = 3": 2, "id = 4": 1, "name = 'logged'": 1, "v = 0 AND id = 9": 1}.items():
        assert rows_of(frame.where(where)) == rows_of(everything.where(where)), where
        assert table.last_scan is not None
        assert table.last_scan.files == files, where
    assert frame.count() == 11
    assert table.last_scan.files == 1, "the other files are counted by the index"
    assert table.verify(queries=3).ok
    assert table.explain("id = 3").steps[-1].files == 2
    assert table.info().rows is not None
    with pytest.raises(UnsupportedError, match=r"df\(\)"):
        table.files("id = 3")
    deletes = {Path(file).parent.name: file.deletes for file in table.files("id = 3", deletes=True)}
    assert {name: len(files) for name, files in deletes.items()} == {"0": 0, "1": 2}
    assert all(log.kind == "log file" and Path(str(log.path)).stat().st_size == log.size for log in deletes["1"])


def test_a_rewrite_merges_log_files(engine_spark: SparkSession, unpack: Unpack) -> None:
    path = unpack("mor")
    table = zskip.table(engine_spark, str(path))
    change(engine_spark, path, "id = 4", "", "delete")
    before, old = rows_of(read(engine_spark, path)), set(table.files(deletes=True))
    result = table.optimize(by=["id", "name"], files=2)
    assert rows_of(read(engine_spark, path)) == before == rows_of(table.df())
    assert (result.files_before, result.rows) == (3, 11)
    assert not old & set(table.files())
    change(engine_spark, path, "id IN (3, 5)", "again")
    before = rows_of(read(engine_spark, path))
    assert table.compact().files_after == 3
    assert rows_of(read(engine_spark, path)) == before
    change(engine_spark, path, "id IN (3, 5)", "once more")
    before = rows_of(read(engine_spark, path))
    assert table.optimize(by=["id", "name"], files=1, where="v = 0").partitions == 1
    table.maintain(by=["id", "name"], target_file_size="1kB")
    assert rows_of(read(engine_spark, path)) == before
    change(engine_spark, path, "id > 0", "one key")
    before = rows_of(read(engine_spark, path))
    table.optimize(by=["name"], curve="linear", files=9)  # of which several have rows of this key
    assert rows_of(read(engine_spark, path)) == before
    assert table.verify(queries=2).ok


def test_a_log_file_written_meanwhile_wins(
    engine_spark: SparkSession, unpack: Unpack, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zskip.spark.formats.hudi.commits import HudiEngine

    path = unpack("mor")
    before = read(engine_spark, path).count()
    written, complete = HudiEngine._check_written, HudiEngine._complete

    def write_before(self: HudiEngine, *arguments: Any) -> None:
        change(engine_spark, path, "id = 5", "mine")
        written(self, *arguments)

    monkeypatch.setattr(HudiEngine, "_check_written", write_before)
    with pytest.raises(ConflictError):
        zskip.table(engine_spark, str(path)).optimize(by=["id", "name"], files=2)
    monkeypatch.setattr(HudiEngine, "_check_written", written)

    def write_late(self: HudiEngine, *arguments: Any) -> None:
        change(engine_spark, path, "id = 7", "mine")
        complete(self, *arguments)

    monkeypatch.setattr(HudiEngine, "_complete", write_late)
    with pytest.raises(ConflictError):
        zskip.table(engine_spark, str(path)).optimize(by=["id", "name"], files=2)
    names = {row.id: row.name for row in read(engine_spark, path).collect()}
    assert len(names) == before == read(engine_spark, path).count()
    assert names[5] == names[7] == "mine"
