"""Filters of scans as predicates, which are parsed once."""

from __future__ import annotations

import pytest

from zskip.predicate import Unknown, parse
from zskip.records import Field
from zskip.spark.scan.bridge import filters
from zskip.spark.scan.bridge.filters import Filters
from zskip.types import DataType

FIELDS = [Field(name="a", type=DataType("long")), Field(name="B", type=DataType("string"))]


def read(*sql: str, **changes: object) -> Filters:
    return Filters(**{"sql": sql, "columns": {"t.a": "a", "t.B": "B"}, "timezone": "UTC", **changes})  # type: ignore[arg-type]


def test_a_filter_that_comes_again_is_not_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def count(sql: str, *arguments: object, **options: object) -> object:
        parsed.append(sql)
        return parse(sql, *arguments, **options)  # type: ignore[arg-type]

    filters._parse.cache_clear()
    monkeypatch.setattr(filters, "parse", count)
    first = read("t.a > 1", "t.B = 'x'").predicate(FIELDS, case_sensitive=False)
    assert read("t.a > 1", "t.B = 'x'").predicate(list(FIELDS), case_sensitive=False) is first
    assert parsed == ["t.a > 1", "t.B = 'x'"]
    long = f"t.B = '{'x' * filters._LONGEST}'"
    for _ in range(2):
        read(long).predicate(FIELDS, case_sensitive=False)
    assert parsed[2:] == [long, long], "what takes much memory is not kept"


def test_what_a_text_means_depends_on_more_than_the_text() -> None:
    time = "t.a > TIMESTAMP '2024-01-01 00:00:00'"
    times = [Field(name="a", type=DataType("timestamp"))]
    here, there = (read(time, timezone=zone).predicate(times, case_sensitive=False) for zone in ("UTC", "Asia/Tokyo"))
    assert here != there
    text = read("t.a > 1")
    assert text.predicate(FIELDS, case_sensitive=False) != text.predicate(
        [Field(name="a", type=DataType("double"))], case_sensitive=False
    )
    assert isinstance(read("t.a > 1", foreign=frozenset([0])).predicate(FIELDS, case_sensitive=False), Unknown)
    upper = read("t.b = 'x'", columns={"t.b": "b"})
    assert isinstance(upper.predicate(FIELDS, case_sensitive=True), Unknown)
    assert not isinstance(upper.predicate(FIELDS, case_sensitive=False), Unknown)
