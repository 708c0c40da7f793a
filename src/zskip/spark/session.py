"""A Spark session on this machine, for the command line and the demo."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from zskip.errors import MissingDependencyError
from zskip.spark.java import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUIET = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


def local_session(app: str, *, cores: int | None = None, memory: str = "2g") -> SparkSession:
    """Start Spark in this process, quiet and without its web UI; a session that runs already is used as it is.

    cores: all by default; memory: of the driver, as Java writes sizes. Raises MissingDependencyError where PySpark
    or Java is missing.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingDependencyError('this needs PySpark; run: pip install "zskip[spark]"') from error
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    ensure_java()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with tempfile.TemporaryDirectory() as directory:
        logging = Path(directory) / "log4j2.properties"
        logging.write_text(_QUIET)
        session = (
            SparkSession.builder.master(f"local[{cores or '*'}]")
            .appName(app)
            .config("spark.driver.memory", memory)
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={logging.as_uri()}")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "8")
            .getOrCreate()
        )
    session.sparkContext.setLogLevel("ERROR")
    return session
