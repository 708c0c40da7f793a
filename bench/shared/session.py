"""Sessions of Spark, tables of formats in them, and what Spark's plans and event logs say of queries."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from shared.data import HOME, ROOT
from shared.measure import log

JARS = ROOT / ".engines"
READERS: dict[str, dict[str, str]] = {
    "parquet": {},
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg": {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.local": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.local.type": "hadoop",
    },
}
"""Settings by which a session reads the tables of a format by their names; Iceberg's are in the catalog `local`."""


def start(directory: Path | None = None, **conf: str) -> Any:
    """A local Spark session on two cores; `directory` receives its event log."""
    from zskip.spark.jvm.java import ensure_java

    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.parquet.compression.codec", "zstd")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.local.dir", str(HOME / "local"))
    )
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
        builder = builder.config("spark.eventLog.enabled", "true").config("spark.eventLog.dir", directory.as_uri())
        builder = builder.config("spark.eventLog.compress", "false").config("spark.eventLog.rolling.enabled", "false")
    for name, value in conf.items():
        builder = builder.config(name.replace("__", "."), value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def engine_jars(engine: str) -> list[str]:
    """The jars of an engine for this version of Spark, which their names say."""
    import pyspark

    version = pyspark.__version__.rpartition(".")[0]
    jars = JARS.glob(f"{engine}-*.jar")
    return sorted(str(path) for path in jars if "spark" not in path.name or version in path.name)


def formats_with_jars() -> list[str]:
    """The formats that a session can read here."""
    return ["parquet", *(name for name in ("delta", "iceberg") if engine_jars(name))]


def readers_conf(formats: Sequence[str], warehouse: Path) -> dict[str, str]:
    """What `start` takes to read and write the tables of some formats.

    warehouse: Iceberg's.
    """
    # Delta plans each scan with a job of 50 tasks by default, beside which nothing else would count.
    more = {
        "delta": {"spark.databricks.delta.snapshotPartitions": "2"},
        "iceberg": {"spark.sql.catalog.local.warehouse": str(warehouse)},
    }
    conf: dict[str, str] = {}
    for name in [name for name in formats if name != "parquet"]:
        jars = engine_jars(name)
        if not jars:
            raise SystemExit(f"no jar of {name} in {JARS}: run python3 dev.py test-engines")
        for key, value in {**READERS[name], **more[name], "spark.jars": ",".join(jars)}.items():
            is_joined = key in conf and key in ("spark.jars", "spark.sql.extensions")
            conf[key] = f"{conf[key]},{value}" if is_joined else value
    return conf


def as_table(spark: Any, format_name: str, source: Path, directory: Path, name: str) -> str:
    """Parquet files as a table of a format that queries know by its name, written once; returns what zskip calls it.

    directory: of Iceberg's namespace in its warehouse; of others the tables lie there. Each file becomes a file.
    """
    if format_name == "parquet":
        spark.read.parquet(str(source)).createOrReplaceTempView(name)
        return str(source)
    is_iceberg, path = format_name == "iceberg", directory / name
    address = f"local.{directory.name}.{name}" if is_iceberg else str(path)
    first = "metadata/v1.metadata.json" if is_iceberg else f"_delta_log/{0:020}.json"
    if not (path / first).exists():
        log(f"writing {name} as {format_name}")
        spark.conf.set("spark.sql.files.openCostInBytes", str(1 << 40))  # No task reads two files.
        rows = spark.read.parquet(str(source))
        if is_iceberg:
            rows.writeTo(address).using("iceberg").tableProperty("write.parquet.compression-codec", "zstd").create()
        else:
            rows.write.format("delta").save(address)
        spark.conf.unset("spark.sql.files.openCostInBytes")
    if is_iceberg:
        spark.sql(f"USE local.{directory.name}")
    else:
        spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING delta LOCATION '{address}'")
    return address


def jobs_reading_input(directory: Path, since_ms: int, until_ms: int) -> int:
    """How many Spark jobs begun between two moments read records from files, by the session's event log."""
    stages: dict[int, int] = {}
    begun: list[list[int]] = []
    for event in _events(directory):
        if event["Event"] == "SparkListenerJobStart" and since_ms <= event["Submission Time"] <= until_ms:
            begun.append(event["Stage IDs"])
        elif event["Event"] == "SparkListenerStageCompleted":
            info = event["Stage Info"]
            stages[info["Stage ID"]] = stages.get(info["Stage ID"], 0) + _sum(info, "input.recordsRead")
    return sum(any(stages.get(stage, 0) for stage in ids) for ids in begun)


def tasks_read(directory: Path, since_ms: int, until_ms: int) -> tuple[int, int]:
    """Bytes and records that the stages begun between two moments read from files, by the session's event log."""
    stages = [e["Stage Info"] for e in _events(directory) if e["Event"] == "SparkListenerStageCompleted"]
    some = [stage for stage in stages if since_ms <= stage.get("Submission Time", -1) <= until_ms]
    read, records = (sum(_sum(stage, f"input.{name}Read") for stage in some) for name in ("bytes", "records"))
    return read, records


def shuffled_mb(directory: Path, since_ms: int, until_ms: int) -> float:
    """Megabytes that the stages begun between two moments wrote to shuffles, by the session's event log."""
    stages = (e["Stage Info"] for e in _events(directory) if e["Event"] == "SparkListenerStageCompleted")
    some = (stage for stage in stages if since_ms <= stage.get("Submission Time", -1) <= until_ms)
    return round(sum(_sum(stage, "shuffle.write.bytesWritten") for stage in some) / 1e6, 1)


def _events(directory: Path) -> Iterator[dict[str, Any]]:
    """The starts of jobs and ends of stages."""
    for path in directory.iterdir():
        with path.open() as lines:
            yield from (json.loads(x) for x in lines if "SparkListenerJobStart" in x or "StageCompleted" in x)


def _sum(stage: dict[str, Any], metric: str) -> int:
    return sum(int(a["Value"]) for a in stage["Accumulables"] if a["Name"] == f"internal.metrics.{metric}")


def decoded_rows(df: Any) -> int:
    """Rows that the Parquet scans of an executed query really decoded, by Spark's own metric."""
    df.collect()
    return sum(scan.metrics().apply("numOutputRows").value() for scan in scans(df))


def files_and_bytes(df: Any) -> tuple[int, int]:
    """Files that the scans of an executed query read, and their size, by Spark's own metrics."""
    found = [scan.metrics() for scan in scans(df)]
    return tuple(sum(int(m.apply(name).value()) for m in found) for name in ("numFiles", "filesSize"))  # type: ignore[return-value]


def bytes_read(scan: Any) -> int:
    """Size of the files that an executed scan of a file index or of Iceberg's reads."""
    if scan.getClass().getSimpleName() == "FileSourceScanExec":
        return int(scan.metrics().apply("filesSize").value())
    found = 0
    for partition in scan.inputRDD().partitions():
        # Where nothing is left to read, Spark makes a partition of another class.
        if partition.getClass().getSimpleName() == "DataSourceRDDPartition":
            groups = partition.inputPartitions()
            found += sum(groups.apply(i).taskGroup().sizeBytes() for i in range(groups.size()))
    return found


def table_name(scan: Any) -> str:
    """The name of the table of a scan, which is that of its directory where it has no other."""
    if scan.getClass().getSimpleName() == "FileSourceScanExec":
        roots = scan.relation().location().rootPaths()
        return str(roots.head().getName()) if roots.nonEmpty() else ""
    return str(scan.table().name()).rpartition(".")[2]


def scans(df: Any) -> list[Any]:
    """The file scans in the final plan of a query, those of its subqueries included."""
    found, todo = [], [df._jdf.queryExecution().executedPlan()]
    while todo:
        node = todo.pop()
        kind = node.getClass().getSimpleName()
        if kind in ("FileSourceScanExec", "BatchScanExec"):
            found.append(node)
        elif kind == "AdaptiveSparkPlanExec":
            todo.append(node.executedPlan())
        elif "QueryStage" in kind:
            todo.append(node.plan())
        for inner in (node.children(), node.subqueries()):
            todo.extend(inner.apply(i) for i in range(inner.size()))
    return found
