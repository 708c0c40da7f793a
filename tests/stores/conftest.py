"""An object store to test on: an emulator of S3 on this machine. `python3 dev.py test-stores` adds Spark.

`ZSKIP_STORE_ENDPOINT` names another one, with `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` for it.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import jvms
import pytest

if TYPE_CHECKING:
    from bucket import Bucket
    from faulty import Proxy

JARS = [path for path in os.environ.get("ZSKIP_STORE_JARS", "").split(os.pathsep) if path]
collect_ignore = [] if "ZSKIP_STORE_JARS" in os.environ else ["test_faults.py", "test_spark.py"]
collect_ignore_glob = [] if importlib.util.find_spec("moto") else ["test_*"]
"""Spark reaches a store with jars; the environment of Spark 3.5 has no emulator."""


@pytest.fixture(scope="session")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the store answers."""
    configured = os.environ.get("ZSKIP_STORE_ENDPOINT")
    if configured:
        yield configured
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("moto") / "log"
    with log.open("w") as out:
        server = subprocess.Popen([sys.executable, "-m", "moto.server", "-p", str(port)], stdout=out, stderr=out)
    try:
        wait_for(port, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)


def wait_for(port: int, log: Path) -> None:
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    pytest.fail(f"the emulator does not answer: {log.read_text()}")


@pytest.fixture(scope="session", autouse=True)
def nobody() -> Iterator[None]:
    """Whoever runs the tests has no profile of AWS, and no machine's role is asked for."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            if "ZSKIP_STORE_ENDPOINT" not in os.environ:
                patch.delenv(name)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9")
        patch.setenv("AWS_CONFIG_FILE", "/none")
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/none")
        yield


@pytest.fixture(autouse=True)
def _no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are indexed as soon as they are written, and nobody writes them again."""
    monkeypatch.setattr("zskip.index.collect.parallel_footers.TICK_SECONDS", 0)


@pytest.fixture
def bucket(endpoint: str) -> Bucket:
    """A new bucket."""
    from bucket import Bucket

    return Bucket.make(endpoint, f"zskip-{uuid.uuid4().hex}")


@pytest.fixture
def proxy(endpoint: str) -> Iterator[Proxy]:
    """A connection to the store that breaks as it is told to."""
    from faulty import Proxy

    with Proxy(endpoint) as proxied:
        yield proxied


@pytest.fixture(scope="session")
def s3a_spark(endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """A session that reaches the store through Hadoop."""
    if not JARS:
        pytest.skip("no jars")
    settings = {
        "spark.master": "local[2]",
        "spark.app.name": "zskip-store-tests",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "2g",
        "spark.sql.session.timeZone": "UTC",
        "spark.jars": ",".join(JARS),
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.access.key": os.environ.get("AWS_ACCESS_KEY_ID", "x"),
        "spark.hadoop.fs.s3a.secret.key": os.environ.get("AWS_SECRET_ACCESS_KEY", "y"),
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": str(endpoint.startswith("https")).lower(),
        "spark.hadoop.fs.s3a.attempts.maximum": "3",
    }
    with jvms.session(settings, tmp_path_factory.mktemp("jvm")) as session:
        yield session
