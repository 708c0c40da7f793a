"""HDFS itself, one NameNode and one DataNode in a process, from jars that `python3 dev.py test-engines` fetches."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

JARS = [path for path in os.environ.get("ZSKIP_HDFS_JARS", "").split(os.pathsep) if path]
collect_ignore_glob = [] if JARS else ["test_*"]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the NameNode answers."""
    if not JARS:
        pytest.skip("no jars")
    place = tmp_path_factory.mktemp("hdfs")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    assert java
    # The rest of Hadoop is with PySpark.
    path = os.pathsep.join([*JARS, f"{Path(pyspark.__file__).parent}/jars/*"])
    arguments = ["-nnport", str(port), "-datanodes", "1", "-format", "-writeConfig", str(place / "ready")]
    with (place / "log").open("w") as log:
        server = subprocess.Popen(
            [java, "-Xmx512m", "-cp", path, "org.apache.hadoop.test.MiniDFSClusterManager", *arguments],
            cwd=place,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            for _ in range(600):
                if (place / "ready").exists() and server.poll() is None:
                    break
                time.sleep(0.1)
            else:
                pytest.fail(f"HDFS does not start: {(place / 'log').read_text()[-2000:]}")
            yield f"hdfs://127.0.0.1:{port}"
        finally:
            server.kill()
            server.wait(30)


@pytest.fixture(autouse=True)
def _no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are indexed as soon as they are written, and nobody writes them again."""
    monkeypatch.setattr("zskip.index.collect.parallel_footers.TICK_SECONDS", 0)


@pytest.fixture
def place(cluster: str, tmp_path: Path) -> str:
    """A directory of its own, with a space and a percent sign in its name."""
    return f"{cluster}/a b%20{tmp_path.name}"
