"""What files have beside Spark's rows: kept by rewrites and appends where all files have it, else named."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import tiers
from pyspark.sql import SparkSession
from written_by import written_by

import zskip
from zskip.errors import UnsupportedError, ZskipWarning
from zskip.formats.footers.traits import foreign_types

pytestmark = pytest.mark.spark
HOUR = dt.datetime(2024, 5, 1, 7, tzinfo=dt.timezone.utc)
COLUMNS = {
    "u8": pa.array([250, None], pa.uint8()),
    "u16": pa.array([65_000, None], pa.uint16()),
    "u32": pa.array([2**32 - 1, None], pa.uint32()),
    "u64": pa.array([2**64 - 1, None], pa.uint64()),
    "ms": pa.array([HOUR, None], pa.timestamp("ms", "UTC")),
    "local": pa.array([HOUR.replace(tzinfo=None), None], pa.timestamp("ms")),
    "fixed": pa.array([b"ab", None], pa.binary(2)),
    "kind": pa.array(["x", None]).dictionary_encode(),
    "there": pa.array([HOUR, None], pa.timestamp("us", "Europe/Berlin")),
    "json": pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}", None])),
}


def make_table(path: Path, files: int = 4, keys: Any = None, **columns: pa.Array) -> str:
    """A table of two rows a file, in two partitions."""
    for i in range(files):
        directory = path / f"p={i % 2}"
        directory.mkdir(parents=True, exist_ok=True)
        table = pa.table({"a": [i * 2, i * 2 + 1], "b": [i, 7], **columns})
        metadata = {**(table.schema.metadata or {}), **(keys(i) if keys else {})}
        pq.write_table(table.replace_schema_metadata(metadata), directory / f"{i}.parquet")
    return str(path)


def footers(path: str) -> list[pq.FileMetaData]:
    return [pq.read_metadata(f) for f in sorted(Path(path).glob("p=*/*.parquet"))]


def schemas(path: str) -> set[str]:
    return {str(pq.read_schema(f).remove_metadata()) for f in Path(path).glob("p=*/*.parquet")}


@pytest.mark.filterwarnings(f"error::{ZskipWarning.__module__}.ZskipWarning")
def test_types_stay_in_all_files(spark: SparkSession, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t", **COLUMNS)
    before, rows = schemas(path), ds.dataset(path, partitioning="hive").to_table().sort_by("a").to_pylist()
    foreign = {foreign_types(footer.schema) for footer in footers(path)}
    table = zskip.table(spark, path)
    assert table.optimize(by=["u32", "a", "ms"], where="p = 1").notes == ()
    assert table.compact(target_file_size="1MB").notes == ()
    table.append(table.df())
    assert schemas(path) == before
    assert {foreign_types(footer.schema) for footer in footers(path)} == foreign
    assert ds.dataset(path, partitioning="hive").to_table().sort_by("a").to_pylist() == [r for r in rows for _ in "ab"]
    assert table.df().where("u64 = 18446744073709551615").count() == 8
    assert len(table.files("u8 = 251")) == 0


def test_values_outside_of_a_type_are_written_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t", u8=COLUMNS["u8"])
    table = zskip.table(spark, path)
    table.append(spark.sql("SELECT 99L a, 1L b, CAST(-1 AS SMALLINT) u8, 1 p"))
    assert table.df().where("u8 = -1").count() == 1


def test_the_writer_of_spark_says_which_types_it_changes(spark: SparkSession, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t", u8=COLUMNS["u8"], kind=COLUMNS["kind"])
    change = '"u8" is no longer of Parquet\'s type uint8; column "kind" .*dictionary'
    with written_by("spark"), pytest.warns(ZskipWarning, match=change):
        result = zskip.table(spark, path).optimize(by=["a", "b"])
    assert len(result.notes) == 2
    assert "lost" in str(result) or result.notes


@pytest.mark.parametrize("nested", tiers.nightly([True, False]))
def test_nanoseconds_that_spark_takes_for_numbers_are_refused(
    spark: SparkSession, tmp_path: Path, nested: bool
) -> None:
    nanos = pa.array([1, 2], pa.timestamp("ns"))
    path = make_table(tmp_path / "t", v=pa.StructArray.from_arrays([nanos], ["n"]) if nested else nanos)
    spark.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")
    try:
        table = zskip.table(spark, path)
        row = table.df().limit(1)
        for call in (
            lambda: table.optimize(by=["a", "b"]),
            lambda: table.compact(target_file_size="1MB"),
            lambda: table.append(row),
        ):
            with pytest.raises(UnsupportedError, match=r'column "v.*" holds nanoseconds.*nanosAsLong'):
                call()
        # Nothing is written beside them here.
        table.index(sketches=["values(64):a"])
        assert zskip.write(spark.sql("SELECT 1 AS a, 2 AS b"), path, by=["a", "b"], mode="overwrite").rows == 1
    finally:
        spark.conf.unset("spark.sql.legacy.parquet.nanosAsLong")


@pytest.mark.filterwarnings(f"error::{ZskipWarning.__module__}.ZskipWarning")
def test_keys_that_all_files_have_stay(spark: SparkSession, tmp_path: Path) -> None:
    def keys(i: int) -> dict[str, str]:
        pandas = pa.Table.from_pandas(pd.DataFrame({"a": range(i + 1)})).schema.metadata[b"pandas"].decode()
        return {"mine": "1", "pandas": pandas, "geo": json.dumps({"columns": {"b": {"bbox": [i, i], "crs": "x"}}})}

    path = make_table(tmp_path / "t", keys=keys)
    table = zskip.table(spark, path)
    table.optimize(by=["a", "b"], files=1)
    table.append(table.df().limit(1))
    for footer in footers(path):
        assert footer.metadata[b"mine"] == b"1"
        assert json.loads(footer.metadata[b"geo"]) == {"columns": {"b": {"crs": "x"}}}
        assert json.loads(footer.metadata[b"pandas"])["index_columns"] == []


def test_keys_that_differ_are_named(spark: SparkSession, tmp_path: Path) -> None:
    path = make_table(tmp_path / "t", keys=lambda i: {"mine": str(i), "yours": "1"})
    with pytest.warns(ZskipWarning, match='new files have no key "mine"'):
        result = zskip.table(spark, path).compact(target_file_size="1MB")
    assert result.notes == ('new files have no key "mine"',)
    assert {footer.metadata.get(b"yours") for footer in footers(path)} == {b"1"}


@pytest.mark.filterwarnings(f"error::{ZskipWarning.__module__}.ZskipWarning")
@pytest.mark.parametrize("writer", ["arrow", "spark"])
def test_bloom_filters_stay(spark: SparkSession, tmp_path: Path, writer: str) -> None:
    path = str(tmp_path / "t")
    frame = spark.range(400).selectExpr("id a", "id % 7 b", "md5(string(id)) uid", "named_struct('k', id) s")
    blooms = {f"parquet.bloom.filter.enabled#{name}": "true" for name in ("uid", "s.k")}
    frame.repartition(2).write.options(**blooms).parquet(path)
    table = zskip.table(spark, path)
    with written_by(writer):
        table.optimize(by=["a", "b"], files=2)
    table.append(frame)
    files = list(Path(path).glob("*.parquet"))
    assert len(files) >= 3
    for file in files:
        group = pq.read_metadata(file).row_group(0)
        columns = [group.column(i) for i in range(group.num_columns)]
        assert [c.path_in_schema for c in columns if c.bloom_filter_offset is not None] == ["uid", "s.k"]
    assert table.df().where("uid = md5('7')").count() == 2


def test_bloom_filters_of_some_files_are_named(spark: SparkSession, tmp_path: Path) -> None:
    path, frame = str(tmp_path / "t"), spark.range(400).selectExpr("id a", "id % 7 b")
    frame.write.option("parquet.bloom.filter.enabled#a", "true").parquet(path)
    frame.write.mode("append").parquet(path)
    with pytest.warns(ZskipWarning, match='column "a" has no Bloom filter any more'):
        zskip.table(spark, path).optimize(by=["a", "b"], files=2)
