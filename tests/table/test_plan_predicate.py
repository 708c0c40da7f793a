"""`ScanPlan.predicate`: it loses no row of the version in any engine, and lets engines skip most other files."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlglot
import tiers

import zskip

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "long": (pa.int64(), [-(2**63), -1, 0, 7, 2**53 + 1, 2**63 - 1]),
    "short": (pa.int16(), [-(2**15), 0, 5, 2**15 - 1]),
    "double": (pa.float64(), [float("nan"), float("-inf"), -0.0, 0.0, 1e-300, 2.5, float("inf")]),
    "text": (pa.string(), ["", "a", "it's", "a\\b", "tab\there", "z" * 100, "zebra's", "ü" * 50, "\x7f", "~}", "&'"]),
    "day": (pa.date32(), [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]),
    "time": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc), dt.datetime(2024, 10, 27, 1, 30, tzinfo=dt.timezone.utc)],
    ),
    "ntz": (pa.timestamp("us"), [dt.datetime(1970, 1, 1), dt.datetime(2024, 3, 31, 2, 30, 0, 1)]),
    "money": (pa.decimal128(12, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("9999999999.99")]),
    "big": (pa.decimal128(38, 4), [Decimal("-1.5000"), Decimal(10**33), Decimal("12.3456")]),
    "flag": (pa.bool_(), [True, False]),
    "raw": (pa.binary(), [b"", b"\xff"]),
}
CONDITIONS = ["part = 3", "part IN (1, 4)", "part >= 5", "part < 0", "part = 2 OR text = 'a'", "long > 3 AND short < 1"]


def random_files(path: Path, rng: np.random.Generator) -> None:
    """Files of few different values each, some of them null, so that each column's bounds tell files apart."""
    for i in range(8):
        columns: dict[str, Any] = {"part": pa.array([i] * 6, pa.int32())}
        for name, (kind, values) in VALUES.items():
            few = rng.choice(len(values), size=2)
            nulls = rng.choice([0.0, 0.3, 1.0], p=[0.5, 0.3, 0.2])
            chosen = [None if rng.random() < nulls else values[few[rng.integers(2)]] for _ in range(6)]
            columns[name] = pa.array(chosen, kind)
        pq.write_table(pa.table(columns), path / f"{i}.parquet")


def translated(predicate: str) -> str:
    return sqlglot.transpile(predicate, read="spark", write="duckdb")[0]


@pytest.mark.scaled
@pytest.mark.parametrize("seed", range(tiers.count(200, quick=12)))
def test_no_row_is_lost_in_duckdb(tmp_path: Path, seed: int) -> None:
    random_files(tmp_path, np.random.default_rng(seed))
    table = zskip.open(str(tmp_path))
    table.index()
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'America/New_York'")
    rows = f"SELECT count(*) FROM '{tmp_path}/*.parquet' WHERE "
    for where in CONDITIONS:
        plan = table.plan(where)
        expected = connection.execute(rows + where).fetchone()
        assert connection.execute(rows + translated(plan.predicate)).fetchone() == expected, plan.predicate


@pytest.mark.parametrize("seed", range(2))
def test_no_row_is_lost_in_spark(spark: Any, tmp_path: Path, seed: int) -> None:
    random_files(tmp_path, np.random.default_rng(1000 + seed))
    table = zskip.table(spark, str(tmp_path))
    table.index()
    frame = spark.read.parquet(str(tmp_path))
    for where in CONDITIONS:
        predicate = table.plan(where).predicate
        assert frame.where(predicate).count() == frame.where(where).count(), predicate


def test_boxes_of_a_clustered_table_leave_out_most_other_files(tmp_path: Path) -> None:
    """What engines cannot read from the condition itself, they read from two boxes."""
    for i in range(64):
        x, y = divmod(i, 8)
        columns = {"x": range(10 * x, 10 * x + 10), "y": range(10 * y, 10 * y + 10)}
        pq.write_table(pa.table(columns), tmp_path / f"{i}.parquet")
    table = zskip.open(str(tmp_path))
    table.index()
    plan = table.plan("x * 1 = 15 AND y * 1 IN (65, 75) OR x = 65 AND y = 25")
    boxes = plan.predicate.removeprefix(f"({plan.where}) AND ")
    assert boxes == "((x BETWEEN 10 AND 19 AND y BETWEEN 60 AND 79) OR (x BETWEEN 60 AND 69 AND y BETWEEN 20 AND 29))"


def test_what_says_nothing_is_no_condition(tmp_path: Path) -> None:
    for i in range(4):
        pq.write_table(pa.table({"a": [i], "s": [{"x": i}]}), tmp_path / f"{i}.parquet")
    table = zskip.open(str(tmp_path))
    table.index()
    assert table.plan().predicate == "TRUE"
    assert table.plan("a + 0 >= 0 -- all").predicate == "(a + 0 >= 0 -- all\n)"
    assert table.plan("a < 0").predicate == "(a < 0) AND (FALSE)"
    assert table.plan("a = 3").predicate == "(a = 3) AND (a = 3)"
    pq.write_table(pa.table({"a": [9], "s": [{"x": 9}]}), tmp_path / "new.parquet")
    assert zskip.open(str(tmp_path)).plan("a = 3").predicate == "(a = 3)"
