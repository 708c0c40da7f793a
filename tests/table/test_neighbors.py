"""Programs that take every `*.parquet` below a directory for its rows never see a file of zskip's."""

from __future__ import annotations

import os
from pathlib import Path

import manifests
import pytest
import tables
import tiers
from pyspark.sql import SparkSession
from written_by import written_by

import zskip
from zskip.errors import ZskipWarning
from zskip.formats.parquet import log
from zskip.index.store.segment import INDEX_DIR
from zskip.storage import Storage


def globbed(path: Path) -> list[Path]:
    """What DuckDB, Polars, Dask and fastparquet take for data: hidden names, too."""
    return sorted(path.rglob("*.parquet"))


@pytest.mark.spark
@pytest.mark.parametrize("writer", tiers.first(["arrow", "spark"]))
def test_no_file_of_zskip_is_taken_for_data(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    path = tables.make_events(tmp_path / "t")
    table = zskip.table(spark, str(path))
    before = globbed(path)
    table.index(sketches=["bloom:user"], granularity="row_group")
    assert len([*(path / INDEX_DIR).glob("*.zskip")]) == 5
    assert globbed(path) == before
    publish, clean = log.publish, log.clean
    staged: list[list[str]] = []

    def look(storage: Storage, entry: log.Entry) -> bool:
        staged.append([file.staged for file in entry.added])
        assert globbed(path) == before
        return publish(storage, entry)

    def look_again(storage: Storage, entry: log.Entry) -> None:
        assert len([*path.rglob("*.replaced")]) == len(before)
        assert globbed(path) == tables.visible(path)
        clean(storage, entry)

    monkeypatch.setattr(log, "publish", look)
    monkeypatch.setattr(log, "clean", look_again)
    with written_by(writer):
        assert table.optimize(["user", "id"], files=3).writer == writer
    assert len(staged[0]) == 3
    assert {name.rpartition(".parquet")[2] for name in staged[0]} == {".staged"}
    assert tables.ids(path) == list(range(tables.ROWS))
    assert not list(path.rglob("*.staged")) + list(path.rglob("*.replaced"))


def test_an_index_of_the_former_names_counts_as_none_and_is_swept(tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "t")
    table = zskip.open(str(path))
    table.index()
    (manifest,) = (path / INDEX_DIR).glob("manifest-*")
    manifest.write_bytes(manifests.with_format(manifest.read_bytes(), 1))
    for file in [*(path / INDEX_DIR).glob("*.zskip")]:
        os.rename(file, file.with_suffix(".parquet"))
    (path / INDEX_DIR / "sketch-1.parquet").write_bytes(b"12")
    assert zskip.open(str(path)).info().index is None
    with pytest.warns(ZskipWarning, match="there is no index"):
        assert len(zskip.open(str(path)).files("id < 0")) == 6
    leftovers = zskip.open(str(path)).clean().leftovers
    assert {left.reason for left in leftovers} == {"of an older format of the index"}
    assert len(leftovers) == 3
    table.index()
    assert globbed(path) == tables.visible(path)
    assert zskip.open(str(path)).files("id < 0") == []
