"""One browser and one report for all tests, which `python3 dev.py test-browser` runs; else all is left out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import tables
from chromium import Browser, browser

import zskip

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
