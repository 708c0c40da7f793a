"""How long short queries wait under each reader, all in turns in one session, their answers equal.

python bench/queries/latency.py --scale 2 --files 64 --queries 60 --formats parquet,delta,iceberg

TPC-H lineitem in files of random rows, clustered by three columns: by the format's own Z-order, and by zskip, read by
the format's own reader with `zskip.enable` and without, and by `Table.df()`. Each query sums three columns. Delta
plans with as many tasks as it does by default. Needs the jars that `python3 dev.py test-engines` fetches.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import zskip
from shared import common

SUMS = ["count(*) AS n", "sum(l_quantity) AS quantity", "sum(l_extendedprice) AS price"]
WAREHOUSE = common.HOME / "latency"
DELTA_FILE_SIZE = "spark.databricks.delta.optimize.{}FileSize"


@dataclass(frozen=True, kw_only=True)
class Reader:
    """One way to read one table."""

    name: str
    frame: Any
    is_enabled: bool = False


def main() -> None:
    """Measure, and print the figures."""
    options = common.arguments(__doc__ or "", scale=2.0, files=64, queries=60, formats="parquet,delta,iceberg")
    formats = options.formats.split(",")
    spark = common.session(**settings(formats))
    source = shuffled(spark, common.lineitem(options.scale), options.scale, options.files)
    readers = [reader for name in formats for reader in READERS[name](spark, source, options.files)]
    asked = common.queries(source, common.CLUSTER_BY, options.queries, options.seed)
    zskip.enable(spark)
    took = measure(spark, readers, asked)
    figures: dict[str, Any] = {"machine": common.machine(), "spark": spark.version, "queries": len(asked)}
    for reader in readers:
        times = took[reader.name]
        figures[f"{reader.name}_ms"] = round(statistics.median(times), 1)
        figures[f"{reader.name}_p99_ms"] = round(float(np.percentile(times, 99)), 1)
    for name in formats:
        ratios = [a / b for a, b in zip(took[f"{name}_enabled"], took[f"{name}_df"], strict=True)]
        figures[f"{name}_enabled_of_df"] = round(statistics.median(ratios), 2)
    common.emit(figures, options.json)


def settings(formats: Sequence[str]) -> dict[str, str]:
    """What a session takes that reads all of the formats."""
    conf = common.readers_conf(formats, WAREHOUSE)
    conf.pop("spark.databricks.delta.snapshotPartitions", None)
    return conf


def measure(spark: Any, readers: Sequence[Reader], asked: Sequence[str]) -> dict[str, list[float]]:
    """Milliseconds of each query by each reader, by its name; raises where their answers differ."""
    took: dict[str, list[float]] = {reader.name: [] for reader in readers}
    for number, where in enumerate([*asked[:5], *asked]):
        answers = set()
        shift = number % len(readers)
        for reader in [*readers[shift:], *readers[:shift]]:
            spark.conf.set("spark.zskip.enabled", str(reader.is_enabled).lower())
            begun = time.perf_counter()
            (row,) = reader.frame.where(where).selectExpr(*SUMS).collect()
            took[reader.name].append(1000 * (time.perf_counter() - begun))
            answers.add(row)
        if len(answers) != 1:
            raise SystemExit(f"the readers do not agree on {where}: {answers}")
    return {name: times[5:] for name, times in took.items()}  # The first warm the JVM.


def shuffled(spark: Any, source: Path, scale: float, files: int) -> Path:
    """The rows in random order, in a number of files, made once."""
    target = WAREHOUSE / f"source-{scale:g}-{files}"
    if not target.exists():
        common.log(f"writing {target.name}")
        spark.read.parquet(str(source)).repartition(files).write.parquet(str(target))
    return target


def parquet(spark: Any, source: Path, files: int) -> list[Reader]:
    """Files as they came, and the same rows in zskip's order."""
    path = source.with_name(f"{source.name}-parquet")

    def make() -> None:
        common.link_files(source, path)
        zskip.table(spark, str(path)).optimize(by=common.CLUSTER_BY, files=files)

    once(path, make)
    plain = spark.read.parquet(str(path))
    return [
        Reader(name="parquet_unclustered", frame=spark.read.parquet(str(source))),
        Reader(name="parquet_enabled", frame=plain, is_enabled=True),
        Reader(name="parquet_df", frame=zskip.table(spark, str(path)).df()),
    ]


def delta(spark: Any, source: Path, files: int) -> list[Reader]:
    """Delta's Z-order, and zskip's order."""
    ours, theirs = (source.with_name(f"{source.name}-delta-{kind}") for kind in ("zskip", "zorder"))

    def make_theirs() -> None:
        spark.read.parquet(str(source)).write.format("delta").save(str(theirs))
        size = sum(file.stat().st_size for file in source.glob("*.parquet")) // files
        for limit in ("max", "min"):
            spark.conf.set(DELTA_FILE_SIZE.format(limit), str(size))
        spark.sql(f"OPTIMIZE delta.`{theirs}` ZORDER BY ({', '.join(common.CLUSTER_BY)})").collect()

    def make_ours() -> None:
        spark.read.parquet(str(source)).write.format("delta").save(str(ours))
        zskip.table(spark, str(ours)).optimize(by=common.CLUSTER_BY, files=files)

    once(theirs, make_theirs)
    once(ours, make_ours)
    frame = spark.read.format("delta").load(str(ours))
    return [
        Reader(name="delta_zorder", frame=spark.read.format("delta").load(str(theirs))),
        Reader(name="delta_alone", frame=frame),
        Reader(name="delta_enabled", frame=frame, is_enabled=True),
        Reader(name="delta_df", frame=zskip.table(spark, str(ours)).df()),
    ]


def iceberg(spark: Any, source: Path, files: int) -> list[Reader]:
    """Iceberg's Z-order, and zskip's order."""
    ours, theirs = (f"{source.name}_{kind}".replace("-", "_").replace(".", "_") for kind in ("zskip", "zorder"))

    def make(name: str, cluster: Callable[[], Any]) -> None:
        writer = spark.read.parquet(str(source)).writeTo(f"local.db.{name}").using("iceberg")
        writer.tableProperty("write.parquet.compression-codec", "zstd").create()
        cluster()

    size = sum(file.stat().st_size for file in source.glob("*.parquet")) // files
    call = (
        f"CALL local.system.rewrite_data_files(table => 'db.{theirs}', strategy => 'sort', "
        f"sort_order => 'zorder({', '.join(common.CLUSTER_BY)})', "
        f"options => map('rewrite-all', 'true', 'target-file-size-bytes', '{size}'))"
    )
    once(WAREHOUSE / "db" / theirs, lambda: make(theirs, lambda: spark.sql(call).collect()))
    table = f"local.db.{ours}"
    optimize = lambda: zskip.table(spark, table).optimize(by=common.CLUSTER_BY, files=files)  # noqa: E731
    once(WAREHOUSE / "db" / ours, lambda: make(ours, optimize))
    return [
        Reader(name="iceberg_zorder", frame=spark.table(f"local.db.{theirs}")),
        Reader(name="iceberg_alone", frame=spark.table(table)),
        Reader(name="iceberg_enabled", frame=spark.table(table), is_enabled=True),
        Reader(name="iceberg_df", frame=zskip.table(spark, table).df()),
    ]


READERS: dict[str, Callable[[Any, Path, int], list[Reader]]] = {"parquet": parquet, "delta": delta, "iceberg": iceberg}


def once(path: Path, make: Callable[[], None]) -> None:
    """Make a table unless it is there; one that was begun has to be deleted by hand."""
    if not path.exists():
        common.log(f"writing {path.name}")
        make()


if __name__ == "__main__":
    main()
