"""What the benchmarks share: data, a session, a fixed set of queries, and how results are printed."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(os.environ.get("ZSKIP_BENCH_HOME") or ROOT / ".bench")
"""Where data is made and kept."""
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
CLUSTER_BY = ["l_partkey", "l_suppkey", "l_shipdate"]
EPOCH = dt.date(1970, 1, 1)


def arguments(description: str, **defaults: Any) -> argparse.Namespace:
    """Parse `--json`, `--seed` and one option for each default."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--seed", type=int, default=7)
    for name, value in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value, help=f"default {value}")
    return parser.parse_args()


def emit(figures: dict[str, Any], as_json: bool) -> None:
    """Print the figures of one run for people, or as one JSON document."""
    if as_json:
        print(json.dumps(figures))
        return
    width = max(map(len, figures))
    for name, value in figures.items():
        print(f"{name:<{width}}  {value}")


def log(text: str) -> None:
    """Say on stderr what is going on."""
    print(text, file=sys.stderr, flush=True)


def seconds(work: Callable[[], Any]) -> float:
    """Run and time one call, in seconds."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def median(values: list[float]) -> float:
    """The median, rounded for print."""
    return round(statistics.median(values), 3)


def machine() -> str:
    """A line that says what a figure was measured on, and how busy it was in the last quarter of an hour."""
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return f"{system}, load {os.getloadavg()[2]:.1f}, Python {platform.python_version()}"


def lineitem(scale: float) -> Path:
    """TPC-H lineitem of a scale factor as a directory of 16 Parquet files, made once."""
    target = HOME / f"lineitem-sf{scale:g}"
    if target.exists():
        return target
    log(f"generating TPC-H lineitem, scale factor {scale:g}")
    staging = HOME / f"staging-sf{scale:g}"
    tool = Path(sys.executable).with_name("tpchgen-cli")
    command = [tool, "parquet", "-s", f"{scale:g}", "-T", "lineitem", "--parts", "16", "-o", staging]
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    source = staging / "lineitem"
    (source if source.is_dir() else staging).rename(target)
    return target


def link_files(source: Path, path: Path, most: int | None = None) -> Path:
    """Give a new directory the same files, or some of them; links cost nothing."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    for file in islice(source.glob("*.parquet"), most):
        os.link(file, path / file.name)
    return path


def in_a_process(script: str, part: str, given: list[str], make: Path | None = None) -> dict[str, Any]:
    """The figures of a part of a script (`--only`), measured in a process of its own.

    make: where its data goes, which another process makes (`--make`), so that what was made fills no memory.
    """
    me = [sys.executable, script, *given]
    if make is not None:
        log(f"{part}: making {make.name}")
        shutil.rmtree(make, ignore_errors=True)
        subprocess.run([*me, f"--make={make}"], check=True)
    done = subprocess.run([*me, f"--only={part}"], check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def resident() -> float:
    """Megabytes of this process in memory."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024 / 1e6
    raise LookupError("VmRSS")


def peak() -> float:
    """The most memory of this process so far, in megabytes."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6, 1)


def session(directory: Path | None = None, **conf: str) -> Any:
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


def reader_conf(format_name: str, warehouse: Path) -> dict[str, str]:
    """What `session` takes to read and write the tables of a format.

    warehouse: Iceberg's.
    """
    if format_name == "parquet":
        return {}
    jars = engine_jars(format_name)
    if not jars:
        raise SystemExit(f"no jar of {format_name} in {JARS}: run python3 dev.py test-engines")
    # Delta plans each scan with a job of 50 tasks by default, beside which nothing else would count.
    more = {
        "delta": {"spark.databricks.delta.snapshotPartitions": "2"},
        "iceberg": {"spark.sql.catalog.local.warehouse": str(warehouse)},
    }
    return {**READERS[format_name], **more[format_name], "spark.jars": ",".join(jars)}


def readers_conf(formats: Sequence[str], warehouse: Path) -> dict[str, str]:
    """What `session` takes to read and write the tables of several formats."""
    conf: dict[str, str] = {}
    for name in formats:
        for key, value in reader_conf(name, warehouse).items():
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
    """How many Spark jobs between two moments read records from files, by the session's event log."""
    stages: dict[int, int] = {}
    submitted: dict[int, tuple[int, list[int]]] = {}
    for path in directory.iterdir():
        for line in path.read_text().splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerJobStart":
                submitted[event["Job ID"]] = (event["Submission Time"], event["Stage IDs"])
            elif event["Event"] == "SparkListenerStageCompleted":
                info = event["Stage Info"]
                read = sum(
                    int(a["Value"]) for a in info["Accumulables"] if a["Name"] == "internal.metrics.input.recordsRead"
                )
                stages[info["Stage ID"]] = stages.get(info["Stage ID"], 0) + read
    return sum(
        since_ms <= when <= until_ms and any(stages.get(stage, 0) for stage in ids) for when, ids in submitted.values()
    )


def shuffled_mb(directory: Path, since_ms: int, until_ms: int) -> float:
    """Megabytes that the stages begun between two moments wrote to shuffles, by the session's event log."""
    total = 0
    for path in directory.iterdir():
        for line in path.read_text().splitlines():
            event = json.loads(line) if '"SparkListenerStageCompleted"' in line else {}
            stage = event.get("Stage Info", {})
            if since_ms <= stage.get("Submission Time", -1) <= until_ms:
                written = (
                    a for a in stage["Accumulables"] if a["Name"] == "internal.metrics.shuffle.write.bytesWritten"
                )
                total += sum(int(accumulable["Value"]) for accumulable in written)
    return round(total / 1e6, 1)


def queries(path: Path, columns: Sequence[str], count: int, seed: int) -> list[str]:
    """Random predicates: 35 % equality, 30 % one range of 0.1-5 %, 35 % two ranges of 1-20 % of the rows."""
    rng = np.random.default_rng(seed)
    table = ds.dataset(path, format="parquet").to_table(columns=list(columns))
    taken = table.take(np.sort(rng.choice(table.num_rows, min(400_000, table.num_rows), replace=False)))
    values = {name: np.sort(_whole(taken[name])) for name in columns}
    kinds = {name: str(table.schema.field(name).type)[:4] for name in columns}

    def literal(name: str, value: int) -> str:
        if kinds[name] == "date":
            return f"DATE '{EPOCH + dt.timedelta(days=int(value))}'"
        if kinds[name] == "time":
            return f"TIMESTAMP '{dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(value))}'"
        return str(int(value))

    def between(name: str, low: float, high: float) -> str:
        share = float(np.exp(rng.uniform(np.log(low), np.log(high))))
        start, n = rng.random() * (1 - share), len(values[name]) - 1
        first, last = values[name][int(start * n)], values[name][int((start + share) * n)]
        return f"{name} BETWEEN {literal(name, first)} AND {literal(name, last)}"

    result = []
    for _ in range(count):
        kind = rng.random()
        if kind < 0.35:
            name = columns[rng.integers(2)]
            result.append(f"{name} = {literal(name, rng.choice(values[name]))}")
        elif kind < 0.65:
            result.append(between(columns[rng.integers(len(columns))], 0.001, 0.05))
        else:
            pair = rng.permutation(len(columns))[:2]
            result.append(" AND ".join(between(columns[i], 0.01, 0.2) for i in pair))
    return result


def _whole(column: Any) -> np.ndarray:
    import pyarrow as pa

    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return np.asarray(column.to_numpy(), dtype=np.int64)


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
