"""Fixtures that every room's tests share."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
# Many JVMs that live for seconds: compiling less takes off two fifths of the time.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
settings.register_profile("zskip", deadline=None, print_blob=True)
settings.load_profile("zskip")


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    """A local Spark session, made once for all tests."""
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    from zskip.spark.jvm.java import ensure_java

    ensure_java()
    session = (
        SparkSession.builder.master("local[2]")
        .appName("zskip-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def unpack(tmp_path: Path) -> Callable[[str], Path]:
    """Unpacks a Hudi table of tests/data/hudi by its name."""

    def unpacked(name: str) -> Path:
        path = tmp_path / f"{name} ä"
        with zipfile.ZipFile(Path(__file__).with_name("data") / "hudi" / f"{name}.zip") as packed:
            packed.extractall(path)
        return path

    return unpacked


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark whatever asks for the session, so that another Spark can be tested by itself."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what is left out without the engines' jars."""
    if "ZSKIP_ENGINE_JARS" not in os.environ:
        terminalreporter.write_line(
            "tests/engines skipped: they need the engines' own jars (python3 dev.py test-engines)"
        )
