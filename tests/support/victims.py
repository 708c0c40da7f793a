"""Processes with Spark that are killed in the middle of a change to a table, at a fraction of what a JVM each costs.

One process starts the JVM and forks another for each call; the fork talks to the JVM by connections of its own.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import pkgutil
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import format_tables
import jvms
from crashes import Countdown

import zskip
from zskip.storage import LocalStorage

Call = tuple[str, str, str, dict[str, Any], float]
"""Format, path of the table, method of `Table` or "write", its arguments, and the step before which the process is
killed, or, as a float, the seconds after which it is."""


class Victim:
    """Runs calls of `Table` in processes that are killed."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def call(self, form: str, path: Path, method: str, arguments: dict[str, Any], step: float) -> dict[str, Any] | None:
        """What the call says of itself; None where its process was killed before the step."""
        self._connection.send((form, str(path), method, arguments, step))
        status, said = self._connection.recv()
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            return None
        if os.waitstatus_to_exitcode(status):
            raise AssertionError(said)
        return dict(json.loads(said))


@contextmanager
def victim(place: Path) -> Iterator[Victim]:
    """place: an empty directory."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, str(place)), daemon=True)
    process.start()
    theirs.close()
    try:
        yield Victim(ours)
    finally:
        ours.close()
        process.join(30)
        process.kill()


def _serve(connection: Any, place: str) -> None:
    os.environ["SPARK_SUBMIT_OPTS"] = jvms.options()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    from zskip.spark.jvm.java import ensure_java

    ensure_java()
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.driver.memory", "1g")
    for name, value in jvms.PYTHON_WORKERS.items():
        builder = builder.config(name, value)
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.range(1).collect()
    # Once for all; nothing is called that a fork could not go on with.
    for module in pkgutil.walk_packages(zskip.__path__, "zskip."):
        if not module.name.startswith("zskip.cli"):
            importlib.import_module(module.name)
    for name in format_tables.PRELOADED:
        importlib.import_module(name)
    said = Path(place) / "said"
    while True:
        try:
            call = connection.recv()
        except EOFError:
            spark.stop()
            return
        said.write_text("")
        child = os.fork()
        if child == 0:
            _die(spark, said, call)
        connection.send((os.waitpid(child, 0)[1], said.read_text()))


def _die(spark: Any, said: Path, call: Call) -> None:
    form, path, method, arguments, step = call
    try:
        # The connections of the parent are left alone, and not closed either.
        client = spark.sparkContext._gateway._gateway_client
        _kept.extend((client.thread_connection, list(client.deque)))
        client.thread_connection = threading.local()
        client.deque.clear()
        if isinstance(step, float):
            threading.Timer(step, os.kill, (os.getpid(), signal.SIGKILL)).start()
        address = format_tables.maker(form).address(Path(path))
        steps = Countdown(0 if isinstance(step, float) else step)
        format_tables.count_commits(steps, form)
        for name in ("write", "rename", "delete"):
            setattr(LocalStorage, name, steps.counted(getattr(LocalStorage, name)))
        if method == "write":
            rows = spark.read.parquet(arguments.pop("rows"))
            found: Any = zskip.write(rows, address, format=form, **arguments)
        else:
            found = getattr(zskip.table(spark, address), method)(**arguments)
        said.write_text(
            json.dumps({name: getattr(found, name, None) for name in ("batches", "version")} | _before(found))
        )
        os._exit(0)
    except BaseException:
        said.write_text(traceback.format_exc())
        os._exit(1)


def _before(found: Any) -> dict[str, int]:
    return {"batches_before": getattr(found, "batches_before", 0)}


_kept: list[Any] = []
