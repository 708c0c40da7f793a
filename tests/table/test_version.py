"""One version of a table: an operation lists it, or reads its log, once; a commit asks again what is live."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables
from pyspark.sql import SparkSession

import zskip
from zskip.errors import ConflictError
from zskip.formats import ParquetFormat
from zskip.formats.delta import format as delta
from zskip.records import Snapshot
from zskip.storage import LocalStorage
from zskip.table.index_binding import complete_in_memory
from zskip.table.rewrite import rewrite
from zskip.table.version import read_snapshot


def count_calls(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, counts: Callable[..., bool]) -> list[int]:
    calls, honest = [], getattr(owner, name)

    def call(*arguments: Any, **named: Any) -> Any:
        if counts(*arguments):
            calls.append(1)
        return honest(*arguments, **named)

    monkeypatch.setattr(owner, name, call)
    return calls


def is_indexed(table: zskip.Table) -> bool:
    info = table.info()
    return info.index is not None and info.index.files == info.files


def as_rows(snapshot: Snapshot) -> list[Any]:
    directories = [partition.directory for partition in snapshot.partitions]
    return [(file.path, file.size, file.mtime_ms, file.identity, directories[file.partition]) for file in snapshot]


@pytest.mark.spark
def test_an_operation_on_plain_files_lists_them_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tables.make_partitioned(tmp_path / "t")
    before = tables.ids(path)
    table, honest, derived = zskip.table(spark, str(path)), ParquetFormat.snapshot_after, []

    def snapshot_after(self: ParquetFormat, *arguments: Any) -> Snapshot | None:
        derived.append(honest(self, *arguments))
        return derived[-1]

    monkeypatch.setattr(ParquetFormat, "snapshot_after", snapshot_after)
    listings = count_calls(monkeypatch, LocalStorage, "walk", lambda storage, *_: Path(storage.root) == path)
    schema, rows = table.df().schema, table.df().limit(3).collect()
    for operation in (
        lambda: table.optimize(by=["id"], curve="linear", files=8),
        lambda: table.append(spark.createDataFrame(rows, schema)),
        lambda: table.compact(target_file_size="1GB"),
    ):
        listings.clear()
        operation()
        assert len(listings) == 1
        now = read_snapshot(zskip.open(str(path))._handle)
        (known,) = derived
        assert known is not None
        assert (known.version, as_rows(known)) == (now.version, as_rows(now))
        assert is_indexed(table)
        derived.clear()
    assert tables.ids(path) == sorted([*before, *(row["id"] for row in rows)])
    columns = table.info().partition_columns
    listings.clear()
    zskip.write(
        spark.createDataFrame(rows, schema), path, by="id", curve="linear", partition_by=columns, mode="overwrite"
    )
    assert len(listings) < 4
    assert tables.ids(path) == sorted(row["id"] for row in rows)


@pytest.mark.spark
def test_what_others_do_meanwhile_is_seen_by_the_commit_and_by_the_next_version(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tables.make_events(tmp_path / "t", files=3)
    before, honest = tables.ids(path), rewrite.commit_files

    def commit(*arguments: Any, **options: Any) -> Any:
        with monkeypatch.context() as undone:
            undone.setattr(rewrite, "commit_files", honest)
            meanwhile()
        return honest(*arguments, **options)

    monkeypatch.setattr(rewrite, "commit_files", commit)
    table, other = zskip.table(spark, str(path)), zskip.table(spark, str(path))
    meanwhile = lambda: other.append(other.df().limit(2))  # noqa: E731
    table.optimize(by=["id"], curve="linear", files=2)
    assert len(tables.ids(path)) == len(before) + 2
    assert is_indexed(table)
    meanwhile = lambda: other.optimize(by=["id"], curve="linear", files=4)  # noqa: E731
    with pytest.raises(ConflictError, match="call again"):
        table.optimize(by=["id"], curve="linear", files=2)
    assert len(tables.ids(path)) == len(before) + 2


@pytest.mark.spark
def test_a_rewrite_of_delta_opens_its_log_to_plan_and_to_commit(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deltalake = pytest.importorskip("deltalake")
    path = tmp_path / "d"
    for start in (0, 1000):
        data = pa.table({"id": np.arange(start, start + 1000), "p": np.arange(start, start + 1000) % 2})
        deltalake.write_deltalake(str(path), data, mode="append", partition_by=["p"])
    table = zskip.table(spark, str(path))
    opened = count_calls(monkeypatch, delta, "open_table", lambda *_: True)
    for operation in (
        lambda: table.optimize(by=["id"], curve="linear", files=4),
        lambda: table.append(spark.range(2000, 2010).selectExpr("id", "id % 2 AS p")),
        lambda: table.compact(target_file_size="1GB"),
    ):
        opened.clear()
        operation()
        assert len(opened) == 2
        assert is_indexed(table)
    ids = deltalake.DeltaTable(str(path)).to_pyarrow_table().column("id").to_pylist()
    assert sorted(ids) == list(range(2010))


@pytest.mark.parametrize("apart", [False, True])
def test_an_index_in_memory_reads_the_footers_of_new_files_only(tmp_path: Path, apart: bool) -> None:
    path, index = tables.make_events(tmp_path / "t", files=3), tmp_path / "index"
    table = zskip.open(str(path), index_path=str(index) if apart else None)
    table.index()
    old = sorted(path.glob("*.parquet"))
    pq.write_table(tables.events(50), path / "new.parquet")
    snapshot = read_snapshot(table._handle)
    for file in old:
        file.write_bytes(b"no footer")
    bound = complete_in_memory(table._handle, snapshot)
    assert bound.rows.min() == 50
    assert not list(tmp_path.glob("t/_zskip/index/*new*"))
