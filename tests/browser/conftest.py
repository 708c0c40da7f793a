"""One browser and one report for all tests, which `python3 dev.py test-browser` runs; else all is left out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import tables
from chromium import Browser, browser

import zskip
from zskip.records import Operation
from zskip.table.journal import record_operation
from zskip.table.version import open_version

collect_ignore_glob = [] if os.environ.get("ZSKIP_BROWSER") else ["test_*.py"]
ASKED = ["id < 100", "user = 3 AND day > DATE '2024-03-01'", "lower(name) = '</script>'", "score > 1", "id = 7"]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("report")
    table = zskip.open(str(tables.make_events(home / "<b>events", files=12)))
    table.index()
    return table.report(home / "report.html", workload=ASKED, by=["id", "user", "day"])


@pytest.fixture(scope="session")
def lake_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("lake")
    for i, files in enumerate((3, 20, 7)):
        table = zskip.open(str(tables.make_events(home / "lake" / f"t{i}", files=files)))
        table.index()
    (home / "lake" / "<b>broken").mkdir()
    (home / "lake" / "<b>broken" / "x.parquet").write_bytes(b"nothing")
    operation = Operation(
        version=1,
        time_ms=1_800_000_000_000,
        operation="maintain",
        by=("id",),
        rows=10,
        files_removed=3,
        files_added=1,
        bytes_removed=1000,
        bytes_added=900,
        seconds=1.0,
    )
    record_operation(open_version(table._handle), operation)
    return zskip.lake(None, str(home / "lake")).report(home / "lake.html")
