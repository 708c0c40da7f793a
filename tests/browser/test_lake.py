"""The page of a lake in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from chromium import Browser


@pytest.fixture
def page(chromium: Browser, lake_report: Path) -> Browser:
    chromium.size(1200)
    chromium.scheme("light")
    chromium.errors()
    chromium.requests()
    chromium.open(lake_report)
    chromium.draw()
    return chromium


def test_it_draws_each_table_and_asks_for_nothing(page: Browser, lake_report: Path) -> None:
    assert page.run("document.documentElement.dataset.drawn") == "1"
    assert page.errors() == []
    assert page.requests() == [lake_report.as_uri()]
    bars = "document.querySelectorAll('#chart-tables .trace.bars')"
    assert [page.run(f"{bars}[{i}].querySelectorAll('.point').length") for i in range(2)] == [3, 3]
    assert page.run("document.querySelectorAll('#tables tbody tr').length") == 4
    assert page.run("document.querySelectorAll('#operations tbody tr').length") == 1
    assert "<b>broken" in page.run("document.querySelector('#tables tbody tr:last-child td').textContent")
    assert page.run("document.querySelectorAll('main b').length") == 0


def test_links_lead_to_the_tables_own_pages(page: Browser) -> None:
    links = page.run("[...document.querySelectorAll('#tables a')].map(link => [link.href, link.textContent])")
    assert len(links) == 3
    for link, name in links:
        page.open(link)
        page.wait("document.documentElement.dataset.drawn")
        assert page.run("document.querySelector('h1').textContent") == name


@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_any_window(page: Browser, width: int, scheme: str) -> None:
    page.size(width)
    page.scheme(scheme)
    page.until(lambda: page.run("document.documentElement.scrollWidth") <= width, "no sideways scrolling")
