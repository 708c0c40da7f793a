"""Every type that Spark writes is kept bit for bit by a rewrite through Arrow, or the table goes Spark's way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiers
import typed_tables
from format_tables import FORMATS, Maker, rows_of
from pyspark.sql import SparkSession
from session_settings import settings
from written_by import written_by

import zskip
from zskip.errors import UnsupportedError
from zskip.index.collect.footers import NAN_STATISTICS

pytestmark = pytest.mark.spark
ROWS = 240
KEPT = {
    "flag": "id % 3 = 0",
    "tiny": "CAST(id - 120 AS TINYINT)",
    "small": "CAST(id * 273 - 32760 AS SMALLINT)",
    "int": "CAST(id * 17895697 - 2147483647 AS INT)",
    "big": "IF(id = 1, -9223372036854775807 - 1, id * 38430716820228232)",
    "real": "CASE id % 7 WHEN 0 THEN CAST('NaN' AS FLOAT) WHEN 1 THEN CAST('-0.0' AS FLOAT) WHEN 2 THEN "
    "CAST('Infinity' AS FLOAT) ELSE CAST(id AS FLOAT) / 3 END",
    "double": "CASE id % 7 WHEN 0 THEN CAST('NaN' AS DOUBLE) WHEN 1 THEN -0.0D WHEN 2 THEN 0.0D WHEN 3 THEN "
    "CAST('-Infinity' AS DOUBLE) ELSE id / 3D END",
    "number": "id * 1.5D",
    "d9": "CAST(id * 41841 - 4999999 AS DECIMAL(9, 2))",
    "d18": "CAST(id * 1000000007 AS DECIMAL(18, 4))",
    "d20": "CAST(id AS DECIMAL(20, 0)) * -1",
    "d38": "CAST(concat('-', repeat('9', 33), '.', 10000 + id) AS DECIMAL(38, 5))",
    "text": "CASE id % 5 WHEN 0 THEN '' WHEN 1 THEN concat('é\U0001f600', id) ELSE repeat('long ', id) END",
    "broken": "CAST(X'FF00C328' AS STRING)",
    "padded": "concat('a', CAST(X'00' AS STRING))",
    "bytes": "CASE id % 3 WHEN 0 THEN X'' ELSE unhex(hex(id * 12345)) END",
    "day": "DATE '0001-01-01' + CAST(id * 15200 AS INT)",
    "time": "timestamp_micros(id * 1234567890123 - 62135596800000000 + id)",
    "local": "CAST(timestamp_micros(id * 1234567890123 + id) AS TIMESTAMP_NTZ)",
    "list": "CASE id % 4 WHEN 0 THEN array() ELSE array(CAST(id AS INT), NULL, 3) END",
    "full": "array(id, 1L)",
    "nested": "array(array('a', NULL), array(), NULL)",
    "map": "CASE id % 4 WHEN 0 THEN map() ELSE map('k', id / 2D, concat('l', id), CAST('NaN' AS DOUBLE)) END",
    "record": "named_struct('x', id, 'y.z', named_struct('t', array(named_struct('u', -0.0D)), 'v', X'00'))",
    "times": "array(timestamp_micros(id), NULL)",
    "decimals": "map(CAST(id AS DECIMAL(5, 1)), CAST(id AS DECIMAL(30, 2)))",
    'names with `. ,;{}()=` "é"'.replace("`", ""): "id",
}
SPARKS = {
    "months": ("make_ym_interval(CAST(id AS INT), 1)", "interval year to month"),
    "variant": ("parse_json(concat('{\"a\":', id, '}'))", "variant"),
    "seconds": ("make_dt_interval(CAST(id AS INT), 1)", "interval day to second"),
}
WITH_NAN = ("real", "double", "map.key_value.value")
FAR = "it holds timestamps of 96 bits outside the years 1 to 9999"
CODECS = ("zstd", "snappy", "gzip", "uncompressed")


def write(
    spark: SparkSession, path: Path, columns: dict[str, str], timestamps: str = "TIMESTAMP_MICROS", **options: str
) -> None:
    nulls = (f"IF(id % 11 = 5 AND '{n}' != 'a', NULL, {sql}) AS `{n}`" for n, sql in columns.items())
    frame = spark.range(0, ROWS, 1, 3).selectExpr("id", "id * 7919 % 240 AS a", *nulls)
    with settings(spark, parquet__outputTimestampType=timestamps):
        frame.write.options(**options).parquet(str(path))


def optimized(spark: SparkSession, path: Path, out: Path, **options: Any) -> Any:
    return zskip.table(spark, str(path)).optimize(["a", "id"], into=str(out), files=4, **options)


def bits(spark: SparkSession, path: Path) -> list[tuple[str, ...]]:
    """All values as their bits: JSON of nested ones would lose some."""
    rows = []
    for file in sorted(path.glob("*.parquet")):
        table = pq.read_table(file)
        columns = [exact(column) for column in table.columns]
        rows += list(zip(*columns, strict=True))
    return sorted(rows)


def exact(column: pa.ChunkedArray) -> list[str]:
    return [repr(bit_text(scalar)) for scalar in column]


def bit_text(scalar: Any) -> Any:
    kind = scalar.type
    if not scalar.is_valid:
        return None
    if pa.types.is_floating(kind):
        return pa.array([scalar.as_py()], kind).buffers()[1].to_pybytes()[: kind.bit_width // 8]
    if pa.types.is_struct(kind):
        return [bit_text(scalar[i]) for i in range(kind.num_fields)]
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        return [bit_text(value) for value in scalar.values] if scalar.values is not None else []
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return scalar.value
    if pa.types.is_string(kind):
        return scalar.as_buffer().to_pybytes()
    return scalar.as_py()


def leaves(file: Path) -> list[tuple[str, ...]]:
    schema = pq.ParquetFile(file).schema
    columns = [schema.column(i) for i in range(len(schema))]
    return [
        (c.path, c.physical_type, str(c.logical_type), c.max_definition_level, c.max_repetition_level, c.length)
        for c in columns
    ]


def footer(path: Path) -> pq.FileMetaData:
    return pq.read_metadata(next(f for f in sorted(path.glob("*.parquet")) if pq.read_metadata(f).num_rows))


@pytest.fixture(scope="module")
def both(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A table, and its rewrites by Spark and through Arrow."""
    path = tmp_path_factory.mktemp("types")
    write(spark, path / "t", KEPT, compression="zstd")
    with written_by("spark"):
        assert optimized(spark, path / "t", path / "spark").writer == "spark"
    result = optimized(spark, path / "t", path / "arrow")
    assert (result.writer, result.writer_reason) == ("arrow", "")
    return path / "t", path / "spark", path / "arrow"


def test_every_value_is_kept(spark: SparkSession, both: tuple[Path, Path, Path]) -> None:
    source, _, ours = both
    assert bits(spark, ours) == bits(spark, source)
    before, after = spark.read.parquet(str(source)), spark.read.parquet(str(ours))
    assert after.schema.json() == before.schema.json()
    assert before.exceptAll(after).count() == 0 if not any("map<" in t for _, t in before.dtypes) else True


def test_footers_are_those_of_spark(both: tuple[Path, Path, Path]) -> None:
    _, theirs, ours = (footer(path) for path in both)
    for path, other in ((both[1], both[2]),):
        one, two = (next(f for f in sorted(p.glob("*.parquet")) if pq.read_metadata(f).num_rows) for p in (path, other))
        assert leaves(one) == leaves(two)
        assert str(pq.ParquetFile(one).schema).partition("{")[2] == str(pq.ParquetFile(two).schema).partition("{")[2]
    assert {k: v for k, v in ours.metadata.items() if k != NAN_STATISTICS} == theirs.metadata
    assert ours.created_by.startswith("parquet-cpp-zskip version ")
    group, their_group = ours.row_group(0), theirs.row_group(0)
    for i in range(group.num_columns):
        mine, spark = group.column(i), their_group.column(i)
        assert mine.compression == spark.compression == "ZSTD"
        assert mine.has_column_index or not spark.has_column_index or mine.path_in_schema in WITH_NAN
        assert mine.has_offset_index
        if mine.path_in_schema not in WITH_NAN and spark.statistics is not None and spark.statistics.has_min_max:
            assert mine.statistics.has_min_max, mine.path_in_schema


def test_a_column_with_nan_has_no_bounds(spark: SparkSession, both: tuple[Path, Path, Path]) -> None:
    ours = both[2]
    for file in ours.glob("*.parquet"):
        metadata = pq.read_metadata(file)
        bounded = {
            column.path_in_schema: column.statistics is not None and column.statistics.has_min_max
            for group in range(metadata.num_row_groups)
            for column in (metadata.row_group(group).column(i) for i in range(metadata.num_columns))
        }
        assert not any(bounded[name] for name in WITH_NAN)
        assert bounded["number"]
    query = "double > 1e6"
    expected = spark.read.parquet(str(both[0])).where(query).count()
    assert expected
    assert spark.read.parquet(str(ours)).where(query).count() == expected
    assert zskip.table(spark, str(ours)).df().where(query).count() == expected


@pytest.mark.parametrize("name", tiers.first(SPARKS, quick=2))
def test_what_arrow_would_change_goes_the_way_of_spark(spark: SparkSession, tmp_path: Path, name: str) -> None:
    sql, kind = SPARKS[name]
    if name == "variant" and spark.version < "4":
        pytest.skip("Spark 3.5 has no variant")
    write(spark, tmp_path / "t", {name: sql})
    result = optimized(spark, tmp_path / "t", tmp_path / "auto")
    assert result.writer == "spark"
    assert f'column "{name}"' in result.writer_reason
    assert kind in result.writer_reason
    text = f"to_json(struct(id, CAST(`{name}` AS STRING) AS v))"
    before, after = (spark.read.parquet(str(tmp_path / t)).selectExpr(text).collect() for t in ("t", "auto"))
    assert sorted(before) == sorted(after)


@pytest.mark.parametrize(
    ("sql", "reason"),
    tiers.first(
        [
            (KEPT["time"], ""),
            # pyarrow reads these as timestamps of the year 2023.
            ("timestamp_micros(id - 2167039644282677232)", FAR),
            ("array(timestamp_micros(id))", 'column "time" is stored as list<element: timestamp[ns]'),
            ("timestamp_micros(id * 5000000000000000)", FAR),
        ],
        quick=3,
    ),
)
def test_timestamps_of_96_bits(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, sql: str, reason: str
) -> None:
    write(spark, tmp_path / "t", {"time": sql}, "INT96")
    with caplog.at_level("INFO", "zskip"):
        result = optimized(spark, tmp_path / "t", tmp_path / "out")
    assert (result.writer, result.writer_reason) == ("arrow", "")
    assert any(f"Spark reads the files: {reason}" in message for message in caplog.messages) == bool(reason)
    if "array" not in sql:
        assert ("time", "INT64") in [leaf[:2] for leaf in leaves(next((tmp_path / "out").glob("*.parquet")))]
    micros = "transform(time, t -> unix_micros(t))" if sql.startswith("array") else "unix_micros(time)"
    both = (spark.read.parquet(str(tmp_path / t)).selectExpr("id", micros) for t in ("t", "out"))
    left, right = (sorted(map(repr, frame.collect())) for frame in both)
    assert left == right


@pytest.mark.slow
@pytest.mark.parametrize("codec", tiers.nightly(sorted(CODECS, key=lambda codec: codec != "zstd")))
def test_sizes_are_those_of_spark(spark: SparkSession, tmp_path: Path, codec: str) -> None:
    frame = spark.range(0, 300_000, 1, 2).selectExpr(
        "id", "id * 7919 % 240 AS a", "CAST(hash(id) AS DECIMAL(15, 2)) AS d", "DATE '2024-01-01' + CAST(id % 900 AS "
        "INT) AS day", "concat('text ', hash(id, 1)) AS s", "concat('kind ', id % 7) AS k", "rand(1) AS r"
    )  # fmt: skip
    frame.write.parquet(str(tmp_path / "t"), compression=codec)
    sizes = {}
    for writer in ("spark", "arrow"):
        with written_by(writer):
            result = optimized(spark, tmp_path / "t", tmp_path / writer)
        assert result.writer == writer
        assert result.compression == codec
        sizes[writer] = result.bytes_after
    assert sizes["arrow"] == pytest.approx(sizes["spark"], rel=0.05)
    assert footer(tmp_path / "arrow").row_group(0).column(0).compression == codec.upper()


@pytest.mark.slow
@pytest.mark.parametrize(("codec", "kept"), [("lz4", "lz4_raw"), ("lz4_raw", "lz4_raw"), ("brotli", "brotli")])
def test_a_table_can_be_rewritten_again_and_again(spark: SparkSession, tmp_path: Path, codec: str, kept: str) -> None:
    path = tmp_path / "t"
    if codec == "brotli":
        path.mkdir()
        for i in range(2):
            pq.write_table(pa.table({"a": range(i, 400, 2), "b": range(200)}), path / f"{i}.parquet", compression=codec)
    else:
        spark.range(400).selectExpr("id a", "id % 7 b").repartition(2).write.parquet(str(path), compression=codec)
    for _ in range(2):
        table = zskip.table(spark, str(path))
        if codec != "brotli":
            assert table.optimize(by=["a", "b"], files=2).compression == kept
        table.append(spark.sql("SELECT 400L a, 1L b"))
        assert table.compact(target_file_size="1MB").files_after == 1
    assert {footer(path).row_group(0).column(0).compression} == {{"lz4_raw": "LZ4"}.get(kept, kept.upper())}
    assert pq.read_table(path).num_rows == 402
    if codec == "brotli":
        with pytest.raises(UnsupportedError, match=r"has no .*BrotliCodec, the codec of .*add its jar"):
            table.optimize(by=["a", "b"], files=2)
    else:
        assert table.df().count() == 402


def test_spark_writes_lz4_where_arrow_does_not(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(400).selectExpr("id", "id % 7 a").write.parquet(str(tmp_path / "t"), compression="lz4")
    with written_by("spark"):
        optimized(spark, tmp_path / "t", tmp_path / "out")
    assert footer(tmp_path / "out").row_group(0).column(0).compression == "LZ4"


def test_the_names_of_files_are_those_of_spark(both: tuple[Path, Path, Path]) -> None:
    assert all(f.name.endswith("-c000.zstd.parquet") and f.name.startswith("part-000") for f in both[2].glob("*.parq*"))
    assert json.loads(footer(both[2]).metadata[b"org.apache.spark.sql.parquet.row.metadata"])["type"] == "struct"


@pytest.mark.parametrize("maker", FORMATS, ids=[maker.name for maker in FORMATS])
def test_every_format_keeps_every_type(spark: SparkSession, tmp_path: Path, maker: Maker) -> None:
    rows = typed_tables.random_table(np.random.default_rng(4))
    lists = pa.array([[i, None] if i % 3 else [] for i in range(len(rows))], pa.list_(pa.int64()))
    maps = pa.array([[(f"k{i}", i / 3)] for i in range(len(rows))], pa.map_(pa.string(), pa.float64()))
    # No short integers in Iceberg.
    rows = rows.drop_columns(["h"]).append_column("lists", lists).append_column("maps", maps)
    path = tmp_path / "t"
    for start in (0, 200, 400):
        # Not a slice: delta-rs aborts where it meets a struct that begins at another row than the first.
        maker.append(path, rows.take(pa.array(range(start, start + 200))), partitioned=False)
    before = rows_of(maker.read(path))
    table = zskip.table(spark, maker.address(path))
    result = table.optimize(["id", "i"], files=4)
    assert (result.writer, result.writer_reason) == ("arrow", "")
    assert rows_of(maker.read(path)) == before
    assert table.df().count() == len(rows)
    assert table.compact(target_file_size="10MB").files_after == 1
    assert rows_of(maker.read(path)) == before
