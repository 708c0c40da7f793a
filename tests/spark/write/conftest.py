"""What the tests of rewrites through Arrow share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

_CALENDARS = [
    f"spark.sql.parquet.{kind}RebaseModeIn{way}" for kind in ("datetime", "int96") for way in ("Read", "Write")
]


@pytest.fixture(scope="module", autouse=True)
def proleptic_calendar(request: pytest.FixtureRequest) -> Iterator[None]:
    """Days before 1582 as they are, which Spark 3.5 refuses by default and leaves no rewrite to Arrow for."""
    if request.module.__name__.rpartition(".")[2] not in ("test_arrow_attempts", "test_arrow_types"):
        yield
        return
    conf = request.getfixturevalue("spark").conf
    before = {name: conf.get(name) for name in _CALENDARS}
    for name in _CALENDARS:
        conf.set(name, "CORRECTED")
    yield
    for name, mode in before.items():
        conf.set(name, mode)
