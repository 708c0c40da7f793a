"""A session with the engines' own jars, which `python3 dev.py test-engines` fetches; without them all is skipped."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

JARS = [Path(path) for path in os.environ.get("ZSKIP_ENGINE_JARS", "").split(os.pathsep) if path]
EXTENSIONS = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "hudi": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
}
SETTINGS = {
    "delta": {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"}
    | {"spark.databricks.delta.snapshotPartitions": "1"},
    "iceberg": {"spark.sql.catalog.local": "org.apache.iceberg.spark.SparkCatalog"}
    | {"spark.sql.catalog.local.type": "hadoop"},
    "hudi": {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog"}
    | {"spark.serializer": "org.apache.spark.serializer.KryoSerializer"},
}
"""Iceberg's catalog is called `local`; its warehouse is a directory of the test run."""
ENGINES = [name for name in EXTENSIONS if any(jar.name.startswith(name) for jar in JARS)]


collect_ignore_glob = [f"test_{name}*" for name in EXTENSIONS if name not in ENGINES]


@pytest.fixture(scope="session")
def engine_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """A local Spark session with the jars of the engines that run on this Spark, made once for all tests."""
    from pyspark.sql import SparkSession

    from zskip.spark.jvm.java import ensure_java

    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("zskip-engine-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.jars", ",".join(map(str, JARS)))
        .config("spark.sql.extensions", ",".join(EXTENSIONS[name] for name in ENGINES))
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.sql.catalog.local.warehouse", str(tmp_path_factory.mktemp("iceberg")))
    )
    for name in ENGINES:
        for key, value in SETTINGS[name].items():
            builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
