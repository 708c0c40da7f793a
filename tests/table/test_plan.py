"""`Table.plan`: what it says of a scan, and the rows that it hands to DuckDB and Polars."""

from __future__ import annotations

import datetime as dt
import sys
from decimal import Decimal
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from plan_rows import ENGINES, rows

import zskip


@pytest.fixture
def ten_files(tmp_path: Path) -> Path:
    for i in range(10):
        table = pa.table({"a": range(10 * i, 10 * i + 10), "b": [f"x{i}"] * 10})
        pq.write_table(table, tmp_path / f"part {i}[1].parquet", row_group_size=5)
    zskip.open(str(tmp_path)).index(granularity="row_group")
    return tmp_path


def test_what_a_plan_says(ten_files: Path) -> None:
    table = zskip.open(str(ten_files))
    plan = table.plan("a >= 17 AND a < 25 AND upper(b) || 'x' > 'X'")
    assert [Path(file).name for file in plan.files] == ["part 1[1].parquet", "part 2[1].parquet"]
    assert [file.row_groups for file in plan.files] == [(1,), (0,)]
    assert list(plan.files) == table.files(plan.where)
    assert plan.bytes == sum(Path(file).stat().st_size for file in plan.files) == plan.report.bytes
    assert plan.report.files_total == 10
    assert {leaf.sql: leaf.skipped for leaf in plan.reasons[:2]} == {"a >= 17L": 1, "a < 25L": 7}
    assert "2 of 10 files" in repr(plan)
    assert table.last_scan is not None
    assert (table.last_scan.files, table.prune(plan.where).files) == (2, 2)


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_read_the_rows_of_the_kept_files(ten_files: Path, engine: str) -> None:
    plan = zskip.open(str(ten_files)).plan("a >= 17 AND a < 25")
    assert rows(plan, engine) == [(a, f"x{a // 10}") for a in range(10, 30)]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_empty_plan_gives_no_rows_in_all_columns(ten_files: Path, engine: str) -> None:
    plan = zskip.open(str(ten_files)).plan("a < 0")
    assert plan.files == ()
    assert rows(plan, engine) == []
    columns = plan.to_duckdb(duckdb.connect()).columns if engine == "duckdb" else plan.to_polars().collect_schema()
    assert list(columns) == ["a", "b"]


@pytest.mark.parametrize("engine", ENGINES)
def test_partition_values_have_their_types(tmp_path: Path, engine: str) -> None:
    for day, name in [("2024-03-01", "a"), ("2024-03-02", "__HIVE_DEFAULT_PARTITION__"), ("2024-03-02", "a%2Fb")]:
        path = tmp_path / f"day={day}" / f"name={name}"
        path.mkdir(parents=True)
        pq.write_table(pa.table({"id": [1]}), path / "0.parquet")
    plan = zskip.open(str(tmp_path)).plan("day = DATE '2024-03-02'")
    expected = [(1, dt.date(2024, 3, 2), "a/b"), (1, dt.date(2024, 3, 2), None)]
    assert rows(plan, engine) == sorted(expected, key=repr)


@pytest.mark.parametrize("engine", ENGINES)
def test_files_that_differ_are_read_as_the_table(tmp_path: Path, engine: str) -> None:
    """A column that a file lacks is null, and a narrower type is widened; timestamps of 96 bits are instants."""
    instant = dt.datetime(2024, 3, 1, 12, tzinfo=dt.timezone.utc)
    zoned = pa.array([instant], pa.timestamp("us", "UTC"))
    first = pa.table({"n": pa.array([1], pa.int64()), "d": [Decimal("1.50")], "ts": zoned, "st": [{"x": 1}]})
    pq.write_table(first, tmp_path / "0.parquet")
    second = pa.table({"ts": zoned, "n": pa.array([2], pa.int32())})
    pq.write_table(second, tmp_path / "1.parquet", use_deprecated_int96_timestamps=True)
    plan = zskip.open(str(tmp_path)).plan()
    columns = "n, d, st, epoch(ts)" if engine == "duckdb" else "n, d, st, ts"
    second_time = instant.timestamp() if engine == "duckdb" else instant
    expected = [(1, Decimal("1.50"), {"x": 1}, second_time), (2, None, None, second_time)]
    assert rows(plan, engine, columns) == expected


@pytest.mark.parametrize("engine", ENGINES)
def test_a_type_that_an_engine_would_read_otherwise_is_refused(tmp_path: Path, engine: str) -> None:
    pq.write_table(pa.table({"a": ["x"]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"a": [b"\xff"]}), tmp_path / "1.parquet")
    with pytest.raises(zskip.UnsupportedError, match=r'1\.parquet" stores the column "a" as binary.*has string'):
        rows(zskip.open(str(tmp_path)).plan(), engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_structs_that_files_spell_differently_are_refused(tmp_path: Path, engine: str) -> None:
    for i, names in enumerate(("xy", "yx")):
        value = {name: ord(name) for name in names}
        pq.write_table(pa.table({"st": [value]}), tmp_path / f"{i}.parquet")
    with pytest.raises(zskip.UnsupportedError, match=r'1\.parquet" stores the column "st" as struct<y'):
        rows(zskip.open(str(tmp_path)).plan(), engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_column_may_have_the_name_of_duckdbs_row_numbers(tmp_path: Path, engine: str) -> None:
    pq.write_table(pa.table({"file_row_number": [7]}), tmp_path / "0.parquet")
    assert rows(zskip.open(str(tmp_path)).plan(), engine) == [(7,)]


def test_a_connection_that_fails_gives_an_error_of_zskip(ten_files: Path) -> None:
    connection = duckdb.connect()
    connection.close()
    with pytest.raises(zskip.StorageError, match=r"duckdb failed in to_duckdb\(.*closed"):
        zskip.open(str(ten_files)).plan().to_duckdb(connection)


def test_without_polars_one_line_says_what_to_install(ten_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    monkeypatch.delitem(sys.modules, "zskip.table.read.polars_scan", raising=False)
    with pytest.raises(zskip.MissingDependencyError, match="pip install polars"):
        zskip.open(str(ten_files)).plan().to_polars()


def test_a_kept_file_that_is_damaged_is_named(ten_files: Path) -> None:
    plan = zskip.open(str(ten_files)).plan("a = 17")
    Path(plan.files[0]).write_bytes(b"PAR1")
    with pytest.raises(zskip.CorruptFileError, match=r"part 1.*not a readable Parquet file"):
        plan.to_polars()


def test_errors_at_the_top() -> None:
    """Every class of error that zskip raises is an attribute of `zskip`."""
    from zskip import errors

    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, (Exception, Warning))]
    assert {c.__name__ for c in classes if c.__module__ == errors.__name__} <= set(zskip.__all__)


def test_polars_pushes_filters_into_the_files(ten_files: Path) -> None:
    plan = zskip.open(str(ten_files)).plan("a = 17")
    assert "SELECTION" in plan.to_polars().filter(pl.col("a") == 17).explain()
