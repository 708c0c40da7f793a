"""Conditions as clustering keys: rows that match lie apart, filters that imply them skip files, answers stay."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import zskip
from zskip.errors import ColumnError, InputError
from zskip.predicate import Columns, find_key
from zskip.records import Field
from zskip.spark.collect import sketching
from zskip.types import DataType

ROWS = 8_000
LATE = "note LIKE '%time%out%'"
TABLE = """
    SELECT id, pmod(hash(id), 1000) AS a, pmod(hash(id, 1), 1000) AS b,
           IF(id % 19 = 0, NULL, concat('run ', id, IF(pmod(hash(id, 2), 5) = 0, ' timed out', ' done'))) AS note
    FROM range({start}, {end}, 1, 8)
"""
COLUMNS = Columns([Field(name=name, type=DataType(kind)) for name, kind in (("note", "string"), ("a", "integer"))])


@pytest.fixture
def path(spark: SparkSession, tmp_path: Path) -> Path:
    rows(spark).write.parquet(str(tmp_path / "t"))
    return tmp_path / "t"


def rows(spark: SparkSession, start: int = 0) -> DataFrame:
    return spark.sql(TABLE.format(start=start, end=start + ROWS))


def answers(frame: DataFrame, where: str) -> list[str]:
    return sorted(map(repr, frame.where(where).collect()))


WHERES = [LATE, f"{LATE} AND a < 300", f"b > 900 AND ({LATE})", f"NOT ({LATE})", "note IS NULL", f"{LATE} OR a = 7"]


@pytest.mark.spark
@pytest.mark.parametrize("curve", ["fitted", "zorder"])
def test_files_are_apart_by_a_condition(
    spark: SparkSession, path: Path, curve: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [answers(spark.read.parquet(str(path)), where) for where in WHERES]

    def no_job(*_: object, **__: object) -> None:
        raise AssertionError("the rows were read again for sketches that footers have")

    table = zskip.table(spark, str(path))
    with monkeypatch.context() as patched:
        patched.setattr(sketching, "build_sketches", no_job)
        workload = {"workload": [(LATE, 5), "a < 100"]} if curve == "fitted" else {}
        result = table.optimize(by=["a", LATE], curve=curve, files=16, **workload)
    assert result.by == ("a", LATE)
    assert [answers(table.df(), where) for where in WHERES] == expected
    with zskip.enabled(spark):
        assert [answers(spark.read.parquet(str(path)), where) for where in WHERES] == expected
        scan = zskip.scans(spark)[0]
    assert scan.files < 16, "the files of either branch of an OR"
    for where in WHERES[:3]:
        assert len(table.files(where)) <= 9, where
    assert table.verify(queries=2).ok


@pytest.mark.spark
def test_what_comes_later_lies_by_the_condition(spark: SparkSession, path: Path) -> None:
    table = zskip.table(spark, str(path))
    table.optimize(by=["a", LATE], curve="fitted", files=16, workload=[(LATE, 5), "a < 100"])
    table.append(rows(spark, ROWS))
    table.maintain()
    assert table.info().layout is not None
    assert table.info().layout.by == ("a", LATE)
    assert len(table.files(LATE)) <= 0.6 * len(table.files())
    assert answers(table.df(), LATE) == answers(spark.read.parquet(str(path)), LATE)
    assert not table.maintain().batches, "what lies by the layout is not moved again"


@pytest.mark.spark
def test_the_workload_chooses_conditions(spark: SparkSession, path: Path) -> None:
    table = zskip.table(spark, str(path))
    workload = [(LATE, 5), (f"{LATE} AND b < 10", 2), ("a < 100", 1), ("note LIKE '%n%u%'", 1)]
    assert table.optimize(by=["a", "b"], curve="zorder", files=16, workload=workload).by == ("a", "b")
    result = table.optimize(by=["a", "b"], curve="fitted", files=16, workload=workload)
    assert result.by == ("a", "b", LATE), "a condition that hardly any row meets is not worth a key"
    assert len(table.files(LATE)) <= 8
    chosen = table.optimize(by="auto", curve="fitted", files=16, workload=workload)
    assert LATE in chosen.by


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("note RLIKE 'time.?out'", "no expression that rows can be clustered by"),
        ("rand() > 0.5", "has another value each time"),
        ("a > (SELECT max(a) FROM t)", "a query is not of one row"),
        ("missing LIKE '%x%y%'", "missing"),
        ("'x' LIKE '%x%y%'", "no expression"),
    ],
)
def test_what_is_no_key(key: str, message: str) -> None:
    with pytest.raises(ColumnError, match=message):
        find_key(COLUMNS, key, timezone="UTC")


@pytest.mark.spark
def test_a_session_that_reads_the_condition_otherwise_is_refused(spark: SparkSession, path: Path) -> None:
    spark.conf.set("spark.sql.parser.escapedStringLiterals", "true")
    try:
        with pytest.raises(InputError, match="escapedStringLiterals"):
            zskip.table(spark, str(path)).optimize(by=["a", r"note LIKE '%a\\_b%c'"], curve="zorder", files=4)
    finally:
        spark.conf.unset("spark.sql.parser.escapedStringLiterals")
