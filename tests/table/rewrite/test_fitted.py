"""Trees of cuts from end to end: odd columns, workloads that tell nothing, budgets, and what is said without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables
import tiers
from pyspark.sql import SparkSession

import zskip
from zskip.errors import ColumnError, InputError, ZskipWarning
from zskip.formats import ParquetFormat
from zskip.storage import LocalStorage
from zskip.table import journal

pytestmark = pytest.mark.spark
ROWS = 1_000


def make(path: Path, columns: dict[str, Any], file: str = "a.parquet") -> Path:
    path.mkdir(exist_ok=True)
    rows = len(next(iter(columns.values())))
    pq.write_table(pa.table({"id": np.arange(rows), **columns}), path / file)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    return make(tmp_path / "t", {"a": random.integers(0, 1_000, ROWS), "b": random.integers(0, 90, ROWS)})


def test_a_share_of_unseen_queries_is_0_to_1(spark: SparkSession, path: Path) -> None:
    table = zskip.table(spark, str(path))
    for call in (lambda: table.advise(unseen=1.1), lambda: table.what_if(["a", "b"], unseen=1.1)):
        with pytest.raises(InputError, match=r"unseen=1.1 is not a share of queries; give a number"):
            call()


def test_a_workload_that_tells_nothing_says_which_columns_it_filters_by(spark: SparkSession, path: Path) -> None:
    table = zskip.table(spark, str(path))
    with pytest.warns(
        ZskipWarning, match=r"no query of the workload has a range of a, b: they filter on id; .*made-up"
    ):
        table.optimize(["a", "b"], curve="fitted", files=4, workload=["id = 3", "id > 900"])
    with pytest.warns(ZskipWarning, match=r"no query .* of a, b: bounds say nothing about their filters"):
        table.optimize(["a", "b"], curve="fitted", files=4, workload=["a % 7 = 3"])
    with pytest.raises(InputError, match=r'no query of the workload can be used: query 1 \(gone = 1\): .*"gone"'):
        table.optimize(["a", "b"], curve="fitted", files=4, workload=["gone = 1"])
    assert tables.ids(path) == list(range(ROWS))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "files"),
    tiers.nightly(
        [
            ({"a": pa.nulls(ROWS, pa.int64()), "b": pa.nulls(ROWS, pa.float64())}, 4),
            ({"a": np.arange(ROWS) % 9, "b": np.where(np.arange(ROWS) % 3 == 0, np.nan, np.arange(ROWS))}, 4),
            ({"a": np.arange(ROWS) % 3, "b": (np.arange(ROWS) % 2).astype(np.float64)}, 50),
            ({"a": np.full(ROWS, 7), "b": np.full(ROWS, 7.5)}, 4),
            ({"a": np.arange(ROWS), "b": np.full(ROWS, np.nan)}, 4),
            ({"a": np.arange(3), "b": np.arange(3.0)}, 50),
        ],
        daily=3,
    ),
    ids=["nulls", "some NaN", "fewer distinct rows than files", "one value", "NaN", "fewer rows than files"],
)
def test_odd_columns(spark: SparkSession, tmp_path: Path, columns: dict[str, Any], files: int) -> None:
    path = make(tmp_path / "t", columns)
    rows = len(columns["a"])
    table = zskip.table(spark, str(path))
    asked = ["a = 7", "b > 2.5", "a IS NULL AND b = 1", "isnan(b)", "b IS NULL", "a < 5 OR b < 3"]
    expected = [sorted(r.id for r in table.df().where(where).select("id").collect()) for where in asked]
    result = table.optimize(["a", "b"], curve="fitted", files=files, workload=asked)
    assert 1 <= result.files_after <= files
    assert tables.ids(path) == list(range(rows))
    assert [sorted(r.id for r in table.df().where(where).select("id").collect()) for where in asked] == expected
    assert table.verify(queries=1).ok


def test_a_column_that_went_after_the_fit(spark: SparkSession, path: Path) -> None:
    table = zskip.table(spark, str(path))
    table.optimize(["a", "b"], curve="fitted", files=4, workload=["a = 3", "b = 4"])
    for file in tables.visible(path):
        pq.write_table(pq.read_table(file).drop_columns(["b"]).replace_schema_metadata(), file)
    with pytest.raises(ColumnError, match=r'clustered by a, b, which is no longer possible.*no column "b"'):
        table.maintain()
    assert table.info().layout is not None
    assert str(table.explain("a = 3"))
    assert table.maintain(by=["a", "id"]).by == ("a", "id")
    assert tables.ids(path) == list(range(ROWS))


@pytest.mark.slow
def test_a_refit_that_a_budget_cut_short(spark: SparkSession, path: Path) -> None:
    """Until the new tree has more files, what comes is placed by the old one; the next refits do the rest."""
    table = zskip.table(spark, str(path))
    table.optimize(["a", "b"], curve="fitted", files=8, workload=[f"a = {i * 9}" for i in range(100)], unseen=0.0)

    def newest_and_largest() -> list[str]:
        found = journal.read_clustering(
            journal.read_journal(LocalStorage(str(path))), ParquetFormat(LocalStorage(str(path))).snapshot()
        )
        assert found is not None
        return [run.layout().to_json() for run in (found.newest, found.largest_run)]

    moved = [f"b = {i}" for i in range(90)]
    size = max(file.stat().st_size for file in tables.visible(path))
    assert "only with Spark" in zskip.open(str(path)).maintain(workload=moved, dry_run=True).refit
    old = newest_and_largest()[1]
    cut = table.maintain(workload=moved, refit=True, budget=3 * size, target_file_size=size)
    assert "of 8 files were rewritten by one" in cut.refit
    assert 0 < cut.files_removed < 8
    newest, largest = newest_and_largest()
    assert newest != largest == old
    make(path, {"a": np.arange(300), "b": np.arange(300) % 90}, "later.parquet")
    for _ in range(6):
        if not table.maintain(workload=moved, refit=True, target_file_size=size).refit:
            break
    assert table.maintain(workload=moved, dry_run=True).refit == ""
    assert newest_and_largest()[1] != old
    assert tables.ids(path) == sorted([*range(ROWS), *range(300)])
    assert table.verify(queries=1).ok
