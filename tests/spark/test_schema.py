"""The schema of a scan is the one that Spark infers from the same directory."""

from __future__ import annotations

import datetime as dt
import decimal
import warnings
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from job_groups import jobs_without_group
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from zskip.formats.parquet import ParquetFormat
from zskip.records import Snapshot
from zskip.spark.scan.relation import scan
from zskip.spark.schema import read_schema
from zskip.storage import LocalStorage


def snapshot_of(path: Path) -> Snapshot:
    return ParquetFormat(LocalStorage(str(path))).snapshot()


def opened(spark: SparkSession, path: Path) -> DataFrame:
    return scan(spark, read_schema(spark, snapshot_of(path)))


def check(spark: SparkSession, path: Path) -> DataFrame:
    frame, plain = opened(spark, path), spark.read.parquet(str(path))
    assert frame.schema.json() == plain.schema.json()
    assert [f.metadata for f in frame.schema] == [f.metadata for f in plain.schema]
    assert sorted(map(repr, frame.collect())) == sorted(map(repr, plain.collect()))
    return frame


def test_metadata_nullability_and_nesting(spark: SparkSession, tmp_path: Path) -> None:
    schema = T.StructType(
        [
            T.StructField("a", T.LongType(), False, {"comment": "first"}),
            T.StructField("b", T.StructType([T.StructField("c.d", T.ArrayType(T.StringType(), False))])),
            T.StructField("e`f", T.MapType(T.StringType(), T.DecimalType(20, 3)), True, {"k": [1, 2]}),
        ]
    )
    spark.createDataFrame([(1, (["x"],), {}), (2, None, None)], schema).write.parquet(str(tmp_path / "t"))
    check(spark, tmp_path / "t")


def test_char_and_varchar_keep_their_metadata(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE chars (c CHAR(5), v VARCHAR(9), i INT) USING parquet LOCATION '{tmp_path / 't'}'")
    try:
        spark.sql("INSERT INTO chars VALUES ('ab', 'cd', 1), ('x    ', 'y ', 2)")
        frame = check(spark, tmp_path / "t")
        plain = spark.read.parquet(str(tmp_path / "t"))
        for where in ("c = 'ab'", "c = 'ab   '", "v = 'y'", "v = 'y '"):
            assert frame.where(where).collect() == plain.where(where).collect()
    finally:
        spark.sql("DROP TABLE chars")


@pytest.mark.parametrize("merge", ["true", "false"])
def test_files_of_different_columns(
    spark: SparkSession, tmp_path: Path, merge: str, conf: Callable[[str, str], None]
) -> None:
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table({"b": [1], "a": ["x"]}), tmp_path / "t" / "1.parquet")
    pq.write_table(pa.table({"a": ["y"], "c": [2.5], "b": [7]}), tmp_path / "t" / "0.parquet")
    conf("spark.sql.parquet.mergeSchema", merge)
    check(spark, tmp_path / "t")


def test_types_follow_the_settings_of_the_session(
    spark: SparkSession, tmp_path: Path, conf: Callable[[str, str], None]
) -> None:
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table({"y": [b"x"], "n": pa.array([5], pa.timestamp("us"))}), tmp_path / "t" / "0.parquet")
    conf("spark.sql.parquet.binaryAsString", "true")
    conf("spark.sql.parquet.inferTimestampNTZ.enabled", "false")
    assert [f.dataType.simpleString() for f in check(spark, tmp_path / "t").schema] == ["string", "timestamp"]
    assert [str(f.type) for f in read_schema(spark, snapshot_of(tmp_path / "t")).snapshot.fields] == [
        "string",
        "timestamp",
    ]


@pytest.mark.parametrize("names", [("p", "q"), ("P", "Q")])
def test_partition_columns_that_the_files_hold_too(spark: SparkSession, tmp_path: Path, names: tuple[str, str]) -> None:
    for p, q in ((1, "x"), (2, "y")):
        directory = tmp_path / "t" / f"p={p}" / f"q={q}"
        directory.mkdir(parents=True)
        rows = {names[1]: ["other", "x"], "a": [1, 2], names[0]: [77, 1]}
        pq.write_table(pa.table(rows), directory / "0.parquet")
    frame, plain = check(spark, tmp_path / "t"), spark.read.parquet(str(tmp_path / "t"))
    for where in ("p = 1", "q = 'x'", "p = 77", "q = 'other'", "p = 1 OR a = 2", "upper(q) = 'X' AND a = 1"):
        assert sorted(frame.where(where).collect()) == sorted(plain.where(where).collect()), where


def test_partition_values_that_look_alike(
    spark: SparkSession, tmp_path: Path, conf: Callable[[str, str], None]
) -> None:
    sets = [["1", "2.5", "3000000000"], ["01", "a", "1"], ["2024-01-01", "2024-01-01 10:00:00"], ["1", "true"]]
    for i, values in enumerate(sets):
        for value in values:
            directory = tmp_path / str(i) / f"p={value}".replace(":", "%3A")
            directory.mkdir(parents=True)
            pq.write_table(pa.table({"a": [1]}), directory / "0.parquet")
        for infer in ("true", "false"):
            conf("spark.sql.sources.partitionColumnTypeInference.enabled", infer)
            check(spark, tmp_path / str(i))


def test_case_sensitive_names(spark: SparkSession, tmp_path: Path, conf: Callable[[str, str], None]) -> None:
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table({"a": [1, 2], "A": [3, 4]}), tmp_path / "t" / "0.parquet")
    with pytest.raises(Exception, match="COLUMN_ALREADY_EXISTS"):
        opened(spark, tmp_path / "t")
    conf("spark.sql.caseSensitive", "true")
    frame = check(spark, tmp_path / "t")
    assert frame.where("A = 4").collect() == [(2, 4)]


def test_summary_files_have_the_say(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    table = pa.table({"a": [1], "b": [2]})
    pq.write_table(table.select(["a"]), tmp_path / "t" / "0.parquet")
    pq.write_metadata(table.schema, tmp_path / "t" / "_common_metadata")
    assert check(spark, tmp_path / "t").columns == ["a", "b"]


def test_the_first_file_is_first_in_javas_order(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    for name, column in (("\uff00.parquet", "late"), ("\U0001f600.parquet", "early")):
        pq.write_table(pa.table({column: [1]}), tmp_path / "t" / name)
    with warnings.catch_warnings():
        assert check(spark, tmp_path / "t").columns == ["early"]


@pytest.mark.parametrize("setting", ["binaryAsString", "int96AsTimestamp", "inferTimestampNTZ.enabled"])
@pytest.mark.parametrize("value", ["true", "false"])
def test_columns_are_read_without_a_job(
    spark: SparkSession, tmp_path: Path, conf: Callable[[str, str], None], setting: str, value: str
) -> None:
    """The footer of one file says in the driver what Spark's own job finds in it."""
    conf(f"spark.sql.parquet.{setting}", value)
    (tmp_path / "t").mkdir()
    moment = pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("us"))
    columns = {"a": [1], "bytes": [b"x"], "list": [[{"q": 1}]], "zoned": moment.cast(pa.timestamp("us", "UTC"))}
    pq.write_table(pa.table({**columns, "plain": moment, "d": [decimal.Decimal("1.50")]}), tmp_path / "t" / "a.parquet")
    old = pa.table({"old": moment.cast(pa.timestamp("ns"))})
    (tmp_path / "o").mkdir()
    pq.write_table(old, tmp_path / "o" / "a.parquet", use_deprecated_int96_timestamps=True)
    refused = (setting, value) == ("int96AsTimestamp", "false")
    for path in (tmp_path / "t", *([] if refused else [tmp_path / "o"])):
        snapshot = snapshot_of(path)
        before = jobs_without_group(spark.sparkContext)
        data = read_schema(spark, snapshot).data
        assert jobs_without_group(spark.sparkContext) == before
        assert data.json() == spark.read.parquet(str(path))._jdf.schema().json()
