"""The site in a real browser, from the disk: no error, no request to anywhere, search, and what axe finds."""

from __future__ import annotations

import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from chromium import Browser

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("index", "tutorial", "cli", "api")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "-q", "-d", str(built)], cwd=ROOT, check=True)
    return built


def violations(page: Browser) -> list[str]:
    """What axe-core finds that is serious or worse."""
    script = (resources.files("axe_core_python") / "axe.min.js").read_text("utf-8")
    # By the protocol of the developer tools, which no policy of the page holds back.
    page.cdp("Runtime.evaluate", expression=script)
    found: Any = page.cdp(
        "Runtime.evaluate",
        expression="axe.run().then(found => found.violations)",
        awaitPromise=True,
        returnByValue=True,
    )["result"]["value"]
    return [
        f"{one['id']}: {node['html'][:200]}: {node['failureSummary']}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("name", PAGES)
def test_pages_load_without_an_error_or_a_request(chromium: Browser, site: Path, name: str) -> None:
    chromium.size(1200)
    chromium.scheme("light")
    chromium.errors()
    chromium.requests()
    chromium.open(site / f"{name}.html")
    chromium.wait("document.readyState === 'complete'")
    assert chromium.errors() == []
    assert [url for url in chromium.requests() if not url.startswith(site.as_uri())] == []
    broken = "[...document.images].filter(image => image.complete && !image.naturalWidth).length"
    assert chromium.run(broken) == 0
    chromium.size(400)
    chromium.until(lambda: chromium.run("innerWidth") == 400, "a narrow window")
    assert chromium.run("document.documentElement.scrollWidth") <= 400


def test_search_works_from_the_disk(chromium: Browser, site: Path) -> None:
    chromium.size(1200)
    chromium.open(site / "index.html")
    chromium.driver.find_element("tag name", "body").send_keys("/")  # The theme's key for its search.
    box = chromium.driver.switch_to.active_element
    box.send_keys("maintain")
    found = chromium.wait("document.querySelectorAll('.md-search-result__item a').length")
    assert found >= 3
    assert chromium.run("document.querySelector('.md-search-result__item a').href").startswith(site.as_uri())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_the_report(chromium: Browser, report: Path, scheme: str) -> None:
    chromium.size(1000)
    chromium.scheme(scheme)
    chromium.open(report)
    chromium.draw()
    assert violations(chromium) == []


@pytest.mark.parametrize("name", PAGES[:3])
def test_axe_finds_nothing_serious_in_pages(chromium: Browser, site: Path, name: str) -> None:
    chromium.size(1200)
    chromium.scheme("light")
    chromium.open(site / f"{name}.html")
    chromium.wait("document.readyState === 'complete'")
    assert violations(chromium) == []
