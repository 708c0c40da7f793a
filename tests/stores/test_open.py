"""Tables in an object store without Spark: index, files, explain, info and clean, for other engines to read."""

from __future__ import annotations

import io
import json
import socket
import time
import warnings
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as fs
import pyarrow.parquet as pq
import pytest
from bucket import Bucket
from faulty import Proxy
from typer.testing import CliRunner

import zskip
from zskip.cli.app import app
from zskip.errors import StorageError, TableNotFoundError, ZskipWarning
from zskip.storage import objects, parse_object_uri


@pytest.fixture
def table(bucket: Bucket) -> zskip.Table:
    bucket.table("t 1/p%20q")
    return zskip.open(bucket.uri("t 1/p%20q"), storage_options=bucket.options)


def test_a_table_is_indexed_pruned_and_explained(table: zskip.Table, bucket: Bucket) -> None:
    assert table.index().files == 10
    assert table.files("id between 330 and 440") == [
        bucket.uri("t 1/p%20q/d=0/part-00004.parquet"),
        bucket.uri("t 1/p%20q/d=1/part-00003.parquet"),
    ]
    assert table.files("id between 330 and 440 and d = 1") == [bucket.uri("t 1/p%20q/d=1/part-00003.parquet")]
    assert "2 files" in str(table.explain("id between 330 and 440"))
    assert table.info().rows == 1000
    assert table.info().partitions == 2
    assert table.clean().leftovers == ()
    assert len(table.describe_index()) == 3
    # Other bytes: of a store that counts in seconds, the old ones may stay known.
    bucket.table("t 1/p%20q", files=11, rows=90)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len(table.files("id < 0")) == 11
    assert table.index().files == 11
    assert table.files("id < 0") == []


def test_an_object_of_the_same_size_and_second_is_another(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores may tell whole seconds, in which an object is written twice; its ETag differs."""
    info = objects._info
    monkeypatch.setattr(objects, "_info", lambda path, meta: info(path, meta)._replace(mtime_ms=0))
    table = zskip.open(bucket.uri("t"), storage_options=bucket.options)
    place = parse_object_uri(bucket.uri("t"))
    assert place is not None
    storage = objects.ObjectStorage(place, bucket.options)
    for low in (0, 1000):
        rows = io.BytesIO()
        ids = pa.array(range(low, low + 1000), pa.int64())
        pq.write_table(pa.table({"id": ids}), rows, compression="none", use_dictionary=False)
        storage.write("0.parquet", rows.getvalue(), overwrite=True)
        if not low:
            table.index()
            assert table.files("id = 1500") == []
    with pytest.warns(ZskipWarning, match="nothing of 1 of the 1 files"):
        assert len(table.files("id = 1500")) == 1
    table.index()
    assert len(table.files("id = 1500")) == 1
    assert table.files("id = 500") == []


def test_every_spelling_is_one_table(bucket: Bucket) -> None:
    bucket.table("t")
    paths = [bucket.uri("t"), bucket.uri("t/"), bucket.uri("/t//"), bucket.uri("t").replace("s3:", "s3a:")]
    tables = [zskip.open(path, storage_options=bucket.options, index_path=bucket.uri("i")) for path in paths]
    tables[0].index()
    assert {table.path for table in tables} == {bucket.uri("t")}
    assert {len(table.files("id < 100")) for table in tables} == {1}


def test_the_index_may_lie_on_a_disk(bucket: Bucket, tmp_path: Any) -> None:
    bucket.table("t")
    before = bucket.names()
    table = zskip.open(bucket.uri("t"), storage_options=bucket.options, index_path=str(tmp_path))
    table.index()
    assert len(table.files("id < 100")) == 1
    assert bucket.names() == before


def test_other_engines_read_the_files(table: zskip.Table, bucket: Bucket, monkeypatch: Any) -> None:
    table.index()
    files, options = table.files("id between 330 and 440"), bucket.options
    expected = sum(range(330, 441))
    rows = pl.scan_parquet([str(f) for f in files], storage_options=options | {"aws_allow_http": "true"}, glob=False)
    assert rows.filter(pl.col("id").is_between(330, 440)).select(pl.col("id").sum()).collect().item() == expected
    endpoint = options["aws_endpoint_url"]
    s3 = fs.S3FileSystem(access_key="x", secret_key="y", region="us-east-1", endpoint_override=endpoint)
    read = ds.dataset([f.removeprefix("s3://") for f in files], filesystem=s3, format="parquet")
    assert sum(read.to_table(filter=(ds.field("id") >= 330) & (ds.field("id") <= 440))["id"].to_pylist()) == expected
    assert duckdb.__version__


def test_the_shell_takes_the_same_paths(table: zskip.Table, bucket: Bucket, monkeypatch: Any) -> None:
    for key, value in bucket.options.items():
        monkeypatch.setenv(key.upper(), value)
    runner = CliRunner()
    assert runner.invoke(app, ["index", table.path]).exit_code == 0
    done = runner.invoke(app, ["files", table.path, "--where", "id < 100", "--json"])
    assert done.exit_code == 0, done.output
    assert "part-00000.parquet" in done.output
    assert "part-00001.parquet" not in done.output
    assert json.loads(runner.invoke(app, ["info", table.path, "--json"]).output)["rows"] == 1000


def test_a_query_costs_few_requests(bucket: Bucket, proxy: Proxy) -> None:
    bucket.table("t")
    zskip.open(bucket.uri("t"), storage_options=bucket.options).index()
    table = zskip.open(bucket.uri("t"), storage_options=bucket.options | {"aws_endpoint_url": proxy.endpoint})
    assert len(table.files("id < 100")) == 1
    first = proxy.kinds()
    assert sum(first.values()) <= 13, first  # 12 and one page of the listing
    proxy.forget()
    assert len(table.files("id < 100")) == 1
    again = proxy.kinds()
    assert sum(again.values()) <= 4, again


@pytest.mark.parametrize(
    ("key", "options", "error", "says"),
    [
        ("none", {}, TableNotFoundError, "does not exist"),
        ("t/d=0/part-00000.parquet", {}, TableNotFoundError, "is a file"),
        ("t/d=0/part-00000.parquet/", {}, TableNotFoundError, "is a file"),
        ("t", {"aws_endpoint_url": "http://127.0.0.1:9", "max_retries": "1"}, StorageError, "does not answer"),
        ("t", {"aws_access_key_id": "", "aws_secret_access_key": ""}, StorageError, "no credentials"),
    ],
)
def test_what_is_not_there(bucket: Bucket, key: str, options: dict[str, str], error: type, says: str) -> None:
    bucket.table("t", files=1)
    with pytest.raises(error, match=says):
        zskip.open(bucket.uri(key), storage_options=bucket.options | options).files("id = 1")


def test_a_bucket_that_is_not_there(bucket: Bucket) -> None:
    with pytest.raises(StorageError, match="no such bucket"):
        zskip.open("s3://zskip-no-such-bucket/t", storage_options=bucket.options).files("id = 1")


def test_an_endpoint_that_never_answers(bucket: Bucket) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        nobody = f"http://127.0.0.1:{silent.getsockname()[1]}"
        options = bucket.options | {"aws_endpoint_url": nobody, "timeout": "1s", "max_retries": "1"}
        started = time.monotonic()
        with pytest.raises(StorageError, match="does not answer"):
            zskip.open(bucket.uri("t"), storage_options=options).files("id = 1")
        assert time.monotonic() - started < 30


def test_a_lake(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in bucket.options.items():
        monkeypatch.setenv(key.upper(), value)
    bucket.table("lake/a/t", files=4)
    bucket.table("lake/b/other", files=10)
    bucket.put("lake/broken/x.parquet", b"PAR1PAR1")
    lake = zskip.lake(None, bucket.uri("lake").replace("s3:", "s3a:"), exclude="*/other")
    assert lake.tables == (bucket.uri("lake/a/t"), bucket.uri("lake/broken"))
    lines = {line.table: line for line in lake.survey().tables}
    assert (lines[bucket.uri("lake/a/t")].files, lines[bucket.uri("lake/a/t")].action) == (4, "compact")
    assert [bool(line.error) for line in lines.values()] == [False, True]
    assert lake.maintain(dry_run=True).batches == 1
    assert zskip.lake(None, bucket.uri("lake/*")).tables == (
        *(bucket.uri(f"lake/{name}") for name in ("a/t", "b/other", "broken")),
    )
