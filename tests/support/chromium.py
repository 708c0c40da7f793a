"""A headless Chromium for the tests of pages: what a page logs, asks for, and draws."""

from __future__ import annotations

import base64
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")


class Browser:
    """One window."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def size(self, width: int, height: int = 1000) -> None:
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def scheme(self, name: str) -> None:
        self.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def cdp(self, command: str, **arguments: Any) -> Any:
        return self.driver.execute_cdp_cmd(command, arguments)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(f"return {script}", *arguments)

    def open(self, page: Path | str) -> None:
        self.driver.get(page if isinstance(page, str) else page.as_uri())

    def draw(self) -> None:
        """Have a report draw all its charts, as before it is printed."""
        self.wait("document.documentElement.dataset.drawn")
        self.driver.execute_script("window.dispatchEvent(new Event('beforeprint'))")
        self.wait("[...document.querySelectorAll('.chart')].every(box => box.querySelector('svg'))")

    def wait(self, script: str, seconds: float = 60) -> Any:
        """The value of an expression as soon as it is true."""
        return self.until(lambda: self.run(script), script, seconds)

    def until(self, test: Callable[[], Any], what: str, seconds: float = 60) -> Any:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            found = test()
            if found:
                return found
            time.sleep(0.05)
        raise TimeoutError(f"{what} is not so after {seconds} s")

    def errors(self) -> list[str]:
        """What the page has logged since the last call, warnings and errors."""
        return [e["message"] for e in self.driver.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]

    def requests(self) -> list[str]:
        """What was asked for since the last call, what lies in the page itself left out."""
        events = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return [url for url in asked if not url.startswith(("data:", "blob:"))]

    def pdf(self) -> bytes:
        return base64.b64decode(self.cdp("Page.printToPDF", printBackground=True)["data"])

    def picture(self, path: Path, height: int | None = None) -> None:
        """A screenshot of the whole page, or of so many pixels from its top."""
        width = self.run("innerWidth")
        self.size(width, height or self.run("document.documentElement.scrollHeight"))
        time.sleep(0.5)
        self.driver.save_screenshot(str(path))


@contextmanager
def browser() -> Iterator[Browser]:
    """Start one; raises LookupError where Chromium or its driver is not installed."""
    if CHROMIUM is None or DRIVER is None:
        raise LookupError("Chromium and its driver are not installed: apt-get install chromium chromium-driver")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
