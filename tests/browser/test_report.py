"""The report in a real browser: it draws all it has, asks for nothing, and can be read anywhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from chromium import Browser

DRAWN = "document.documentElement.dataset.drawn"


@pytest.fixture
def page(chromium: Browser, report: Path) -> Browser:
    """The report, opened anew and drawn."""
    chromium.size(1000)
    chromium.scheme("light")
    chromium.errors()
    chromium.requests()
    chromium.open(report)
    chromium.draw()
    return chromium


def marks(page: Browser, chart: str, kind: str) -> int:
    return int(page.run("document.querySelectorAll(arguments[0]).length", f"#{chart} {kind}"))


def test_it_loads_without_an_error_or_a_request(page: Browser, report: Path) -> None:
    assert page.run(DRAWN) != "failed"
    assert page.errors() == []
    assert page.requests() == [report.as_uri()]
    assert page.run("document.getElementById('trouble').hidden") is True
    assert page.run("document.querySelector('h1').textContent").endswith("<b>events")


def test_charts_have_a_mark_for_each_figure(page: Browser, report: Path) -> None:
    data = json.loads(re.findall(r'<script type="application/json" id="data">(.*?)</script>', report.read_text())[0])
    shown = page.run("[...document.querySelectorAll('[data-figure]')].map(box => box.dataset.figure)")
    page.until(lambda: int(page.run(DRAWN)) == len(shown) + 1, "all charts")
    assert marks(page, "picture", ".bars .point") == len(data["figures"]["files-0-1"]["data"][0]["x"]) == 12
    assert marks(page, "chart-sizes", ".bars .point") == len(data["figures"]["sizes"]["data"][0]["y"])
    assert marks(page, "chart-reads", ".scatterlayer .point") == 5
    for i in range(3):
        assert marks(page, f"chart-depth-{i}", ".scatterlayer .js-line") == 1
    assert marks(page, "chart-prunings", ".trace.bars") == 4


def test_charts_are_drawn_when_they_come_near(chromium: Browser, report: Path) -> None:
    chromium.size(1000, 500)
    chromium.open(report)
    first = int(chromium.wait(DRAWN))
    every = chromium.run("document.querySelectorAll('.chart').length")
    assert 0 < first < every
    chromium.driver.execute_script("document.querySelector('#chart-prunings').scrollIntoView()")
    chromium.wait("document.querySelector('#chart-prunings svg') !== null")
    found = chromium.pdf()
    assert found.startswith(b"%PDF-")
    assert chromium.run("[...document.querySelectorAll('.chart')].every(box => box.querySelector('svg'))")
    assert chromium.errors() == []


def test_the_picture_follows_its_choices(page: Browser) -> None:
    def choose(name: str, value: str) -> None:
        page.run(
            "(e => { e.value = arguments[1]; e.dispatchEvent(new Event('change')); })"
            "(document.getElementById(arguments[0]))",
            name,
            value,
        )

    title = "document.querySelector('#picture .{}title').textContent"
    assert page.wait(title.format("x")) == "id"
    choose("x", "2")
    page.until(lambda: page.run(title.format("x")) == "day", "the axis")
    assert page.run(title.format("y")) == "user"
    choose("y", "2")  # The other gives way.
    page.until(lambda: page.run(title.format("y")) == "day", "the axis")
    assert page.run(title.format("x")) == "user"
    choose("color", "cover")
    page.wait("document.querySelector('#picture .heatmaplayer image') !== null")
    choose("color", "reads")
    page.until(lambda: marks(page, "picture", ".bars .point") == 12, "rectangles")
    assert page.errors() == []


def test_a_click_lists_the_file(page: Browser) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    box = page.driver.find_element("css selector", "#picture .nsewdrag")
    page.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", box)
    ActionChains(page.driver).move_to_element(box).pause(0.3).click().perform()
    line = page.wait("document.querySelector('#picked li')?.textContent")
    assert re.search(r"part-\d{5}\.parquet — .* rows; id: \d+ to \d+; user: ", line)
    hover = page.run("document.querySelector('#picture .hovertext')?.textContent")
    assert "part-000" in hover


@pytest.mark.parametrize("width", [400, 1000])
def test_nothing_is_wider_than_the_window(page: Browser, width: int) -> None:
    page.size(width)
    page.until(lambda: page.run("document.querySelector('#picture svg').clientWidth") < width, "drawn anew")
    assert page.run("document.documentElement.scrollWidth") <= width
    boxes = "[...document.querySelectorAll('p, h2, figure')].map(e => e.getBoundingClientRect())"
    for left, right in page.run(f"{boxes}.map(box => [box.left, box.right])"):
        assert 0 <= left <= right <= width


def test_it_is_dark_where_the_system_is(page: Browser) -> None:
    def brightness(css: str) -> float:
        return sum(map(int, re.findall(r"\d+", css)[:3])) / 3

    text = "getComputedStyle(document.querySelector('#picture .xtick text')).fill"
    background = "getComputedStyle(document.body).backgroundColor"
    assert brightness(page.run(background)) > 200
    assert brightness(page.run(text)) < 80
    page.scheme("dark")
    page.until(lambda: brightness(page.run(text)) > 180, "light letters in the charts")
    assert brightness(page.run(background)) < 60


def test_all_controls_are_reached_by_keyboard(page: Browser) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    page.driver.execute_script("document.activeElement.blur(); window.scrollTo(0, 0)")
    seen = []
    for _ in range(12):
        ActionChains(page.driver).send_keys(Keys.TAB).perform()
        seen.append(page.run("document.activeElement.id || document.activeElement.tagName"))
    assert [name for name in seen if name in ("x", "y", "color", "SUMMARY")][:4] == ["x", "y", "color", "SUMMARY"]
    for control in page.run("[...document.querySelectorAll('select')].map(e => e.labels.length)"):
        assert control == 1


def test_it_can_be_printed(page: Browser) -> None:
    page.scheme("dark")
    found = page.pdf()
    assert found.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b", found)) >= 2
    assert page.errors() == []
