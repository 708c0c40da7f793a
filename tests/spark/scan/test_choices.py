"""Equal queries of one index are answered once, for as long as the answer holds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import zskip
from zskip.spark.scan.rule import reports
from zskip.spark.scan.rule.bound_files import BoundFiles
from zskip.table.workload import recording


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    session = spark.newSession()
    zskip.enable(session)
    yield session
    zskip.disable(session)


@pytest.fixture
def path(session: SparkSession, tmp_path: Path) -> str:
    """Four files with ids in order, a constant text in each, and an index."""
    rows = session.range(0, 400, 1, 4).selectExpr("id", "concat('n', id DIV 100) AS s", "timestamp_seconds(id) AS t")
    rows.write.parquet(str(tmp_path / "t"))
    zskip.table(session, str(tmp_path / "t")).index()
    return str(tmp_path / "t")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The questions that Python is asked."""
    questions: list[str] = []
    answer = BoundFiles.answer

    def note(self: BoundFiles, question: str, *arguments: Any) -> Any:
        questions.append(question)
        return answer(self, question, *arguments)

    monkeypatch.setattr(BoundFiles, "answer", note)
    return questions


def read(session: SparkSession, path: str, where: str) -> tuple[int, int]:
    """The rows of a query, and the files that it read; each time by a plan of its own."""
    frame = session.read.parquet(path).where(where)
    return len(frame.collect()), reports.latest(session)[-1].files


LIST = f"id IN ({', '.join(map(str, range(0, 100, 3)))})"


@pytest.mark.parametrize("where", ["id < 150", LIST, "hash(id) % 7 = 3 AND id > 350"])
def test_an_equal_query_asks_nothing(session: SparkSession, path: str, asked: list[str], where: str) -> None:
    first = read(session, path, where)
    assert asked == ["prepare"]
    assert read(session, path, where) == first
    assert asked == ["prepare"]


def test_another_query_asks(session: SparkSession, path: str, asked: list[str]) -> None:
    assert read(session, path, "id < 150") == (150, 2)
    assert read(session, path, "id < 350") == (350, 4)
    assert asked == ["prepare"] * 2
    for zone, expected in (("UTC", (150, 2)), ("America/Los_Angeles", (400, 4))):
        session.conf.set("spark.sql.session.timeZone", zone)
        assert read(session, path, "t < TIMESTAMP '1970-01-01 00:02:30'") == expected
    assert asked == ["prepare"] * 4


def test_other_files_are_asked_for(session: SparkSession, path: str, asked: list[str]) -> None:
    assert read(session, path, "id < 150") == (150, 2)
    more = session.range(100, 110, 1, 1).selectExpr("id", "'n1' AS s", "timestamp_seconds(id) AS t")
    more.write.mode("append").parquet(path)
    assert read(session, path, "id < 150") == (160, 3), "a file that the index does not know is read"
    zskip.table(session, path).index()
    assert read(session, path, "id < 105") == (110, 3)
    assert read(session, path, "id < 150") == (160, 3)
    assert asked == ["prepare"] * 4


def test_what_spark_decides_is_asked_each_time(session: SparkSession, path: str, asked: list[str]) -> None:
    where = "translate(s, 'n', 'm') = 'm1'"
    for number in (1, 2):
        assert read(session, path, where) == (100, 1)
        assert asked.count("prepare") == number


def test_a_choice_that_python_will_forget_is_asked_for(session: SparkSession, path: str, asked: list[str]) -> None:
    read(session, path, "id < 150")
    newest = next(reports._numbers)
    reports._numbers = itertools.count(newest + 400)
    read(session, path, "id < 1")
    read(session, path, "id < 150")
    assert asked == ["prepare"] * 2
    reports._numbers = itertools.count(newest + 600)
    read(session, path, "id < 2")
    assert read(session, path, "id < 150") == (150, 2)
    assert asked == ["prepare"] * 4


def test_top_rows_and_limits_ask_once(session: SparkSession, path: str, asked: list[str]) -> None:
    def top() -> DataFrame:
        return session.read.parquet(path).where("id > 10").orderBy("id").limit(3)

    assert [row.id for row in top().collect()] == [11, 12, 13]
    count = len(asked)
    assert [row.id for row in top().collect()] == [11, 12, 13]
    assert len(asked) == count


def test_scans_are_reported_when_somebody_asks(
    session: SparkSession, path: str, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And many at once, so that none is forgotten."""
    monkeypatch.setattr(recording, "_sources", {})  # A recorder of another test would ask meanwhile.
    reports.latest(session)
    table = zskip.table(session, path)
    frame = table.df()
    for i in range(1, 31):
        assert len(frame.where(f"id < {i}").collect()) == i
    assert asked.count("prepare") == 30
    assert asked.count("scanned") == len(asked) - 30 == 1
    assert table.last_scan is not None
    assert (table.last_scan.files, table.last_scan.leaves[-1].sql) == (1, "id < 30L")
