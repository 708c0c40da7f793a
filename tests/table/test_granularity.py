"""Row groups in the index where Spark writes the files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import zskip

pytestmark = pytest.mark.spark


def read(files: list[zskip.KeptFile]) -> pa.Table:
    """The row groups that are named, and no others."""
    assert all(file.row_groups is not None for file in files)
    return pa.concat_tables(
        pq.ParquetFile(file.removeprefix("file:")).read_row_groups(list(file.row_groups or ())) for file in files
    )


def test_only_row_groups_with_a_nan_are_read_for_one(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    frame = spark.range(0, 200_000, 1, 1).selectExpr("id", "IF(id = 150000, double('NaN'), id / 2D) AS d")
    frame.write.option("parquet.block.size", "200000").parquet(path)
    table = zskip.table(spark, path)
    table.index(granularity="row_group")
    (whole,) = table.files()
    assert whole.row_groups is not None
    assert len(whole.row_groups) > 2
    for where in ("isnan(d)", "d > 100000", "d = 75001 OR d = 3"):
        (file,) = table.files(where)
        found = read([file])
        assert 0 < found.num_rows < 150_000
        needed = {"isnan(d)": [150_000], "d > 100000": [150_000], "d = 75001 OR d = 3": [6, 150_002]}[where]
        assert set(needed) <= set(found["id"].to_pylist())
        assert spark.read.parquet(*[file]).where(where).count() == len(needed)
    # What is counted of files leaves the row groups as they are.
    table.index(collect="scan")
    assert [file.row_groups for file in table.files("id = 7")] == [(0,)]


@pytest.mark.slow
def test_optimize_keeps_the_granularity(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.range(0, 200_000, 1, 4).selectExpr("id", "(id * 7919) % 200000 AS k").write.parquet(path)
    table = zskip.table(spark, path)
    table.index(granularity="row_group")
    table.optimize("k", curve="linear", files=2)
    info = table.info().index
    assert info is not None
    assert (info.granularity, info.files) == ("row_group", 2)
    (file,) = table.files("k = 4711")
    assert 4711 in read([file])["k"].to_pylist()
    report = table.prune("k = 4711")
    assert (report.files, report.row_groups) == (1, 1)
    assert table.df().where("k = 4711").count() == 1
    assert table.verify(queries=1).ok
