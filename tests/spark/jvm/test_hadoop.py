"""Storage over Hadoop's FileSystem keeps the laws of `Storage`."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from zskip.errors import InputError, StorageError
from zskip.formats.hive import is_hidden
from zskip.formats.parquet import ParquetFormat
from zskip.spark.jvm.hadoop import HadoopStorage, storage_for
from zskip.spark.scan.relation import scan
from zskip.spark.schema import read_schema
from zskip.storage import LocalStorage


class ByRename(HadoopStorage):
    """As on a file system that is no disk of this machine: files are published by Hadoop's rename."""

    def _resolve_mount(self) -> None:
        return None


@pytest.fixture
def mounted(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """The URI under which `tmp_path` is mounted in the session."""
    name = f"spark.hadoop.fs.viewfs.mounttable.{tmp_path.name.replace('_', '-')}.link./m"
    spark.conf.set(name.removeprefix("spark.hadoop."), tmp_path.as_uri())
    yield f"viewfs://{tmp_path.name.replace('_', '-')}/m"
    spark.conf.unset(name.removeprefix("spark.hadoop."))


@pytest.fixture(params=[HadoopStorage, ByRename])
def storage(spark: SparkSession, mounted: str, request: pytest.FixtureRequest) -> HadoopStorage:
    made: HadoopStorage = request.param(spark, f"{mounted}/t")
    return made


def test_what_is_written_is_read_and_listed(storage: HadoopStorage, tmp_path: Path) -> None:
    names = ["a", "b c/%20#x\né", "_zskip/log/1", "p=1/.hidden", "p=1/x"]
    for i, name in enumerate(names):
        storage.write(name, bytes([i]) * (i + 1))
    assert [storage.read(n) for n in names] == [bytes([i]) * (i + 1) for i in range(5)]
    assert sorted(f.path for f in storage.walk(is_hidden)) == ["a", "b c/%20#x\né", "p=1/x"]
    local = LocalStorage(str(tmp_path / "t"))
    # Hadoop's local file system hides its checksums from its own listings only, and tells no inodes.
    on_disk = [f._replace(identity=0) for f in local.walk(lambda _: False) if not f.path.endswith(".crc")]
    assert sorted(storage.walk(lambda _: False)) == sorted(on_disk)
    for directory in ("", "b c", "p=1", "none", "a"):
        on_disk = [f._replace(identity=0) for f in local.list_dir(directory) if not f.path.endswith(".crc")]
        assert sorted(storage.list_dir(directory)) == sorted(on_disk)
    for name in (*names, "p=1", "none", "a/below"):
        info = local.stat(name)
        assert storage.stat(name) == (None if info is None else info._replace(identity=0))


def test_writes_do_not_replace_unless_told(storage: HadoopStorage) -> None:
    storage.write("x/y", b"1")
    with pytest.raises(FileExistsError):
        storage.write("x/y", b"2")
    assert storage.read("x/y") == b"1"
    storage.write("x/y", b"3", overwrite=True)
    assert storage.read("x/y") == b"3"
    assert [f.path for f in storage.walk(lambda _: False)] == ["x/y"]


def test_of_racing_writers_one_wins(spark: SparkSession, mounted: str) -> None:
    storage = HadoopStorage(spark, f"{mounted}/t")

    def write(i: int) -> int | None:
        try:
            storage.write("log/1", str(i).encode())
        except FileExistsError:
            return None
        return i

    with ThreadPoolExecutor(8) as pool:
        winners = [i for i in pool.map(write, range(16)) if i is not None]
    assert [str(i).encode() for i in winners] == [storage.read("log/1")]


def test_renames_do_not_replace(storage: HadoopStorage) -> None:
    for name in ("a/1", "b/1", "c"):
        storage.write(name, name.encode())
    for source, target in (("a/1", "c"), ("a/1", "b/1"), ("a", "b")):
        with pytest.raises(FileExistsError):
            storage.rename(source, target)
    with pytest.raises(FileNotFoundError):
        storage.rename("none", "d")
    storage.rename("a", "new/a")
    storage.rename("c", "new/e/c")
    assert sorted(f.path for f in storage.walk(is_hidden)) == ["b/1", "new/a/1", "new/e/c"]
    assert storage.read("new/a/1") == b"a/1"


def test_deletes_take_all_and_miss_nothing(storage: HadoopStorage) -> None:
    storage.write("a/b/c", b"1")
    storage.delete("a")
    storage.delete("a")
    assert storage.stat("a") is None
    assert storage.walk(is_hidden) == []


def test_streams_seek(storage: HadoopStorage) -> None:
    data = bytes(range(256)) * 20_000
    storage.write("big", data)
    with storage.open("big") as stream:
        assert stream.seek(-8, 2) == len(data) - 8
        assert stream.read() == data[-8:]
        stream.seek(300)
        assert stream.read(5) == data[300:305]
        stream.seek(0)
        assert stream.read() == data
    with pytest.raises(FileNotFoundError):
        storage.open("none")
    with pytest.raises(FileNotFoundError):
        storage.read("none")


def test_paths_resolve_as_in_spark(
    spark: SparkSession, tmp_path: Path, mounted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (f"{tmp_path}/t", f"{tmp_path}/t/", f"file:{tmp_path}/t", f"file://{tmp_path}//t/"):
        found = storage_for(spark, path)
        assert isinstance(found, LocalStorage)
        assert found.root == f"{tmp_path}/t"
    odd = storage_for(spark, f"{tmp_path}/a b%20#é")
    assert odd.root == f"{tmp_path}/a b%20#é"
    assert storage_for(spark, f"{mounted}/t/").root == f"{mounted}/t"
    with pytest.raises(StorageError, match="nope"):
        storage_for(spark, "nope://host/t")
    with pytest.raises(InputError):
        storage_for(spark, "")


def test_a_table_on_a_mount_is_scanned(spark: SparkSession, mounted: str) -> None:
    spark.range(20).selectExpr("id", "concat('k %', id % 2) as k").write.partitionBy("k").parquet(f"{mounted}/t t")
    storage = storage_for(spark, f"{mounted}/t t")
    assert isinstance(storage, HadoopStorage)
    frame = scan(spark, read_schema(spark, ParquetFormat(storage).snapshot()))
    plain = spark.read.parquet(f"{mounted}/t t")
    assert frame.schema == plain.schema
    assert sorted(frame.inputFiles()) == sorted(plain.inputFiles())
    assert sorted(frame.where("k = 'k %1'").collect()) == sorted(plain.where("k = 'k %1'").collect())
