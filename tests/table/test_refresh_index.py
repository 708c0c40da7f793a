"""Both collectors: what footers tell and what a pass over the rows counts agree, and the second fills the gaps."""

from __future__ import annotations

import datetime as dt
import math
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from written_by import written_by

import zskip
from zskip.errors import InputError, ZskipWarning
from zskip.index import BoundIndex, Index
from zskip.table.handle import Handle
from zskip.table.refresh_index import refresh_index
from zskip.table.version import open_version, read_snapshot

pytestmark = pytest.mark.spark


def bound_of(table: zskip.Table) -> BoundIndex:
    handle: Handle = table._handle
    snapshot = read_snapshot(handle)
    index = Index.load(handle.storage)
    assert index is not None
    return index.bind(snapshot)


def with_calendars(spark: SparkSession, call: Callable[[], None]) -> None:
    """Let Spark 3.5 read and write ancient days as Spark 4 does."""
    names = [
        f"spark.sql.parquet.{kind}RebaseModeIn{way}" for kind in ("datetime", "int96") for way in ("Read", "Write")
    ]
    before = {name: str(spark.conf.get(name)) for name in names}
    try:
        for name in names:
            spark.conf.set(name, "CORRECTED")
        call()
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


@pytest.mark.parametrize("codec", ["of pyarrow", "of Spark"])
def test_both_collectors_agree_on_all_types(spark: SparkSession, tmp_path: Path, codec: str) -> None:
    path = tables.make_all_types(tmp_path / "t")
    if codec == "of Spark":
        with_calendars(spark, lambda: spark.read.parquet(str(path)).write.parquet(str(tmp_path / "s")))
        path = tmp_path / "s"
    table = zskip.table(spark, str(path))
    table.index(collect="footers")
    footers = bound_of(table)
    table.index(collect="scan")
    scanned = bound_of(table)
    compared = 0
    for field in footers.snapshot.fields:
        for name in [(field.name,), *((field.name, inner) for inner, _ in field.type.fields)]:
            one, other = footers.column(name), scanned.column(name)
            if one is None or other is None:
                assert one is other is None
                continue
            known = one.nulls >= 0
            assert other.nulls[known].tolist() == one.nulls[known].tolist()
            assert not (~one.may_nan & other.may_nan).any()
            both = one.bounded & other.bounded
            assert other.lower[both].tolist() == one.lower[both].tolist(), name
            assert other.upper[both].tolist() == one.upper[both].tolist(), name
            assert not (one.bounded & ~other.bounded).any(), name
            compared += int(both.sum())
    assert compared >= 20


@pytest.mark.slow
def test_timestamps_of_96_bits(spark: SparkSession, tmp_path: Path) -> None:
    """As Spark writes them by default."""
    path = str(tmp_path / "t")
    before = spark.conf.get("spark.sql.parquet.outputTimestampType")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    try:
        start = F.lit(dt.datetime(2024, 1, 1)).cast("timestamp")
        rows = spark.range(4000).select("id", (start + F.expr("id * INTERVAL 1 HOUR")).alias("at"))
        rows.repartitionByRange(8, "id").write.parquet(path)
        old = spark.sql("SELECT -1L AS id, TIMESTAMP '1850-01-01 12:00:00' AS at").coalesce(1)
        with_calendars(spark, lambda: old.write.mode("append").parquet(path))
    finally:
        spark.conf.set("spark.sql.parquet.outputTimestampType", before)
    table = zskip.table(spark, path)
    where = "at >= TIMESTAMP '2024-02-01 00:00:00' AND at < TIMESTAMP '2024-02-02 00:00:00'"
    table.index(collect="footers")
    assert len(table.files(where)) == 9
    table.index()
    assert len(table.files(where)) == 2, "one of the files, and that of 1850, which calendars read differently"
    assert table.verify(where).ok
    assert table.verify(queries=1).ok


def test_nan_in_files_of_other_writers(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.mkdir()
    for i in range(6):
        values = np.arange(10) + 100.0 * i
        values[3] = math.nan if i == 2 else values[3]
        columns = {"x": pa.array(values), "y": pa.array(values.astype(np.float32)), "z": pa.array([math.nan] * 10)}
        pq.write_table(pa.table(columns), path / f"{i}.parquet")
    table = zskip.table(spark, str(path))
    table.index(collect="footers")
    assert len(table.files("x > 450")) == 6
    table.index()
    assert [Path(f).stem for f in table.files("x > 450")] == ["2", "5"]
    assert [Path(f).stem for f in table.files("y > 450 AND z > 0")] == ["2", "5"]
    assert table.files("z < 5") == []
    assert [Path(f).stem for f in table.files("isnan(x)")] == ["2"]
    assert table.verify(queries=1).ok


def test_nothing_is_counted_twice(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[tuple[int, list[str]]] = []
    from zskip.table import refresh_index as collect

    honest = collect._count

    def count(handle, schema, gaps, *, strict):  # type: ignore[no-untyped-def]
        jobs.append((int(gaps.files.sum()), [path[0] for path, _ in gaps.columns]))
        return honest(handle, schema, gaps, strict=strict)

    monkeypatch.setattr(collect, "_count", count)
    path = tables.make_events(tmp_path / "t")
    table = zskip.table(spark, str(path))
    zskip.open(str(path)).index()
    table.index()
    assert jobs == [(6, ["score"])], "files that were indexed without Spark are caught up with"
    version = table.index().version
    assert table.index().version == version
    assert len(jobs) == 1
    pq.write_table(tables.events(100), path / "part-99999.parquet")
    table.index()
    assert jobs[1:] == [(1, ["score"])]
    table.index(collect="scan")
    assert jobs[2][0] == 7
    assert "id" in jobs[2][1]
    del jobs[:]
    refresh_index(open_version(table._handle), new_only=True)
    assert jobs == []
    table.optimize(by=["id", "score"], files=4)
    table.index()
    assert jobs == [], "a rewrite through Arrow records NaN in the footers"
    with written_by("spark"):
        table.optimize(by=["id", "score"], files=4)
    table.index()
    assert len(jobs) == 1, "the rewrite counts NaN in its files, and nothing is left to do"


def chunks(path: Path) -> list[pq.ColumnChunkMetaData]:
    group = pq.ParquetFile(path).metadata.row_group(0)
    return [group.column(i) for i in range(group.num_columns)]


def test_what_cannot_be_counted_costs_a_warning(spark: SparkSession, tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "t")
    broken = path / "part-00003.parquet"
    chunk = next(c for c in chunks(broken) if c.path_in_schema == "score")
    data = bytearray(broken.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    broken.write_bytes(data)
    table = zskip.table(spark, str(path))
    with pytest.warns(ZskipWarning, match="only the statistics of footers"):
        info = table.index()
    assert info.files == 6
    with pytest.raises(zskip.errors.ZskipError):
        table.index(collect="scan")


def test_bad_input(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tables.make_events(tmp_path / "t"))
    with pytest.raises(InputError, match='collect="rows" is not one of auto, footers, scan'):
        zskip.table(spark, path).index(collect="rows")
    with pytest.raises(InputError, match="needs Spark"):
        zskip.open(path).index(collect="scan")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert zskip.open(path).index(collect="auto").files == 6
