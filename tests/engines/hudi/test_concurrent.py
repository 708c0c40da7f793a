"""zskip's optimize of Hudi tables while others write, and killed in the middle.

ZSKIP_HUDI_ROUNDS in the environment says how many rounds each random writer makes.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import tiers

import zskip
from zskip.errors import ConflictError
from zskip.formats.hudi.timeline import read_timeline
from zskip.storage import LocalStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS = int(os.environ.get("ZSKIP_HUDI_ROUNDS", "3"))
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.metadata.enable": "false",
    "hoodie.parquet.small.file.limit": "0",
}
pytestmark = pytest.mark.slow
GUARDED = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
}
Rows = dict[int, int]
"""What the table holds: ids and versions of rows."""
ROWS: Rows = dict.fromkeys(range(12), 1)
"""Of the tables whose optimize is killed."""


def write(spark: SparkSession, path: Path, rows: Rows, operation: str, **options: str) -> None:
    values = ", ".join(f"({key}L, {version}L, {key % 2})" for key, version in rows.items())
    frame = spark.sql(f"SELECT * FROM VALUES {values} AS t(id, ts, p)").coalesce(1)
    given = {**OPTIONS, **options, "hoodie.datasource.write.operation": operation}
    frame.write.format("hudi").options(**given).mode("append").save(str(path))


def held(spark: SparkSession, path: Path) -> list[tuple[int, int]]:
    """Ids and versions as Hudi reads them; not a dict, since a row may be there twice."""
    return sorted((row.id, row.ts) for row in spark.read.format("hudi").load(str(path)).collect())


class RandomWriter:
    """Does one random thing to a table, and knows what the table may hold afterwards."""

    def __init__(self, spark: SparkSession, path: Path, options: dict[str, str]) -> None:
        self._spark = spark
        self._path = path
        self._options = options
        self._random = random.Random(7)
        self._next = 1000
        self.after: Rows = {}
        self.failed = False
        self.did = ""

    def choose(self, rows: Rows) -> threading.Thread:
        """Choose what to do; `after` is what the table then holds."""
        draw, some = self._random, sorted(rows)
        self.did = draw.choice(("insert", "upsert", "delete", "optimize"))
        few = {key: rows[key] + 1 for key in draw.sample(some, min(3, len(some)))}
        if self.did == "insert":
            few = {self._next + i: 1 for i in range(2)}
            self._next += 2
        gone = set(few) if self.did == "delete" else set()
        self.after = {key: version for key, version in {**rows, **few}.items() if key not in gone}
        if self.did == "optimize":
            self.after = rows
        self.failed = False

        def run() -> None:
            try:
                if self.did == "optimize":
                    zskip.table(self._spark, str(self._path)).optimize(by=["ts", "id"], files=3)
                else:
                    write(self._spark, self._path, few, self.did, **self._options)
            except Exception:
                self.failed = True

        return threading.Thread(target=run)


@pytest.mark.nightly
@pytest.mark.parametrize("options", [GUARDED, {}], ids=["guarded", "unguarded"])
def test_a_random_writer_and_the_optimizer_never_lose_or_double_a_row(
    options: dict[str, str], engine_spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    rows: Rows = dict.fromkeys(range(20), 1)
    write(engine_spark, path, rows, "bulk_insert")
    writer, conflicts = RandomWriter(engine_spark, path, options), 0
    for number in range(ROUNDS):
        thread = writer.choose(rows)
        thread.start()
        try:
            zskip.table(engine_spark, str(path)).optimize(by=["id"], curve="linear", files=2 + number % 3)
        except ConflictError:
            conflicts += 1
        thread.join()
        found = held(engine_spark, path)
        # What fails may have been committed before it failed.
        possible = [sorted(writer.after.items())] + ([sorted(rows.items())] if writer.failed else [])
        assert found in possible, (number, writer.did, writer.failed)
        rows = dict(found)
        table = zskip.table(engine_spark, str(path))
        assert sorted((row.id, row.ts) for row in table.df().collect()) == found
    print(f"{ROUNDS} rounds, {conflicts} conflicts")
    # Hudi's next write rolls back what is left of those that failed, and nothing is in the way any more.
    write(engine_spark, path, {5000: 1}, "insert", **options)
    zskip.table(engine_spark, str(path)).optimize(by=["id"], curve="linear", files=2)
    assert held(engine_spark, path) == [*sorted(rows.items()), (5000, 1)]


SCRIPT = """
import json, sys, time
from pathlib import Path
from pyspark.sql import SparkSession
import zskip
from zskip.spark.formats.hudi.commits import HudiEngine

path, place, jars, arguments, calls = sys.argv[1:]
spark = (SparkSession.builder.master("local[1]").config("spark.jars", jars).config("spark.ui.enabled", "false")
    .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer").getOrCreate())
place = Path(place)
(place / "pid").write_text(str(spark.sparkContext._gateway.proc.pid))
(place / "pid").rename(place / "java")

def stop_at(name):
    done, called = getattr(HudiEngine, name), []

    def stopped(*arguments):
        called.append(name)
        (place / f"{name} {len(called)}").touch()
        while not (place / f"{name} {len(called)} over").exists():
            time.sleep(0.001)
        return done(*arguments)

    setattr(HudiEngine, name, stopped)

for name in calls.split(","):
    stop_at(name)
zskip.table(spark, path).optimize(**json.loads(arguments))
"""
STEPS = {
    "staged": ".hoodie/zskip/staging/*/_*",
    "requested": ".hoodie/**/*.replacecommit.requested",
    "noted": ".hoodie/zskip/staging/*/_instant",
    "inflight": ".hoodie/**/*.replacecommit.inflight",
    "first file": "[01]/*.parquet",
    "all files": "_check_written",
    "about to commit": "_complete",
    "committed": ".hoodie/**/*_*.replacecommit",
    "looked again": "_check_after",
    "index": ".hoodie/zskip/index/**/*.zskip",
}
"""The first new file, or the call, at which a process stops or is killed, in the order in which they come."""
COMMITTED = ("committed", "looked again", "index")
DAILY = ("inflight", "about to commit", "committed")
WRITTEN = ("first file", "all files", "about to commit", *COMMITTED)


class Optimizer:
    """An optimize in processes of its own, which wait at some calls, and can be stopped at any moment and killed."""

    def __init__(self, path: Path, arguments: dict[str, Any], calls: list[str]) -> None:
        self._place = path.with_name(f"{path.name} optimizer")
        self._place.mkdir()
        script, self._output = self._place / "script.py", self._place / "said"
        script.write_text(SCRIPT)
        jars = ",".join(os.environ["ZSKIP_ENGINE_JARS"].split(os.pathsep))
        call = [sys.executable, script, path, self._place, jars, json.dumps(arguments), ",".join(calls)]
        # Not a pipe: what a killed Java was about to start may hold on to it.
        with self._output.open("w") as said:
            self._process = subprocess.Popen([str(word) for word in call], stdout=said, stderr=said)
        self.wait(lambda: (self._place / "java").exists())
        self._pids = int((self._place / "java").read_text()), self._process.pid

    def wait(self, reached: Callable[[], bool]) -> None:
        """Look again and again until it has come so far."""
        deadline = time.monotonic() + 300
        while not reached():
            assert self._process.poll() is None, self._output.read_text()[-2000:]
            assert time.monotonic() < deadline, self._output.read_text()[-2000:]
            time.sleep(0.0005)

    def wait_for(self, call: str, number: int = 1) -> None:
        """Wait until it is about to do a call for the so many-th time."""
        self.wait(lambda: (self._place / f"{call} {number}").exists())

    def let_go(self, call: str, number: int = 1) -> None:
        """Have it do the call at which it waits."""
        (self._place / f"{call} {number} over").touch()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Neither of its processes does anything meanwhile."""
        self._send(signal.SIGSTOP)
        self.wait(lambda: all(_state(pid) == "T" for pid in self._pids))
        yield
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once."""
        self._send(signal.SIGKILL)
        self._process.wait()

    def _send(self, number: signal.Signals) -> None:
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.fixture(scope="module")
def moments(engine_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The table as a kill at each step of one optimize leaves it: copies, made while its processes are stopped."""
    place = tmp_path_factory.mktemp("moments")
    path = place / "t"
    write(engine_spark, path, ROWS, "bulk_insert")
    before = set(path.rglob("*"))
    calls = [step for step in STEPS.values() if step.startswith("_")]
    optimizer = Optimizer(path, {"by": ["id", "ts"], "files": 3}, calls)
    try:
        for name, step in STEPS.items():
            if step in calls:
                optimizer.wait_for(step)
            else:
                optimizer.wait(lambda step=step: any(file not in before for file in path.glob(step)))  # type: ignore[misc]
            with optimizer.stopped():
                shutil.copytree(path, place / name)
            if step in calls:
                optimizer.let_go(step)
    finally:
        optimizer.kill()
    return {name: place / name for name in STEPS}


@pytest.mark.parametrize("step", tiers.nightly(sorted(STEPS, key=lambda step: step not in DAILY), daily=len(DAILY)))
def test_killed_at_any_step_nothing_is_lost_and_the_next_one_cleans_up(
    step: str, engine_spark: SparkSession, moments: dict[str, Path], tmp_path: Path
) -> None:
    path, rows = tmp_path / "t", ROWS
    # As files of this moment, since Hudi looks at the age of heartbeats.
    shutil.copytree(moments[step], path, copy_function=shutil.copyfile)
    assert held(engine_spark, path) == sorted(rows.items())
    table = zskip.table(engine_spark, str(path))
    assert table.df().count() == len(rows)
    looked = read_timeline(LocalStorage(str(path)))
    committed = step in COMMITTED
    assert len(looked.complete) == 1 + committed
    known = bool(list(path.glob(".hoodie/zskip/staging/*/_instant")))
    dead = set(path.glob("[01]/*.parquet")) - {Path(file) for file in table.files()}
    assert bool(dead) == (step in WRITTEN)
    result = table.optimize(by=["id"], curve="linear", files=2)
    assert held(engine_spark, path) == sorted(rows.items())
    assert not list((path / ".hoodie" / "zskip" / "staging").iterdir())
    # Without a note of its instant Hudi finds it itself, by its heartbeat; nothing has been written then.
    assert known or not dead or committed
    assert not read_timeline(LocalStorage(str(path))).pending or not known
    if not committed:
        assert not {file for file in dead if file.exists()}
    assert result.files_after == 2 == len(table.files())
    write(engine_spark, path, {99: 1}, "insert", **GUARDED)
    assert held(engine_spark, path) == [*sorted(rows.items()), (99, 1)]


@pytest.mark.parametrize("step", tiers.nightly(["_complete", "_check_after"]))
def test_of_batches_that_are_killed_those_that_are_committed_stay(
    step: str, engine_spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    rows = ROWS
    write(engine_spark, path, rows, "bulk_insert")
    table = zskip.table(engine_spark, str(path))
    most = max(Path(file).stat().st_size for file in table.files())
    arguments = {"by": ["id"], "curve": "linear", "files": 2, "max_batch": most}
    optimizer = Optimizer(path, arguments, [step])
    try:
        optimizer.wait_for(step)
        optimizer.let_go(step)
        optimizer.wait_for(step, 2)
    finally:
        optimizer.kill()
    assert held(engine_spark, path) == sorted(rows.items())
    done = table.optimize(**arguments)
    before = 1 if step == "_complete" else 2
    assert (done.batches, done.batches_before) == (2 - before, before)
    assert held(engine_spark, path) == sorted(rows.items())
    write(engine_spark, path, {99: 1}, "insert", **GUARDED)
    assert held(engine_spark, path) == [*sorted(rows.items()), (99, 1)]
