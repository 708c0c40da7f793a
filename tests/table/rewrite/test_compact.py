"""`Table.compact`: fewer files, the same rows in the same order within each old file, one partition at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables
from pyspark.sql import SparkSession

import zskip
from zskip.errors import ConflictError, InputError
from zskip.formats import ParquetFormat
from zskip.table.rewrite import compact

pytestmark = pytest.mark.spark


def write(path: Path, sizes: list[int], codec: str = "snappy") -> None:
    """Files of some numbers of rows, all with numbers of their own, in no order."""
    path.mkdir(parents=True, exist_ok=True)
    start, done = 0, len(list(path.glob("*.parquet")))
    for i, rows in enumerate(sizes):
        values = np.random.default_rng(i).permutation(np.arange(start, start + rows))
        pq.write_table(pa.table({"id": values}), path / f"part-{done + i:05d}.parquet", compression=codec)
        start += rows


def runs(path: Path) -> list[list[int]]:
    """What each visible file holds, in its order."""
    return [pq.read_table(file, partitioning=None)["id"].to_pylist() for file in tables.visible(path)]


def test_the_rows_of_a_file_stay_together_in_their_order(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, [100, 5000, 30, 700, 1])
    before = runs(path)
    table = zskip.table(spark, str(path))
    result = table.compact()
    (after,) = runs(path)
    for run in before:
        start = after.index(run[0])
        assert after[start : start + len(run)] == run
    assert len(after) == result.rows == 5831
    assert (result.files_before, result.files_after, result.batches, result.partitions) == (5, 1, 1, 1)
    assert (result.removed.files, result.added.files) == (5, 1)
    assert result.bytes_after == result.added.bytes == tables.visible(path)[0].stat().st_size
    assert result.version == table.info().version == 1
    assert table.info().rows == 5831
    assert pq.ParquetFile(tables.visible(path)[0]).metadata.row_group(0).column(0).compression == "SNAPPY"
    again = table.compact()
    assert (again.batches, again.version, again.files_after) == (0, 1, 1)


def test_each_partition_is_packed_by_itself(spark: SparkSession, tmp_path: Path) -> None:
    path = tables.make_partitioned(tmp_path / "t")
    before, where_it_was = tables.ids(path), {f.parent: len(list(f.parent.glob("*"))) for f in tables.visible(path)}
    table = zskip.table(spark, str(path))
    result = table.compact(where="y = 2023")
    assert result.files_before == sum(n for d, n in where_it_was.items() if d.name == "y=2023")
    assert result.files_after == sum(d.name == "y=2023" for d in where_it_was)
    assert result.partitions == sum(d.name == "y=2023" and n > 1 for d, n in where_it_was.items())
    table.compact()
    assert tables.ids(path) == before
    assert {f.parent: 1 for f in tables.visible(path)} == dict.fromkeys(where_it_was, 1)
    assert table.verify(queries=1).ok


def test_large_files_are_left_alone_and_a_table_takes_several_commits(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    write(path, [400] * 8)
    write(path, [9000])
    before, size = tables.ids(path), tables.visible(path)[0].stat().st_size
    monkeypatch.setattr(compact, "BINS_AT_ONCE", 2)
    result = zskip.table(spark, str(path)).compact(target_file_size=int(2.5 * size), min_file_size=int(1.5 * size))
    assert (result.added.files, result.removed.files, result.batches, result.version) == (4, 8, 2, 2)
    assert (path / "part-00008.parquet").exists()
    assert tables.ids(path) == before


def test_a_file_that_goes_meanwhile_leaves_the_other_bins(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    write(path, [400] * 6)
    size = tables.visible(path)[0].stat().st_size
    honest, calls = ParquetFormat.replace, []

    def replace(self: ParquetFormat, *arguments: object) -> int:
        calls.append(1)
        if len(calls) == 1:
            (path / "part-00002.parquet").unlink()
        return honest(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ParquetFormat, "replace", replace)
    table = zskip.table(spark, str(path))
    result = table.compact(target_file_size=int(2.5 * size), min_file_size=2 * size)
    assert (len(calls), result.added.files, result.removed.files, result.batches) == (2, 2, 4, 1)
    assert tables.ids(path) == sorted(set(range(2400)) - set(range(800, 1200)))
    assert table.clean().leftovers == ()


def test_what_is_committed_stays_where_a_later_batch_fails(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    write(path, [400] * 4)
    size = tables.visible(path)[0].stat().st_size
    monkeypatch.setattr(compact, "BINS_AT_ONCE", 1)
    monkeypatch.setattr(compact, "_TRIES", 2)
    honest, calls = ParquetFormat.replace, []

    def replace(self: ParquetFormat, *arguments: object) -> int:
        calls.append(1)
        if len(calls) > 1:
            raise ConflictError("somebody else was here")
        return honest(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ParquetFormat, "replace", replace)
    table = zskip.table(spark, str(path))
    with pytest.raises(ConflictError, match="somebody else"):
        table.compact(target_file_size=int(2.5 * size), min_file_size=2 * size)
    assert (len(calls), len(tables.visible(path))) == (3, 3)
    assert tables.ids(path) == list(range(1600))
    assert table.info().rows == 1600
    assert table.clean().leftovers == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target_file_size": 0}, '"0" is not a file size'),
        ({"target_file_size": "-1MB"}, "-1MB"),
        ({"min_file_size": "0kB"}, "0kB"),
        ({"target_file_size": "1MB", "min_file_size": "2MB"}, "more than target_file_size='1MB'"),
        ({"where": "id = 3"}, "not a partition column"),
    ],
)
def test_bad_input(spark: SparkSession, tmp_path: Path, arguments: dict[str, str], message: str) -> None:
    write(tmp_path / "t", [3, 3])
    with pytest.raises(InputError, match=message):
        zskip.table(spark, str(tmp_path / "t")).compact(**arguments)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="needs Spark"):
        zskip.open(str(tmp_path / "t")).compact()
    assert not (tmp_path / "t" / "_zskip").exists()
