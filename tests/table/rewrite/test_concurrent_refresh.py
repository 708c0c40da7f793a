"""An index with sketches is brought up to date while the table is rewritten, either in the middle of the other."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import zskip
from zskip.errors import ConflictError, ZskipWarning
from zskip.spark.collect import sketching
from zskip.table.rewrite import optimize

pytestmark = [pytest.mark.spark, pytest.mark.slow]
FILES, ROWS = 6, 50
SKETCHES = ["bloom(0.001):key", "ngram(3):note"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Files whose keys and notes are in one file each, within the same bounds."""
    for file in range(FILES):
        keys = [0, *range(1 + file, 1 + FILES * ROWS, FILES), 10**6]
        pq.write_table(pa.table({"key": keys, "note": [f"a {k:06} z" for k in keys]}), tmp_path / f"{file}.parquet")
    return tmp_path


def in_the_middle(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, other: Callable[[], object], when: str
) -> None:
    """Have something else happen right before or after a function is called for the first time."""
    function = getattr(module, name)

    def call(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(module, name, function)
        if when == "before":
            other()
        result = function(*arguments, **options)
        if when == "after":
            other()
        return result

    monkeypatch.setattr(module, name, call)


def check(spark: SparkSession, path: Path, files: int) -> None:
    """No row is lost, whatever is skipped; the next refresh completes the sketches, and then most files are skipped."""
    table = zskip.table(spark, str(path))
    for attempt in range(2):
        for key in (1, 77, FILES * ROWS):
            where = f"key = {key} AND note LIKE '%{key:06}%'"
            assert table.df().where(where).count() == 1
            assert attempt == 0 or len(zskip.open(str(path)).files(where)) == 1
        if attempt == 0:
            with warnings.catch_warnings():
                warnings.simplefilter("error", ZskipWarning)
                assert [sketch.files for sketch in table.index().sketches] == [files] * len(SKETCHES)
    assert table.df().count() == FILES * (ROWS + 2)


@pytest.mark.parametrize(("name", "when"), [("_rewrite", "before"), ("index_new_files", "before")])
def test_sketches_that_come_during_a_rewrite(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch, name: str, when: str
) -> None:
    table = zskip.table(spark, str(path))
    in_the_middle(monkeypatch, optimize, name, lambda: zskip.table(spark, str(path)).index(sketches=SKETCHES), when)
    table.optimize(by=["key"], curve="linear", files=4)
    assert [sketch.files for sketch in table.info().index.sketches] == [4, 4]
    check(spark, path, 4)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_rewrite_that_comes_while_sketches_are_built(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    table = zskip.table(spark, str(path))
    table.index(sketches=SKETCHES[:1])

    def rewrite() -> None:
        zskip.table(spark, str(path)).optimize(by=["key"], curve="linear", files=4)

    in_the_middle(monkeypatch, sketching, "build_sketches", rewrite, when)
    if when == "before":
        with pytest.raises(ConflictError, match="call again"):
            table.index(sketches=SKETCHES)
        table.index(sketches=SKETCHES)
    else:
        table.index(sketches=SKETCHES)
    check(spark, path, 4)
