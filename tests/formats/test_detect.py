"""What lies at a path says how it is read; where it does not, the user does."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import zskip
from zskip.cli.app import app
from zskip.errors import InputError, TableNotFoundError
from zskip.formats.detect import detect_formats, open_format
from zskip.storage import LocalStorage

MARKS = {"delta": "_delta_log/00000000000000000000.json", "iceberg": "metadata/v1.metadata.json", "hudi": ".hoodie/x"}


def make(path: Path, *formats: str) -> LocalStorage:
    pq.write_table(pa.table({"id": [1]}), path / "part-0.parquet")
    for name in formats:
        (path / MARKS[name]).parent.mkdir()
        (path / MARKS[name]).touch()
    return LocalStorage(str(path))


def test_a_directory_without_marks_is_plain_parquet(tmp_path: Path) -> None:
    storage = make(tmp_path)
    assert detect_formats(storage) == ()
    assert open_format(storage).name == open_format(storage, "parquet").name == "parquet"


@pytest.mark.parametrize("name", ["metadata", "_delta_log", ".hoodie", "metadata/other.json"])
def test_a_directory_or_file_of_such_a_name_alone_is_no_mark(tmp_path: Path, name: str) -> None:
    storage = make(tmp_path)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    assert open_format(storage).name == "parquet"


@pytest.mark.parametrize("name", MARKS)
def test_each_format_has_its_mark(tmp_path: Path, name: str) -> None:
    assert detect_formats(make(tmp_path, name)) == (name,)


def test_an_iceberg_table_of_hadoop_has_a_hint(tmp_path: Path) -> None:
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "version-hint.text").write_text("1")
    assert detect_formats(LocalStorage(str(tmp_path))) == ("iceberg",)


@pytest.mark.parametrize("name", MARKS)
def test_a_table_with_dead_files_is_never_read_as_plain_parquet(tmp_path: Path, name: str) -> None:
    make(tmp_path, name)
    with pytest.raises(InputError, match=f'format="{name}"'):
        zskip.open(str(tmp_path), format="parquet").files()


def test_two_formats_at_one_path_are_named(tmp_path: Path) -> None:
    make(tmp_path, "delta", "hudi")
    with pytest.raises(InputError, match=r'_delta_log/ \(delta\) and .hoodie/ \(hudi\).*format="delta"'):
        zskip.open(str(tmp_path)).info()
    with pytest.raises(TableNotFoundError, match="not a complete Hudi table"):
        zskip.open(str(tmp_path), format="hudi").info()


@pytest.mark.parametrize("name", MARKS)
def test_a_format_that_is_not_there(tmp_path: Path, name: str) -> None:
    make(tmp_path)
    with pytest.raises(InputError, match=f"not a table of the format {name}"):
        zskip.open(str(tmp_path), format=name).files()


@pytest.mark.parametrize("name", ["delta", "hudi"])
@pytest.mark.parametrize("directory", ["a=1", "a=1/b=2"])
def test_a_partition_of_a_table_with_dead_files_is_no_table(tmp_path: Path, name: str, directory: str) -> None:
    make(tmp_path, name)
    (tmp_path / directory).mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), tmp_path / directory / "part-0.parquet")
    with pytest.raises(InputError, match=f"a partition of a table of the format {name}"):
        zskip.open(str(tmp_path / directory)).files()


def test_a_partition_of_plain_parquet_is_a_table(tmp_path: Path) -> None:
    table = tmp_path / "t"
    (table / "a=1" / "b=2").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), table / "a=1" / "b=2" / "part-0.parquet")
    (tmp_path / "_delta_log").mkdir()
    assert len(zskip.open(str(table / "a=1")).files()) == 1


@pytest.mark.spark
def test_a_partition_is_told_through_hadoop_as_well(tmp_path: Path, spark: SparkSession) -> None:
    make(tmp_path, "delta")
    (tmp_path / "a=1").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a=1" / "part-0.parquet")
    with pytest.raises(InputError, match="a partition of a table of the format delta"):
        zskip.table(spark, str(tmp_path / "a=1")).df()


def test_what_is_no_format(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="format='orc' is none of parquet, delta, iceberg, hudi"):
        zskip.open(str(tmp_path), format="orc")


def test_the_commands_take_a_format(tmp_path: Path) -> None:
    make(tmp_path)
    for command in ("files", "explain", "info", "index"):
        result = CliRunner().invoke(app, [command, str(tmp_path), "--format", "parquet"])
        assert result.exit_code == 0, result.output
        failed = CliRunner().invoke(app, [command, str(tmp_path), "--format", "delta"])
        assert isinstance(failed.exception, InputError)


def test_no_library_of_a_format_is_imported_for_plain_parquet(tmp_path: Path) -> None:
    make(tmp_path)
    before = {name for name in ("deltalake", "pyiceberg", "hudi") if name in sys.modules}
    zskip.open(str(tmp_path)).files()
    assert {name for name in ("deltalake", "pyiceberg", "hudi") if name in sys.modules} == before
