"""A JVM that dies takes its test with it and no other, and says of what; the end of a run says how full it was."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import jvms
import pytest

import zskip

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no signals to send")
TESTS = """
import os, signal, time
import pytest

@pytest.fixture(scope="module")
def frame(spark):
    made = spark.range(3)
    yield made
    made.count()  # fails where the JVM is dead

def end(spark, how):
    process = spark.sparkContext._gateway.proc
    os.kill(process.pid, how)
    process.wait()

def test_first(frame):
    assert frame.count() == 3

def test_segfault(spark, frame):
    end(spark, signal.SIGSEGV)
    frame.count()

def test_second(spark, frame):
    assert frame.count() == 3

def test_killed_unseen(spark):
    end(spark, signal.SIGKILL)

def test_third(spark, frame):
    assert frame.count() == 3

def test_stopped(spark):
    spark.stop()

def test_fourth(frame):
    assert frame.count() == 3

def test_wrong(spark, frame):
    spark._jvm.System.out.println("last words of the JVM")
    assert frame.count() == 4
"""


def run(tmp_path: Path) -> tuple[str, dict[str, str]]:
    """What a worker of its own prints with the fixtures of these tests, and the outcome of each test."""
    (tmp_path / "test_probe.py").write_text(TESTS)
    sources = (Path(zskip.__file__).parents[1], ROOT / "tests", ROOT / "tests" / "support")
    options = ["-v", "-n", "1", "-p", "conftest", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "a b")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--rootdir", str(tmp_path), *options, str(tmp_path / "test_probe.py")],
        env={**os.environ, "ZSKIP_TIER": "all", "PYTHONPATH": os.pathsep.join(map(str, sources))},
        cwd=tmp_path, capture_output=True, text=True, timeout=800, check=False,
    )  # fmt: skip
    outcomes = re.findall(r"test_probe\.py::(\w+) (PASSED|FAILED|ERROR)|(PASSED|FAILED|ERROR) \S*::(\w+)", done.stdout)
    return done.stdout + done.stderr, {a or d: b or c for a, b, c, d in outcomes}


@pytest.mark.spark
@pytest.mark.nightly  # A JVM for each death.
def test_a_dead_jvm_costs_the_test_that_ran_in_it(tmp_path: Path) -> None:
    shown, found = run(tmp_path)
    wanted = dict.fromkeys(re.findall(r"def (test_\w+)", TESTS), "PASSED")
    assert found == wanted | {"test_segfault": "FAILED", "test_wrong": "FAILED"}, shown
    failures = shown.partition("= FAILURES =")[2].partition("short test summary")[0]
    assert "- the JVM died -" in failures
    assert re.search(r"JVM \d+ (ended with exit code 1|was ended by SIGABRT)\.", failures)
    assert "A fatal error has been detected by the Java Runtime Environment" in failures
    assert "hs_err.log begins:" in failures
    assert re.search(r"- what the JVM said -+\nlast words of the JVM\n", failures)
    # A worker hands over what its JVMs were.
    assert re.search(r"gw0: The JVM \d+ was ended by SIGKILL\.", shown), shown
    assert re.search(r"gw0: JVM \d+, Java [\d.]+.*: peak of code cache \d+ of 512 MiB \(\d+ %\), metaspace", shown), (
        shown
    )


def test_a_run_that_all_but_fills_the_code_cache_is_told() -> None:
    half, most = {"peaks": {"code cache": (50, 100)}}, {"peaks": {"metaspace": (99, 100), "code cache": (61, 100)}}
    assert not jvms.is_full(half)
    assert jvms.is_full(most)


def test_a_run_says_which_java_it_is_on(pytestconfig: pytest.Config) -> None:
    """`.ci/run` reads this line."""
    header = pytestconfig.hook.pytest_report_header(config=pytestconfig, start_path=ROOT)
    texts = [text for text in header if isinstance(text, str)]
    assert any(re.match(r"java: (\d+, JAVA_HOME=|Spark needs Java)", text) for text in texts)
