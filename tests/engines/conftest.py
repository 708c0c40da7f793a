"""A session with the engines' own jars, which `python3 dev.py test-engines` fetches; without them all is skipped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import jvms
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


collect_ignore = [name for name in EXTENSIONS if name not in ENGINES]


@pytest.fixture(scope="session")
def engine_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """A local Spark session with the jars of the engines that run on this Spark, made once for all tests."""
    settings = {
        "spark.master": "local[2]",
        "spark.app.name": "zskip-engine-tests",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        # Engines ask many small queries of their own, whose code costs a fifth of the time. Other rooms' tests have it.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        # Delta's VACUUM starts as many tasks as this says, by default 10,000.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        "spark.driver.memory": "2g",
        "spark.sql.session.timeZone": "UTC",
        "spark.jars": ",".join(map(str, JARS)),
        "spark.sql.extensions": ",".join(EXTENSIONS[name] for name in ENGINES),
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.sql.catalog.local.warehouse": str(tmp_path_factory.mktemp("iceberg")),
    }
    for name in ENGINES:
        settings |= SETTINGS[name]
    with jvms.session(settings, tmp_path_factory.mktemp("jvm")) as session:
        yield session
