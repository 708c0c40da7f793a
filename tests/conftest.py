"""Fixtures that every room's tests share."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import hypothesis
import jvms
import pytest
import shared_classes
import tiers
from session_settings import settings

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_SUBMIT_OPTS", jvms.options())
pytest.register_assert_rewrite("storage_laws")
hypothesis.settings.register_profile("zskip", deadline=None, print_blob=True)
hypothesis.settings.load_profile("zskip")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """A local Spark session, made once for all tests, and again where its JVM has died."""
    pytest.importorskip("pyspark")
    if "SPARK_REMOTE" in os.environ:  # connected_suite.py started this process.
        from pyspark.sql import SparkSession

        connected = SparkSession.builder.getOrCreate()
        yield connected
        connected.stop()
        return
    options = {
        "spark.master": "local[2]",
        "spark.app.name": "zskip-tests",
        "spark.ui.enabled": "false",
        "spark.sql.ui.explainMode": "simple",
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.memory": "3g",
        "spark.sql.session.timeZone": "UTC",
    }
    with jvms.session(options, tmp_path_factory.mktemp("jvm")) as session:
        yield session


@pytest.fixture
def conf(spark: Any) -> Iterator[Callable[[str, str], None]]:
    """Changes a setting of the session until the test ends."""
    with ExitStack() as stack:
        yield lambda name, value: stack.enter_context(settings(spark, **{name: value}))


@pytest.fixture
def unpack(tmp_path: Path) -> Callable[[str], Path]:
    """Unpacks a Hudi table of tests/data/hudi by its name."""

    def unpacked(name: str) -> Path:
        path = tmp_path / f"{name} ä"
        with zipfile.ZipFile(Path(__file__).with_name("data") / "hudi" / f"{name}.zip") as packed:
            packed.extractall(path)
        return path

    return unpacked


def pytest_configure(config: pytest.Config) -> None:
    """Before the processes of a run start, make the archive of classes that their JVMs share."""
    is_run = getattr(config.option, "numprocesses", None) and not config.option.collectonly
    if is_run and os.environ["SPARK_SUBMIT_OPTS"] == jvms.OPTIONS:
        shared_classes.make()
        os.environ["SPARK_SUBMIT_OPTS"] = jvms.options()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import files in which there is nothing for `--rest`, unless a test is named."""
    is_test = collection_path.suffix == ".py" and collection_path.name != "conftest.py"
    if not is_test or any("::" in name for name in config.args):
        return None
    return None if tiers.may_select(collection_path.read_text(encoding="utf-8")) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests that ask for the session, so that another Spark can be tested by itself; leave out other tiers."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
    if any("::" in name for name in config.args):
        return  # A test that is named runs.
    selected = tiers.select(items)
    if left_out := list(set(items) - set(selected)):
        config.hook.pytest_deselected(items=left_out)
        items[:] = selected
    items.sort(key=_rank(items))


def _rank(items: list[pytest.Item]) -> Callable[[pytest.Item], int]:
    """Order files by the time they take, so that the processes of a run end at the same time.

    The fuzzing of queries takes one process half of the time of `dev.py test --nightly`, and the others do the rest
    meanwhile. The many short files without Spark come last.
    """
    long = {item.path for item in items if any(map(item.get_closest_marker, ("spark", "slow")))}
    return lambda item: 0 if item.path.name == "test_query_fuzz.py" else 1 if item.path in long else 2


def pytest_report_header() -> str:
    """Name the Java that all tests run on."""
    return jvms.header()


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> None:
    """Know what made the session."""
    jvms.note(fixturedef, request)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """A test does not get the dead JVM of the one before."""
    jvms.before()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Any:
    """A test that failed for its JVM says so."""
    report = yield
    jvms.explain(report)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the JVMs of a worker over to the process that started it; a run that all but filled one has failed."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["jvms"] = jvms.records()
        return
    RUN.extend(("this process", jvm) for jvm in jvms.records())
    if any(jvms.is_full(jvm) for _, jvm in RUN):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the JVMs of a worker that is done; of one that crashed there is nothing."""
    RUN.extend((node.gateway.id, jvm) for jvm in getattr(node, "workeroutput", {}).get("jvms", ()))


RUN: list[tuple[str, dict[str, Any]]] = []
"""The JVMs of all processes of this run, each with its process's name."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much room the JVMs needed, and what is left out without the engines' jars or a browser."""
    for worker, jvm in RUN:
        terminalreporter.write_line(jvms.summary(worker, jvm))
        if jvms.is_full(jvm):
            terminalreporter.write_line(
                f"failed: the code cache was more than {jvms.MOST} % full; give it more in tests/support/jvms.py",
                red=True,
            )
    if "ZSKIP_ENGINE_JARS" not in os.environ:
        terminalreporter.write_line(
            "tests/engines skipped: they need the engines' own jars (python3 dev.py test-engines)"
        )
    if "ZSKIP_STORE_JARS" not in os.environ:
        terminalreporter.write_line("tests/stores with Spark skipped: they need jars (python3 dev.py test-stores)")
    if "ZSKIP_BROWSER" not in os.environ:
        terminalreporter.write_line("tests/browser skipped: they need Chromium (python3 dev.py test-browser)")
