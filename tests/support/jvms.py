"""The JVMs of the tests: given room, watched, replaced when they die, and measured when they end."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest
import shared_classes

OPTIONS = (
    # Many JVMs that live for seconds: compiling less takes off two fifths of the time, but leaves 48 MB for code.
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    # One heap of code, so that no part of it can be full while there is room.
    " -XX:ReservedCodeCacheSize=512m -XX:-SegmentedCodeCache"
    " -XX:MaxMetaspaceSize=1g -XX:-CreateCoredumpOnCrash"
    # A tenth of the time went to collecting little garbage often, and to the `chmod` of each file that Hadoop writes.
    " -XX:MetaspaceSize=512m -XX:NewSize=256m -Djdk.lang.Process.launchMechanism=VFORK"
)
"""Of every JVM that a test starts; the end of a run says how much of it was needed."""
PYTHON_WORKERS = {
    "spark.python.daemon.module": "warm_daemon",
    "spark.executorEnv.PYTHONPATH": str(Path(__file__).parent),
}
"""Settings of every session that tests share."""
MOST = 60
"""Percent of the code cache that a run may fill."""
POOLS = {"CodeCache": "code cache", "Metaspace": "metaspace", "Tenured Gen": "old generation of the heap"}
FIXTURES = ("spark", "engine_spark")
LINES = 20


def options() -> str:
    """The options of a JVM, with those by which it shares classes."""
    return OPTIONS + shared_classes.options()


@dataclass
class Ended:
    """One JVM after its last test."""

    process: int
    java: str
    peaks: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Name of a pool to its peak and its limit, in bytes."""
    death: str = ""
    """What ended it, where that was not the end of the tests."""


@dataclass
class Running:
    """The JVM that runs now, and where its words go."""

    session: Any
    process: Any
    place: Path
    java: str
    said: int = 0
    """Bytes of output before the current test."""

    def alive(self) -> bool:
        """Whether it answers and its Spark runs."""
        try:
            return self.process.poll() is None and not self.session.sparkContext._jsc.sc().isStopped()
        except Exception:
            return False

    def output(self, since: int = 0) -> str:
        """The last lines of its output."""
        text = (self.place / "output.log").read_bytes()[since:].decode(errors="replace")
        return "\n".join(text.strip().splitlines()[-LINES:])

    def death(self) -> str:
        """How it ended, in its own words where it left any."""
        code = self.process.poll()
        if code is None:
            how = "does not answer, or its Spark was stopped"
        elif code < 0:
            how = f"was ended by {signal.Signals(-code).name}"
        else:
            how = f"ended with exit code {code}"
        parts = [f"The JVM {self.process.pid} {how}.", self.output() or "It said nothing."]
        for path in sorted(self.place.glob("hs_err*")):
            lines = path.read_text(errors="replace").splitlines()
            parts += [f"{path} begins:", *lines[:LINES]]
        return "\n".join(parts)


running: Running | None = None
given: tuple[pytest.FixtureDef[Any], pytest.FixtureRequest] | None = None
ended: list[Ended] = []


@contextmanager
def session(settings: Mapping[str, str], place: Path) -> Iterator[Any]:
    """A Spark session whose JVM is watched; place: an empty directory for what the JVM says."""
    global running
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    from zskip.spark.jvm.java import ensure_java
    from zskip.spark.jvm.session import silent_gateway

    java = ensure_java()
    conf = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        conf.set(name, value)
    conf.set("spark.ui.showConsoleProgress", "false")
    for name, value in PYTHON_WORKERS.items():
        conf.set(name, value)
    conf.set("spark.driver.extraJavaOptions", f'-XX:ErrorFile="{place}/hs_err.log"')
    with (place / "output.log").open("wb") as output:  # stays empty where a JVM runs already
        if SparkContext._gateway is None:
            SparkContext._ensure_initialized(gateway=silent_gateway(conf, output), conf=conf)
    made = SparkSession.builder.config(conf=conf).getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    shown = f"Java {made._jvm.System.getProperty('java.version')}, {java}"
    running = Running(made, SparkContext._gateway.proc, place, shown)
    yield made
    _end(running)
    running = None


def _end(jvm: Running) -> None:
    """Stop a session, or forget it where its JVM is dead, so that the next one gets a new JVM."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway = SparkContext._gateway
    if jvm.alive():
        ended.append(Ended(jvm.process.pid, jvm.java, _peaks(gateway)))
        jvm.session.stop()
        return
    ended.append(Ended(jvm.process.pid, jvm.java, death=jvm.death()))
    # None of it reaches the JVM; it closes what is left on this side.
    with suppress(Exception):
        jvm.session.stop()
    with suppress(Exception):
        gateway.shutdown()
    if jvm.process.poll() is None:
        jvm.process.kill()
        jvm.process.wait()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def _peaks(gateway: Any) -> dict[str, tuple[int, int]]:
    """The most that each pool of memory ever held, and its limit, in bytes."""
    java = gateway.jvm.java.lang
    # By the interface: the class of the beans is not open to reflection.
    bean = java.Class.forName("java.lang.management.MemoryPoolMXBean")
    nothing = gateway.new_array(gateway.jvm.Object, 0)
    peak = bean.getMethod("getPeakUsage", gateway.new_array(gateway.jvm.Class, 0))
    name = bean.getMethod("getName", gateway.new_array(gateway.jvm.Class, 0))
    found = {}
    for pool in java.management.ManagementFactory.getMemoryPoolMXBeans():
        usage = peak.invoke(pool, nothing)
        found[name.invoke(pool, nothing)] = (usage.getUsed(), usage.getMax())
    return {shown: found[pool] for pool, shown in POOLS.items() if pool in found}


def note(fixture: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> None:
    """Remember what made the session, to have it made again."""
    global given
    if fixture.argname in FIXTURES:
        given = (fixture, request)


def before() -> None:
    """Let go of a dead JVM with every fixture that needs it, so that the next test gets new ones."""
    if running is None or given is None:
        return
    if running.alive():
        running.said = (running.place / "output.log").stat().st_size
        return
    fixture, request = given
    # What these fixtures would clean up in the JVM is gone with it.
    with suppress(Exception):
        fixture.finish(request)  # type: ignore[arg-type]


def explain(report: pytest.TestReport) -> None:
    """Add to a failure what the JVM said meanwhile, and what ended it if it is dead."""
    if running is None or not report.failed:
        return
    if not running.alive():
        report.sections.append(("the JVM died", running.death()))
    elif said := running.output(running.said):
        report.sections.append(("what the JVM said", said))


def records() -> list[dict[str, Any]]:
    """The JVMs that have ended, for another process."""
    return [asdict(jvm) for jvm in ended]


def summary(worker: str, jvm: dict[str, Any]) -> str:
    """One line on a JVM, or how it died."""
    if jvm["death"]:
        return f"{worker}: {jvm['death']}"
    peaks = ", ".join(
        f"{name} {peak >> 20} of {limit >> 20} MiB ({_percent(peak, limit)} %)"
        for name, (peak, limit) in jvm["peaks"].items()
    )
    return f"{worker}: JVM {jvm['process']}, {jvm['java']}: peak of {peaks}"


def is_full(jvm: dict[str, Any]) -> bool:
    """Whether a JVM was near the end of its room for code."""
    return any(name == "code cache" and _percent(*values) > MOST for name, values in jvm["peaks"].items())


def _percent(peak: int, limit: int) -> int:
    return round(100 * peak / limit) if limit > 0 else 0


def header() -> str:
    """The Java that the tests run on; it becomes that of every process which they start."""
    from zskip.errors import ZskipError
    from zskip.spark.jvm.java import ensure_java, java_version

    try:
        home = ensure_java()
    except ZskipError as error:
        return f"java: {error}"
    return f"java: {java_version(Path(home))}, JAVA_HOME={home}"
