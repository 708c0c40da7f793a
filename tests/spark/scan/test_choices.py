"""Equal queries of one index are answered once, for as long as the answer holds."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import zskip
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.scan.rule import reports
from zskip.spark.scan.rule.bound_files import BoundFiles
from zskip.spark.scan.rule.install import install
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


def test_a_choice_that_python_will_forget_is_asked_for(
    session: SparkSession, path: str, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its scan would be reported when Python is asked, maybe many choices later."""
    monkeypatch.setattr(reports, "_choices", reports._Latest(reports._CHOICE_BYTES))
    read(session, path, "id < 150")
    monkeypatch.setattr(reports._choices, "limit", 8 * choice_bytes())
    for i in range(3):
        read(session, path, f"id < {i}")
    count = len(asked)
    assert read(session, path, "id < 150") == (150, 2)
    assert len(asked) == count, "there is room"
    for i in range(3, 12):
        read(session, path, f"id < {i}")
    count = len(asked)
    assert read(session, path, "id < 150") == (150, 2)
    assert len(asked) == count + 1


def choice_bytes() -> int:
    """About as many as the largest choice of these tests takes."""
    return max(choice.nbytes for _, _, choice in reports._choices.all())


@pytest.mark.slow
def test_what_python_remembers_is_bounded_by_bytes(
    session: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports._choices, "limit", 30_000)
    monkeypatch.setattr(reports._scans, "limit", 10_000)
    for i in range(12):
        more = " OR ".join(f"id = {k}" for k in range(i * 15))
        read(session, path, f"id < {i}" + (f" OR {more}" if more else ""))
    for latest in (reports._choices, reports._scans):
        assert 0 < sum(size for _, size in latest._things.values()) == latest._bytes
        assert latest._bytes <= latest.limit or len(latest._things) == 1


def test_reports_keep_no_index_alive(session: SparkSession, path: str) -> None:
    frame = zskip.table(session, path).df().where("id < 150")
    frame.collect()
    reports.latest(session)
    ((reporter, bound, _),) = reports._choices.all()[-1:]
    assert reporter.table.endswith(path)
    assert bound() is not None
    del frame
    collected(session, lambda: bound() is None)


def test_opened_indexes_are_bounded_by_bytes_and_go_with_their_session(spark: SparkSession) -> None:
    jvm, rule = Jvm.of(spark), install(spark)
    loader, make = rule.getClass().getClassLoader(), jvm.find("java.lang.Object")
    owner, opened = loader.loadClass("IndexedTables"), loader.loadClass("IndexedTables$Opened")
    tables, constructor = field(rule, "tables"), opened.getDeclaredConstructors()[0]
    indexes = field(tables, "indexes")
    put = owner.getDeclaredMethod("put", jvm.array("java.lang.Class", [jvm.class_of("java.lang.Object"), opened]))
    for private in (put, constructor):
        private.setAccessible(True)

    def add(key: str, session: JavaObject, columns: int = 1) -> None:
        one = constructor.newInstance(jvm.array("java.lang.Object", ["stamp", None, session, columns]))
        put.invoke(tables, jvm.array("java.lang.Object", [key, one]))

    session = make()
    add("of a session that ends", session)
    add("of one that stays", spark._jsparkSession)
    assert indexes.containsKey("of a session that ends")
    del session

    def is_dropped() -> bool:
        add("another", spark._jsparkSession)
        return not indexes.containsKey("of a session that ends")

    collected(spark, is_dropped)
    assert indexes.containsKey("of one that stays")
    add("larger than all that may be kept", spark._jsparkSession, 1 << 30)
    assert list(indexes.keySet()) == ["larger than all that may be kept"]
    add("another", spark._jsparkSession)
    assert list(indexes.keySet()) == ["another"]


def field(owner: JavaObject, name: str) -> JavaObject:
    """The value of a private field."""
    declared = owner.getClass().getDeclaredField(name)
    declared.setAccessible(True)
    return declared.get(owner)


def collected(spark: SparkSession, is_gone: Callable[[], bool]) -> None:
    """Collect garbage on both sides, which hold each other's objects, until something is gone."""
    jvm: Any = spark._jvm
    for _ in range(50):
        gc.collect()
        jvm.java.lang.System.gc()
        if is_gone():
            return
        time.sleep(0.1)
    raise AssertionError("it is still there")


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
