"""A full rewrite in ten batches beside the same in one job: seconds, the most that shuffles take on disk, what is read.

python bench/batches.py --scale 1 --files 64 --rounds 1
"""

from __future__ import annotations

import shutil
import time
from functools import partial
from typing import Any

import zskip
from shared import data, measure, session
from shared.resources import Resources

RUNS = [
    {"name": "batches", "title": "A full rewrite in ten batches", "case": "hard",
     "text": "TPC-H lineitem in 80 files of no order: one optimize in a single job, and one with `max_batch` a tenth "
     "of the table and two jobs at a time. `shuffle_mb` is the most that Spark's local directories held at a moment, "
     "`kept_pct` the mean share of rows in the files that 100 random queries keep: of a table in no order at all "
     "each batch spans all values.",
     "options": "--scale 1 --files 64 --rounds 1",
     "goals": {"batched_over_single_s": ("<=", 1.3), "batched_over_single_shuffle_mb": ("<=", 0.2)}},
]  # fmt: skip

BATCHES, PARTS = 10, ("s", "shuffle_mb", "kept_pct")


def main() -> None:
    """Measure, and print the figures."""
    options = measure.arguments(__doc__ or "", scale=1.0, files=64, rounds=1, jobs=2, queries=100)
    spark = session.start()
    source = data.lineitem(options.scale)
    queries = data.random_queries(source, data.CLUSTER_BY, options.queries, options.seed)
    raw = data.HOME / "batches-raw"
    # More files than batches, as a large table has.
    shutil.rmtree(raw, ignore_errors=True)
    spark.read.parquet(str(source)).repartition(8 * BATCHES).write.parquet(str(raw))
    forget(spark)
    size = sum(file.stat().st_size for file in raw.glob("*.parquet"))
    ways: dict[str, dict[str, Any]] = {"single": {}, "batched": {"max_batch": size // BATCHES, "jobs": options.jobs}}
    values: dict[str, list[float]] = {f"{way}_{part}": [] for way in ways for part in PARTS}
    figures: dict[str, Any] = {"mb": round(size / 1e6), "batches": 0}
    for _ in range(options.rounds):
        for name, more in ways.items():
            table = zskip.table(spark, str(data.link_files(raw, data.HOME / f"batches-{name}")))
            optimize = partial(table.optimize, data.CLUSTER_BY, files=options.files, **more)
            with Resources(data.HOME / "local") as used:
                values[f"{name}_s"].append(measure.seconds(optimize))
            values[f"{name}_shuffle_mb"].append(used.directory_mb)
            values[f"{name}_kept_pct"].append(measure.kept_pct(table, queries))
            forget(spark)
            figures |= used.figures(name)
            figures["batches"] = max(figures["batches"], len(table.history()))
            measure.log(f"{name}: {values}")
    figures |= {name: measure.median(of) for name, of in values.items()}
    for part in PARTS:
        figures[f"batched_over_single_{part}"] = round(figures[f"batched_{part}"] / figures[f"single_{part}"], 2)
    measure.emit(figures, options.json)


def forget(spark: Any) -> None:
    """Have Spark delete the shuffles of jobs that are done."""
    for _ in range(20):
        spark._jvm.System.gc()
        time.sleep(0.5)
        if not list((data.HOME / "local").rglob("shuffle_*.data")):
            return


if __name__ == "__main__":
    main()
