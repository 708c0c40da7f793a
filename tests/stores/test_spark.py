"""Tables in an object store through a session of Spark, which reaches it by `s3a`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
import pytest
from bucket import Bucket
from far_footers import check_executors
from owners import dead_owner
from pyspark.sql import SparkSession
from rounds import ADDED, run_rounds

import zskip
from zskip.errors import InputError, StorageError, UnsupportedError
from zskip.spark.jvm.hadoop import HadoopStorage, storage_for
from zskip.spark.write.arrow.access import reach_of
from zskip.storage.objects import ObjectStorage

ROUNDS = int(os.environ.get("ZSKIP_STORE_ROUNDS", "2"))
JARS = os.environ.get("ZSKIP_STORE_JARS", "")
Make = Callable[[Bucket], None]


def s3a(bucket: Bucket, key: str) -> str:
    return f"s3a://{bucket.name}/{key}"


def make_parquet(bucket: Bucket) -> None:
    bucket.table("t a%20b")


def make_delta(bucket: Bucket) -> None:
    options = bucket.options | {"aws_allow_http": "true"}
    for i in range(10):
        ids = np.arange(i * 100, (i + 1) * 100)
        rows = pa.table({"id": ids, "v": (ids * 7919) % 1000, "d": np.full(100, i % 2, np.int32)})
        deltalake.write_deltalake(bucket.uri("t"), rows, mode="append", partition_by=["d"], storage_options=options)


@pytest.mark.parametrize(("make", "key"), [(make_parquet, "t a%20b"), (make_delta, "t")], ids=["parquet", "delta"])
def test_a_table_lives_in_a_store(s3a_spark: SparkSession, bucket: Bucket, make: Make, key: str) -> None:
    make(bucket)
    table = zskip.table(s3a_spark, s3a(bucket, key))
    assert table.index().files == 10
    assert table.df().where("id between 330 and 440").count() == 111
    result = table.optimize(by=["id", "v"], files=4)
    assert (result.files_before, result.rows) == (10, 1000)
    frame = table.df()
    assert [frame.count(), frame.where("id between 330 and 440").count()] == [1000, 111]
    without = zskip.open(bucket.uri(key), storage_options=bucket.options)
    assert len(without.files("id between 0 and 5")) < len(without.files()) == result.files_after
    assert without.info().format == ("delta" if make is make_delta else "parquet")
    assert without.history()[0].operation == "optimize"
    assert without.clean().leftovers == ()
    if make is make_parquet:
        assert s3a_spark.read.parquet(s3a(bucket, key)).count() == 1000
        data = [k for k in bucket.names() if k.endswith(".parquet") and "_zskip" not in k]
        assert len(data) == result.files_after
    table.optimize(by=["id", "v"], files=4) if make is make_delta else table.compact()
    assert table.maintain(budget="1GB").files_removed >= 0 if make is make_delta else True


def test_a_lake_is_maintained(s3a_spark: SparkSession, bucket: Bucket) -> None:
    make_parquet(bucket)
    make_delta(bucket)
    lake = zskip.lake(s3a_spark, s3a(bucket, ""))
    assert sorted(line.format for line in lake.survey().tables) == ["delta", "parquet"]
    done = lake.maintain(jobs=2)
    assert not done.failed
    assert [table.files_removed for table in done.tables] == [10, 10]
    assert not [name for name in bucket.names() if "/turns/" in name]
    assert [zskip.table(s3a_spark, s3a(bucket, key)).df().count() for key in ("t a%20b", "t")] == [1000, 1000]


def test_into_writes_a_new_table(s3a_spark: SparkSession, bucket: Bucket) -> None:
    bucket.table("t", files=4)
    zskip.table(s3a_spark, s3a(bucket, "t")).optimize(by=["id", "v"], files=2, into=s3a(bucket, "new"))
    new = zskip.open(bucket.uri("new"), storage_options=bucket.options)
    assert new.info().rows == 400
    assert len(new.files("id < 5")) == 1
    assert not any("_owner" in key or key.startswith(".new") for key in bucket.names())
    with pytest.raises(InputError, match="is taken"):
        zskip.table(s3a_spark, s3a(bucket, "t")).optimize(by=["id", "v"], files=2, into=s3a(bucket, "new"))
    # What a process left that was killed before its commit is swept, what is committed never is.
    dead = dead_owner()
    bucket.put("new/_owner.json", dead)
    bucket.put("lost/_owner.json", dead)
    bucket.put("lost/_zskip/staging/x/part", b"1")
    assert new.clean().leftovers == ()
    lost = zskip.open(bucket.uri("lost"), storage_options=bucket.options)
    assert [found.files for found in lost.clean().leftovers][-1:] == [2]
    zskip.table(s3a_spark, s3a(bucket, "t")).optimize(by=["id", "v"], files=2, into=s3a(bucket, "lost"))
    assert zskip.open(bucket.uri("lost"), storage_options=bucket.options).info().rows == 400


def test_new_files_are_encrypted_as_the_session_says(s3a_spark: SparkSession, bucket: Bucket) -> None:
    conf = s3a_spark._jsc.hadoopConfiguration()
    conf.set(f"fs.s3a.bucket.{bucket.name}.encryption.algorithm", "SSE-KMS")
    conf.set(f"fs.s3a.bucket.{bucket.name}.encryption.key", "key-of-the-table")
    bucket.table("t", files=4)
    assert zskip.table(s3a_spark, s3a(bucket, "t")).optimize(by=["id", "v"], files=2).writer == "arrow"
    names = [name for name in bucket.names("t/") if name.endswith(".parquet")]
    heads = [bucket.client.head_object(Bucket=bucket.name, Key=name) for name in names]
    told = [(head["ServerSideEncryption"], head["SSEKMSKeyId"]) for head in heads]
    assert set(told) == {("aws:kms", "key-of-the-table")}


def test_what_only_hadoop_can_encrypt_is_left_to_it(s3a_spark: SparkSession, bucket: Bucket) -> None:
    bucket.table("t", files=1)
    storage = storage_for(s3a_spark, s3a(bucket, "t"))
    assert isinstance(storage, HadoopStorage)
    storage._files.getConf().set("fs.s3a.encryption.algorithm", "CSE-KMS")
    try:
        assert reach_of(storage) is None
    finally:
        storage._files.getConf().unset("fs.s3a.encryption.algorithm")


@pytest.mark.parametrize("error", [StorageError, FileNotFoundError])
def test_a_file_moves_through_hadoop_where_nothing_else_reaches_it(
    s3a_spark: SparkSession, bucket: Bucket, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def refuse(*_: object) -> None:
        raise error("no credentials, or those of another store")

    monkeypatch.setattr(ObjectStorage, "rename", refuse)
    bucket.put("t/a", b"1")
    storage = storage_for(s3a_spark, s3a(bucket, "t"))
    storage.rename("a", "b/c")
    assert [name for name in bucket.names("t/") if name[-1] in "ac"] == ["t/b/c"]
    bucket.put("t/a", b"1")
    with pytest.raises(FileExistsError):
        storage.rename("a", "b/c")
    with pytest.raises(FileNotFoundError):
        storage.rename("none", "d")


@pytest.mark.parametrize("name", ["parquet", "delta"])
def test_of_two_rewrites_and_an_appender_at_once_none_loses_a_row(
    s3a_spark: SparkSession, bucket: Bucket, name: str
) -> None:
    (make_parquet if name == "parquet" else make_delta)(bucket)
    key = "t a%20b" if name == "parquet" else "t"

    def append(start: int) -> None:
        ids = np.arange(start, start + ADDED)
        added = pa.table({"id": ids, "v": ids % 7})
        if name == "parquet":
            bucket.put_table(f"{key}/d={start // ADDED % 2}/more-{start}.parquet", added)
        else:
            added = added.append_column("d", pa.array(ids // ADDED % 2, pa.int32()))
            options = bucket.options | {"aws_allow_http": "true"}
            deltalake.write_deltalake(bucket.uri(key), added, mode="append", storage_options=options)

    outcomes = run_rounds(lambda: zskip.table(s3a_spark, s3a(bucket, key)), append, 1000, ROUNDS)
    print(f"{name}: {ROUNDS} rounds, {dict(outcomes)}")


def test_who_comes_second_is_told_so(s3a_spark: SparkSession, bucket: Bucket) -> None:
    storage = HadoopStorage(s3a_spark, s3a(bucket, "t"))
    storage.write("log/1", b"1")
    with pytest.raises(FileExistsError):
        storage.write("log/1", b"2")
    # As after an answer that was lost: what was sent is there.
    storage.write("log/1", b"1")
    assert storage.is_exclusive()
    assert storage.read("log/1") == b"1"
    assert not any(key.endswith(".tmp") for key in bucket.names())


def test_a_store_that_cannot_tell_who_was_first_is_rewritten_on_a_promise_only(
    s3a_spark: SparkSession, bucket: Bucket, monkeypatch: Any
) -> None:
    bucket.table("t", files=4)
    monkeypatch.setattr(HadoopStorage, "is_exclusive", lambda self: False)
    before, table = bucket.names(), zskip.table(s3a_spark, s3a(bucket, "t"))
    for refused in (lambda: table.optimize(by=["id", "v"]), table.compact):
        with pytest.raises(UnsupportedError, match="exclusive=True"):
            refused()
    assert bucket.names() == before
    assert table.optimize(by=["id", "v"], files=2, exclusive=True).files_after >= 2
    assert table.df().count() == 400


def test_paths_that_the_session_does_not_reach(s3a_spark: SparkSession, bucket: Bucket) -> None:
    with pytest.raises(InputError, match="s3a://"):
        zskip.table(s3a_spark, bucket.uri("t"))
    with pytest.raises(zskip.ZskipError, match="gcs-connector"):
        zskip.table(s3a_spark, "gs://bucket/t")


@pytest.mark.skipif("iceberg" not in JARS, reason="no jar of Iceberg")
def test_iceberg_in_a_catalog_of_the_session(s3a_spark: SparkSession, bucket: Bucket) -> None:
    name = f"ice{bucket.name[-8:]}"
    for key, value in {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop"}.items():
        s3a_spark.conf.set(f"spark.sql.catalog.{name}{key}", value)
    s3a_spark.conf.set(f"spark.sql.catalog.{name}.warehouse", s3a(bucket, "wh"))
    s3a_spark.sql(f"CREATE TABLE {name}.db.t (id bigint, v bigint) USING iceberg")
    s3a_spark.sql(f"INSERT INTO {name}.db.t SELECT id, id * 7919 % 900 FROM range(0, 900, 1, 6)")
    table = zskip.table(s3a_spark, f"{name}.db.t")
    assert table.optimize(by=["id", "v"], files=3).files_after == 3
    s3a_spark.sql(f"INSERT INTO {name}.db.t SELECT id, 0 FROM range(900, 950)")
    table.index()
    frame = table.df().where("id between 30 and 59")
    assert [frame.count(), table.df().count(), s3a_spark.table(f"{name}.db.t").count()] == [30, 950, 950]
    assert len(table.files("id = 5")) < len(table.files())
    assert zskip.open(bucket.uri("wh/db/t"), storage_options=bucket.options).info().rows == 950
    assert table.clean().leftovers == ()


def test_hudi_is_read_through_spark(s3a_spark: SparkSession, bucket: Bucket) -> None:
    bucket.unpack("h", Path(__file__).parents[1] / "data" / "hudi" / "hive.zip")
    table = zskip.table(s3a_spark, s3a(bucket, "h"))
    everything = table.files()
    assert table.index().files == len(everything) > 1
    assert 0 < len(table.files("id = 1")) < len(everything)
    rows = table.df()
    assert rows.count() == table.info().rows
    assert rows.where("id = 1").count() == sum(row["id"] == 1 for row in rows.collect()) > 0


def test_executors_read_footers_in_the_store(
    s3a_spark: SparkSession, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.table("t a%20b")
    check_executors(s3a_spark, storage_for(s3a_spark, s3a(bucket, "t a%20b")), monkeypatch)
