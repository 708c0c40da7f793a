"""A Spark session on this machine, for the command line and the demo."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from typing import IO, TYPE_CHECKING

from zskip.errors import MissingDependencyError, ZskipError
from zskip.spark.jvm.java import ensure_java

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

_GIB = 1 << 30
_QUERY_LOGGER = "SQLQueryContextLogger"
"""The logger with which PySpark 4 also prints every exception that it raises on stderr."""


def local_session(
    app: str, *, cores: int | None = None, memory: str | None = None, progress: bool = False
) -> SparkSession:
    """Start Spark in this process, quiet and without its web UI; returns the active session where there is one.

    cores: all by default; memory: of the driver, in Java's notation, by default a quarter of the machine's; progress:
    whether Spark draws its own progress bar. Raises MissingDependencyError where PySpark or Java is missing.
    """
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingDependencyError('this needs PySpark; run: pip install "zskip[spark]"') from error
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    ensure_java()
    os.environ.pop("SPARK_REMOTE", None)  # Spark does not start where it names a server.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Spark's default is the first python3 on the PATH, which may lack NumPy and pandas.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = (
        SparkConf()
        .setMaster(f"local[{cores or '*'}]")
        .setAppName(app)
        .set("spark.driver.memory", memory or _quarter_of_memory())
        .set("spark.driver.host", "127.0.0.1")
        .set("spark.ui.enabled", "false")
        .set("spark.ui.showConsoleProgress", str(progress).lower())
        .set("spark.sql.shuffle.partitions", "8")
    )
    if progress:
        return SparkSession.builder.config(conf=conf).getOrCreate()
    with tempfile.TemporaryFile() as output:
        context = SparkContext(conf=conf, gateway=silent_gateway(conf, output))
    context.setLogLevel("ERROR")
    logging.getLogger(_QUERY_LOGGER).disabled = True
    return SparkSession.builder.getOrCreate()


def silent_gateway(conf: SparkConf, output: IO[bytes]) -> JavaGateway:
    """A Java process whose output goes to a file, since failures reach Python as exceptions.

    Raises ZskipError with the last lines of the output where it does not start.
    """
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    try:
        return launch_gateway(conf, {"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
    except PySparkRuntimeError as error:
        output.seek(0)
        lines = output.read().decode(errors="replace").strip().splitlines()[-5:]
        raise ZskipError(
            f"Spark did not start with JAVA_HOME={os.environ['JAVA_HOME']}: " + "; ".join(lines)
        ) from error


def _quarter_of_memory() -> str:
    """A quarter of the machine's memory, between 1 and 16 GiB, in Java's notation."""
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        size = 8 * _GIB
    return f"{min(max(size // 4, _GIB), 16 * _GIB) >> 20}m"
