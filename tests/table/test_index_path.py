"""Indexes that lie outside of their tables."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import tables
from typer.testing import CliRunner

import zskip
from zskip.cli.app import app
from zskip.errors import InputError, ZskipWarning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def content(path: Path) -> dict[str, tuple[int, int]]:
    """All files below a directory, hidden ones too, as they are now."""
    return {str(p): (p.stat().st_size, p.stat().st_mtime_ns) for p in sorted(path.rglob("*")) if p.is_file()}


def test_the_index_lies_where_it_is_told_to(tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "t")
    before = content(path)
    opened = zskip.open(str(path), index_path=str(tmp_path / "i"))
    assert opened.index().files == 6
    assert content(path) == before
    assert not (path / "_zskip").exists()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ZskipWarning)
        again = zskip.open(str(path), index_path=str(tmp_path / "i"))
        assert again.prune("id < 0").files == 0
        found = again.files("day = DATE '2024-01-01'")
        assert all(name.startswith(str(path) + "/part-") for name in found)
        assert again.info().index is not None
    with pytest.warns(ZskipWarning, match="no index"):
        assert len(zskip.open(str(path)).files("id < 0")) == 6


def test_new_files_and_removed_ones(tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "t")
    opened = zskip.open(str(path), index_path=str(tmp_path / "i"))
    opened.index()
    (path / "part-00001.parquet").unlink()
    shutil.copy(path / "part-00002.parquet", path / "part-00009.parquet")
    with pytest.warns(ZskipWarning, match="1 of the 6"):
        assert opened.files("id < 0") == [str(path / "part-00009.parquet")]
    assert opened.index().files == 6
    assert opened.files("id < 0") == []


@pytest.mark.parametrize("other", ["outside", "inside"])
def test_the_index_of_another_table_is_refused(tmp_path: Path, other: str) -> None:
    path, first = tables.make_events(tmp_path / "t"), tables.make_events(tmp_path / "first")
    home = tmp_path / "i" if other == "outside" else first
    zskip.open(str(first), index_path=str(home)).index()
    before = content(home)
    opened = zskip.open(str(path), index_path=str(home))
    for call in (opened.index, opened.info, lambda: opened.files("id < 0"), lambda: opened.explain("id < 0")):
        with pytest.raises(InputError, match="index of"):
            call()
    assert content(home) == before


def test_the_table_itself_is_a_place_like_no_index_path(tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "t")
    zskip.open(str(path), index_path=str(path)).index()
    assert zskip.open(str(path)).files("id < 0") == []
    path.rename(tmp_path / "moved")
    assert zskip.open(str(tmp_path / "moved")).files("id < 0") == []


def test_a_directory_inside_the_table_adds_no_files_to_it(tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "t")
    opened = zskip.open(str(path), index_path=str(path / "index"))
    opened.index()
    assert (opened.index().files, opened.files("id < 0")) == (6, [])


def test_an_empty_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="index_path is empty"):
        zskip.open(str(tmp_path), index_path="")


def test_the_command_line_takes_it(tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "t")

    def run(*command: str) -> str:
        result = CliRunner().invoke(app, [*command, "--index-path", str(tmp_path / "i")], catch_exceptions=False)
        assert result.exit_code == 0
        return result.stdout

    run("index", str(path))
    assert run("files", str(path), "--where", "id < 0") == ""
    assert '"files": 6' in run("info", str(path), "--json")
    assert "id < 0" in run("explain", str(path), "--where", "id < 0")
    assert not (path / "_zskip").exists()


@pytest.mark.spark
def test_spark_reads_and_rewrites_with_it(spark: SparkSession, tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "t")
    before = content(path)
    table = zskip.table(spark, str(path), index_path=str(tmp_path / "i"))
    assert table.index().files == 6
    assert content(path) == before
    assert table.df().where("id < 0").count() == 0
    assert table.last_scan is not None
    assert table.last_scan.files == 0
    assert table.verify(queries=1).ok
    table.optimize(by=["id", "user"], files=4)
    assert not (path / "_zskip" / "index").exists()
    again = zskip.table(spark, str(path), index_path=str(tmp_path / "i"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ZskipWarning)
        assert len(again.df().where("id < 10").collect()) == 10
    assert again.last_scan is not None
    assert 0 < again.last_scan.files < 4
    with pytest.raises(InputError, match="path is empty"):
        zskip.table(spark, str(path), index_path="")
