"""A standalone cluster of Spark on this machine: a master and workers, each a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

PATIENCE_S = 60
"""For a process to say that it has started."""


@contextmanager
def standalone(place: Path, workers: int, memory: str) -> Iterator[str]:
    """The URL of a master with some workers of one core each, which end with the block.

    place: where logs and the workers' directories lie. Raises TimeoutError where one does not start.
    """
    place.mkdir(parents=True, exist_ok=True)
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    with ExitStack() as running:
        start(running, place / "master.log", "master.Master", ["--port", str(port)])
        wait_for(place / "master.log", "I have been elected leader")
        for number in range(workers):
            given = ["--cores", "1", "--memory", memory, "--work-dir", str(place / f"work-{number}"), url]
            start(running, place / f"worker-{number}.log", "worker.Worker", given)
        wait_for(place / "master.log", "Registering worker", workers)
        yield url


def start(running: ExitStack, log: Path, name: str, given: Sequence[str]) -> None:
    """Start a master or a worker, which ends with the others."""
    import pyspark

    home = Path(pyspark.__file__).parent
    options = ["--host", "127.0.0.1", "--webui-port", str(free_port()), *given]
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *options]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(home), "SPARK_NO_DAEMONIZE": "1"}
    out = running.enter_context(log.open("wb"))
    process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment)
    running.callback(process.wait)
    running.callback(process.terminate)


def wait_for(log: Path, text: str, count: int = 1) -> None:
    """Wait until a process has said something often enough."""
    until = time.monotonic() + PATIENCE_S
    while (said := log.read_text(errors="replace")).count(text) < count:
        if time.monotonic() > until:
            raise TimeoutError(f"{log} does not say {text!r} {count} times: {said[-1000:]}")
        time.sleep(0.1)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
