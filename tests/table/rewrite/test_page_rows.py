"""Rows a page: few, but so many that columns keep their dictionaries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import zskip
from zskip.formats.footers.dictionaries import count_dictionary_values
from zskip.formats.parquet.format import ParquetFormat
from zskip.layout.pages import page_rows
from zskip.storage import LocalStorage

ROWS = 60_000
DICTIONARIES = ["some", "few", "rare", "apart", "empty", "text"]


def write(path: Path) -> None:
    rng = np.random.default_rng(0)
    path.mkdir()
    for i in range(2):
        rows = {
            "by": rng.integers(0, 10**9, ROWS),
            "some": rng.integers(0, 10_000, ROWS),
            "few": rng.integers(0, 5, ROWS).astype("int32"),
            "rare": rng.integers(0, 30_000, ROWS),
            "apart": rng.integers(0, 10_000, ROWS) + 10_000 * i,
            "empty": pa.nulls(ROWS, pa.int64()),
            "text": rng.integers(0, 100, ROWS).astype(str),
            "wide": rng.integers(0, 2**60, ROWS).astype(str),
        }
        pq.write_table(pa.table(rows), path / f"{i}.parquet", use_dictionary=DICTIONARIES)


def test_dictionaries_are_told_by_footers(tmp_path: Path) -> None:
    write(tmp_path / "t")
    storage = LocalStorage(str(tmp_path / "t"))
    snapshot = ParquetFormat(storage).snapshot()
    found = count_dictionary_values(storage, snapshot, without=["by"])
    assert [width for _, width in found] == [8, 4, 8]
    assert found[0][0] == pytest.approx(10_000, rel=0.15)
    assert found[1][0] < 10
    assert count_dictionary_values(storage, snapshot, without=["some", "few", "empty"]) == []
    assert count_dictionary_values(storage, snapshot, without=[], codec="uncompressed")


@pytest.mark.parametrize("codec", ["zstd", "gzip"])
def test_a_codec_that_counts_values_needs_no_dictionary(codec: str, tmp_path: Path) -> None:
    write(tmp_path / "t")
    storage = LocalStorage(str(tmp_path / "t"))
    assert count_dictionary_values(storage, ParquetFormat(storage).snapshot(), without=[], codec=codec) == []
    for file in (tmp_path / "t").glob("*.parquet"):
        pq.write_table(pq.read_table(file), file, compression=codec)
    assert count_dictionary_values(storage, ParquetFormat(storage).snapshot(), without=[]) == []


def test_no_file_and_no_row_have_none(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    storage = LocalStorage(str(tmp_path / "t"))
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "t" / "a.parquet")
    assert count_dictionary_values(storage, ParquetFormat(storage).snapshot(), without=[]) == []


@pytest.mark.spark
def test_a_column_keeps_its_dictionary(spark: SparkSession, tmp_path: Path) -> None:
    """With 2,000 rows a page, the writer gives up that of `some`."""
    write(tmp_path / "t")
    table = zskip.table(spark, str(tmp_path / "t"))
    size = sum(file.stat().st_size for file in (tmp_path / "t").glob("*.parquet"))
    assert page_rows(size, 2 * ROWS, 8) == 2_000
    table.optimize(["by", "few"], files=1)
    (file,) = (tmp_path / "t").glob("*.parquet")
    some = pq.read_metadata(file).row_group(0).column(1)
    assert some.path_in_schema == "some"
    assert some.total_uncompressed_size < 0.5 * 8 * 2 * ROWS


def test_values_that_python_has_not_are_compared(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    for i in range(2):
        rows = {
            "day": pa.array([-4_000_000 + i] * 9_000, pa.int32()).cast(pa.date32()),
            "at": pa.array([1 + i] * 9_000, pa.int64()).cast(pa.timestamp("ns")),
            "same": pa.array([-4_000_000] * 9_000, pa.int32()).cast(pa.date32()),
        }
        pq.write_table(pa.table(rows), tmp_path / "t" / f"{i}.parquet", version="2.6")
    storage = LocalStorage(str(tmp_path / "t"))
    found = count_dictionary_values(storage, ParquetFormat(storage).snapshot(), without=[])
    assert [width for _, width in found] == [4]
