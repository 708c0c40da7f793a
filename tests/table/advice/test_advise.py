"""Advice: what is predicted comes true, nothing is written, and what cannot be used is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables
from pyspark.sql import SparkSession

import zskip
from zskip.errors import ColumnError, InputError

pytestmark = pytest.mark.spark
ROWS = 40_000


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows in no order; `noise` is never asked for, `note` never ordered."""
    path = tmp_path_factory.mktemp("advise") / "orders"
    path.mkdir()
    rng = np.random.default_rng(4)
    table = pa.table(
        {
            "customer": rng.integers(0, 2_000, ROWS),
            "day": rng.integers(0, 365, ROWS).astype(np.int32),
            "noise": rng.random(ROWS),
            "note": [f"note {x:06d}" for x in rng.integers(0, 900_000, ROWS)],
        }
    )
    for i in range(8):
        pq.write_table(table.slice(i * ROWS // 8, ROWS // 8), path / f"part-{i}.parquet", row_group_size=2_000)
    return path


def asked(count: int, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    found: list[Any] = []
    for i in range(count):
        customer, day = int(rng.integers(0, 2_000)), int(rng.integers(0, 330))
        found.append(
            (f"customer = {customer}", 2.0)
            if i % 3 == 0
            else f"day BETWEEN {day} AND {day + 9}"
            if i % 3 == 1
            else f"customer IN ({customer}, {customer + 3}) OR day = {day}"
        )
    return found


def measured(table: zskip.Table, queries: list[Any]) -> float:
    """Mean share of the rows in kept files, by weight."""
    shares, weights = [], []
    for query in queries:
        where, weight = query if isinstance(query, tuple) else (query, 1.0)
        found = table.prune(where)
        assert found.rows is not None
        shares.append(found.rows / ROWS)
        weights.append(weight)
    return float(np.average(shares, weights=weights))


def test_what_is_advised_comes_true(spark: SparkSession, orders: Path, tmp_path: Path) -> None:
    table = zskip.table(spark, str(orders))
    before = sorted(p.name for p in orders.iterdir())
    workload = [*asked(60, 1), "SELECT * FROM orders WHERE day = 7 AND noise < 0.5", "gone = 1", "day ==== 2"]
    advice = table.advise(workload, files=8)
    assert sorted(p.name for p in orders.iterdir()) == before
    assert [p.number for p in advice.problems] == [62, 63]
    assert advice.current.kept > 0.9
    assert advice.best is not None
    assert set(advice.best.by) <= {"customer", "day", "noise"}
    assert {"customer", "day"} <= set(advice.best.by)
    assert [len(c.by) for c in advice.by_number_of_columns] == [1, 2, 3]
    assert all(c.kept_low <= c.kept <= c.kept_high for c in advice.candidates)
    text = str(advice)
    assert text.startswith(f"{orders}, on ")
    assert "Cluster by" in text
    assert "by the number of columns" in text
    assert json.loads(json.dumps({"kept": advice.best.kept, "by": advice.best.by}))
    result = table.optimize(
        advice.best.by, curve=advice.best.curve, files=8, workload=workload, into=str(tmp_path / "a")
    )
    assert result.curve == advice.best.curve
    assert zskip.table(spark, str(tmp_path / "a")).history()[0].fitted_to == "61 given predicates"
    held = asked(60, 2)
    share = measured(zskip.table(spark, str(tmp_path / "a")), held)
    assert share == pytest.approx(table.what_if(advice.best.by, files=8, workload=held).kept, rel=0.15)
    assert share < 0.8 * advice.current.kept


@pytest.mark.slow
def test_auto_takes_the_recorded_workload_and_then_leaves_the_table_alone(spark: SparkSession, tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "t", rows=12_000)
    table = zskip.table(spark, str(path))
    table.index()
    table.record()
    for i in range(0, 500, 12):
        table.files(f"user = {i}")
    result = table.optimize("auto", curve="auto", files=6)
    assert result.by[0] == "user"
    assert result.predicted_share_after is not None
    assert result.predicted_share_after < 0.35
    assert tables.ids(path) == list(range(12_000))
    version = table.info().version
    again = table.optimize("auto", curve="auto", files=6)
    assert again.curve == "as it is"
    assert table.info().version == version
    advice = table.advise(files=6)
    assert advice.best is None
    assert "Leave it as it is" in str(advice)
    assert advice.current.by == result.by


def test_without_a_workload_queries_are_made_up(spark: SparkSession, orders: Path) -> None:
    found = zskip.table(spark, str(orders)).what_if(["customer", "day"], curve="zorder", files=8)
    assert 0 < found.kept < 0.8
    assert found.decoded <= found.kept
    assert found.bytes_to_write == sum(p.stat().st_size for p in orders.glob("*.parquet"))
    assert "files with" in str(found)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"workload": []}, InputError, "no query"),
        ({"workload": ["gone = 1"]}, InputError, 'no query.*"gone"'),
        ({"workload": ["SELECT 1 FROM elsewhere.t WHERE day = 1"]}, InputError, "does not read this table"),
        ({"workload": "/no/such/file.sql"}, InputError, "is not a file of queries"),
        ({"columns": ["gone"]}, ColumnError, "gone"),
        ({"files": 0}, InputError, "files=0"),
    ],
)
def test_bad_input(spark: SparkSession, orders: Path, arguments: dict[str, Any], error: type, said: str) -> None:
    with pytest.raises(error, match=said):
        zskip.table(spark, str(orders)).advise(**arguments)


def test_one_query_is_enough(spark: SparkSession, orders: Path) -> None:
    found = zskip.table(spark, str(orders)).what_if("day", files=8, workload=["day < 30"])
    assert found.curve == "linear"
    assert found.kept < 0.3


def test_tables_without_an_order_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table({"tags": [["a"], ["b"]]}), tmp_path / "t" / "a.parquet")
    table = zskip.table(spark, str(tmp_path / "t"))
    with pytest.raises(InputError, match="no column of an orderable type"):
        table.optimize("auto")
    with pytest.raises(InputError, match="no column of an orderable type"):
        table.advise()
    with pytest.raises(InputError, match='only with build="sample"'):
        table.optimize(["a", "b"], curve="auto", build="direct")


@pytest.mark.slow
def test_expressions_are_advised_and_come_true(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    email = "concat(IF(id % 2 = 0, 'User', 'uSER'), lpad(CAST(pmod(hash(id), 900) AS STRING), 3, '0')) AS email"
    rows = spark.range(0, 8_000, 1, 4).selectExpr("id", email, "array(concat('tag', pmod(hash(id), 7000))) AS tags")
    rows.write.parquet(str(path))
    table = zskip.table(spark, str(path))
    queries = [f"lower(email) = 'user{n:03}'" for n in range(0, 900, 30)]
    queries += [f"lower(email) >= 'user{n:03}' AND lower(email) < 'user{n + 20:03}'" for n in range(0, 870, 30)]
    advice = table.advise(workload=[*queries, *[f"array_contains(tags, 'tag{n}')" for n in range(20)]], files=16)
    best = advice.candidates[0]
    assert best.by == ("lower(email)",)
    assert any("bloom(0.01):explode(tags)" in sentence for sentence in advice.suggestions)
    predicted = table.what_if(by=["lower(email)"], workload=queries, files=16)
    assert predicted.kept < 0.15
    assert table.optimize(by="auto", workload=queries, files=16).by == ("lower(email)",)
    reads = float(np.mean([(table.prune(where).rows or 8_000) / 8_000 for where in queries]))
    assert reads == pytest.approx(predicted.kept, abs=0.05)
    assert table.maintain(workload=queries).by == ("lower(email)",)
