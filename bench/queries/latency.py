"""How long short queries wait under each reader, all in turns in one session, their answers equal.

python bench/queries/latency.py --scale 2 --files 64 --queries 60 --formats parquet,delta,iceberg

Each query sums three columns. Delta plans with as many tasks as it does by default. Needs the jars that
`python3 dev.py test-engines` fetches.
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
from shared import data, measure, session
from shared.data import TABLES
from shared.engines import ENGINES

RUNS = [
    {"name": "latency", "title": "What a short query waits for", "case": "usual",
     "text": "TPC-H lineitem in 64 files clustered by three columns by the format's own Z-order (`zorder`) and by "
     "zskip, of which a query reads little. zskip's files are read by the format's own reader (`alone`), by it in a "
     "session with `zskip.enable` (`enabled`), and by `Table.df()` (`df`), all in turns; answers are compared. "
     "Milliseconds of a query: the median, and of a hundred the slowest (`p99`); `of_df` is the median of the ratios.",
     "options": "--scale 2 --files 64 --queries 60", "goals": {"delta_enabled_of_df": ("<=", 1.2)}},
]  # fmt: skip

SUMS = ["count(*) AS n", "sum(l_quantity) AS quantity", "sum(l_extendedprice) AS price"]
HOME = data.HOME / "latency"


@dataclass(frozen=True, kw_only=True)
class Reader:
    """One way to read one table."""

    name: str
    frame: Any
    is_enabled: bool = False


def main() -> None:
    """Measure, and print the figures."""
    options = measure.arguments(__doc__ or "", scale=2.0, files=64, queries=60, formats="parquet,delta,iceberg")
    formats = options.formats.split(",")
    conf = session.readers_conf(formats, HOME)
    conf.pop("spark.databricks.delta.snapshotPartitions", None)
    spark = session.start(**conf)
    source = HOME / f"source-{options.scale:g}-{options.files}"
    lineitem = spark.read.parquet(str(data.lineitem(options.scale)))
    once(source, lambda: lineitem.repartition(options.files).write.parquet(str(source)))  # In random order.
    readers = [reader for name in formats for reader in readers_of(spark, name, source, options.files)]
    queries = data.random_queries(source, data.CLUSTER_BY, options.queries, options.seed)
    zskip.enable(spark)
    took = answer_times(spark, readers, queries)
    figures: dict[str, Any] = {"queries": len(queries)}
    for name, times in took.items():
        figures[f"{name}_ms"] = round(statistics.median(times), 1)
        figures[f"{name}_p99_ms"] = round(float(np.percentile(times, 99)), 1)
    for name in formats:
        ratios = [a / b for a, b in zip(took[f"{name}_enabled"], took[f"{name}_df"], strict=True)]
        figures[f"{name}_enabled_of_df"] = round(statistics.median(ratios), 2)
    measure.emit(figures, options.json)


def readers_of(spark: Any, name: str, source: Path, files: int) -> list[Reader]:
    """The readers of a format's own Z-order and of zskip's; of plain Parquet, of files as they came."""
    if name == "parquet":
        path = source.with_name(f"{source.name}-parquet")
        once(path, lambda: optimize(spark, str(data.link_files(source, path)), files))
        frame, address = spark.read.parquet(str(path)), str(path)
        others = [Reader(name="parquet_unclustered", frame=spark.read.parquet(str(source)))]
    else:
        engine = ENGINES[name](HOME, TABLES["lineitem"])
        ours, theirs = (f"{source.name}_{name}_{kind}".replace("-", "_").replace(".", "_") for kind in ("ours", "own"))
        size = sum(file.stat().st_size for file in source.glob("*.parquet")) // files
        address, rows = engine.address(ours), spark.read.parquet(str(source))
        once(engine.path(theirs), lambda: (engine.create(rows, theirs), engine.cluster(spark, theirs, size)))
        once(engine.path(ours), lambda: (engine.create(rows, ours), optimize(spark, address, files)))
        frame = engine.read(spark, ours)
        others = [Reader(name=f"{name}_zorder", frame=engine.read(spark, theirs))]
        others += [Reader(name=f"{name}_alone", frame=frame)]
    return [
        *others,
        Reader(name=f"{name}_enabled", frame=frame, is_enabled=True),
        Reader(name=f"{name}_df", frame=zskip.table(spark, address).df()),
    ]


def optimize(spark: Any, address: str, files: int) -> None:
    """Cluster a table by zskip."""
    zskip.table(spark, address).optimize(by=data.CLUSTER_BY, files=files)


def once(path: Path, make: Callable[[], Any]) -> None:
    """Make a table unless it is there; one that was begun has to be deleted by hand."""
    if not path.exists():
        measure.log(f"writing {path.name}")
        make()


def answer_times(spark: Any, readers: Sequence[Reader], queries: Sequence[str]) -> dict[str, list[float]]:
    """Milliseconds of each query by each reader, by its name; raises where their answers differ."""
    took: dict[str, list[float]] = {reader.name: [] for reader in readers}
    warming = queries[:5]
    for number, where in enumerate([*warming, *queries]):
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
    return {name: times[len(warming) :] for name, times in took.items()}


if __name__ == "__main__":
    main()
