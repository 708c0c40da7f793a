"""Cluster TPC-H lineitem (or `--data connections`): what it costs beside a plain copy, and what queries read then.

python bench/clustering.py --scale 2 --files 64 --rounds 3
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

import zskip
from shared import data, measure, session
from shared.data import TABLES
from shared.resources import Resources

RUNS = [
    {"name": "clustering-lineitem", "title": "Clustering TPC-H lineitem", "case": "usual",
     "text": "12 million rows of TPC-H lineitem by l_partkey, l_suppkey, l_shipdate into 64 files. `copy` is a plain "
     "Spark read and write of the same data with the same codec (zstd). `sorted` is a whole optimize "
     "(snapshot, sample, fit, rewrite, commit, index). `step` are the seconds of its steps. `cpu_s`, `peak_mb`"
     " and `shuffled_mb` are of the last round: processor seconds and peak memory of the JVM and of Python's "
     "workers (of the largest one), and what went through shuffles. The 100 random queries are 35 % equalities"
     " on one column, 30 % ranges of 0.1 to 5 % on one, 35 % ranges of 1 to 20 % on two. `rows_in_kept_files` "
     "is the mean share of the rows in files that the index keeps, `rows_decoded` the mean share that Spark's "
     "scan then decodes for the first 40 of them.",
     "options": "--scale 2 --files 64 --rounds 3 --decoded-queries 40 --curves zorder",
     "goals": {"sorted_over_copy": ("<=", 1.2), "jobs_reading_input": ("<=", 2),
     "zorder_rows_in_kept_files_pct": ("<=", 21), "zorder_rows_decoded_pct": ("<=", 13)}},
    {"name": "clustering-connections", "title": "Clustering connections of a network", "case": "usual",
     "options": "--data connections --scale 2 --files 64 --rounds 2 --decoded-queries 40 --curves zorder",
     "goals": {"sorted_over_copy": ("<=", 1.2)}},
    {"name": "clustering-60m-rows", "title": "Clustering 60 million rows with a driver of 2 GB", "case": "hard",
     "options": "--scale 10 --files 512 --rounds 1 --decoded-queries 1 --curves zorder --memory 2g",
     "goals": {"sorted_over_copy": ("<=", 1.15)}},
]  # fmt: skip


def main() -> None:
    """Measure, and print the figures."""
    options = measure.arguments(
        __doc__ or "", data="lineitem", scale=2.0, files=64, rounds=3, queries=100, decoded_queries=100,
        curves="zorder,hilbert,linear", memory="4g",
    )  # fmt: skip
    source = TABLES[options.data].make(options.scale)
    events = data.HOME / f"events-{time.time_ns()}"
    spark = session.start(events, spark__driver__memory=options.memory)
    wanted = data.random_queries(source, TABLES[options.data].by, options.queries, options.seed)
    spark.read.parquet(str(source)).limit(10).count()
    figures: dict[str, Any] = {"files": options.files}
    figures |= rewrite_cost(spark, source, options, events)
    for name in options.curves.split(","):
        # The timed runs have left a Z-order.
        if "zorder" not in name:
            cluster(spark, source, options, name, curve=name)
        table = zskip.table(spark, str(data.HOME / "out" / name))
        figures |= {f"{name}_{figure}": value for figure, value in reading(spark, table, wanted, options).items()}
    shutil.rmtree(events, ignore_errors=True)
    measure.emit(figures, options.json)


def target(name: str) -> Path:
    """A place for one output, empty."""
    path = data.HOME / "out" / name
    shutil.rmtree(path, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def cluster(spark: Any, source: Path, options: Any, name: str, **kwargs: Any) -> Any:
    """Cluster the source into a new table."""
    path = target(name)
    # As the session writes the copy; by default the codec of the source stays.
    more = {"files": options.files, "into": str(path), "compression": "zstd", **kwargs}
    return zskip.table(spark, str(source)).optimize(TABLES[options.data].by, **more)


def rewrite_cost(spark: Any, source: Path, options: Any, events: Path) -> dict[str, Any]:
    """Cost of the optimize as multiples of a plain copy, alternating in one run."""

    def copy() -> None:
        spark.read.parquet(str(source)).write.parquet(str(target("copy")))

    ways: dict[str, Any] = {
        "copy": copy,
        "sorted": lambda: cluster(spark, source, options, "zorder"),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    figures: dict[str, Any] = {}
    jobs = 0
    for _ in range(options.rounds):
        for name, run in ways.items():
            start = time.time()
            with Resources() as used:
                result = run()
            times[name].append(time.time() - start)
            if result is not None:
                figures[f"{name}_writer"] = result.writer
                figures |= {f"{name}_step_{step}_s": round(took, 2) for step, took in result.seconds.items()}
            time.sleep(0.5)
            window = events, int(start * 1000), int(time.time() * 1000)
            figures |= {**used.figures(name), f"{name}_shuffled_mb": session.shuffled_mb(*window)}
            if result is not None:
                jobs = max(jobs, session.jobs_reading_input(*window))
        measure.log(f"{', '.join(ways)}: {[round(t[-1], 1) for t in times.values()]} s")
    for name, took in times.items():
        figures[f"{name}_s"] = measure.median(took)
        if name != "copy":
            figures[f"{name}_over_copy"] = measure.median([a / b for a, b in zip(took, times["copy"], strict=True)])
    return {**figures, "jobs_reading_input": jobs}


def reading(spark: Any, table: zskip.Table, wanted: list[str], options: Any) -> dict[str, float]:
    """Mean share, in percent, of rows in kept files and of rows decoded by Spark's scan."""
    kept = [table.prune(where) for where in wanted]
    rows = np.array([scan.rows / scan.rows_total for scan in kept])
    frame = table.df()
    selected = "count(*)", f"sum({TABLES[options.data].summed})"
    decoded = [
        session.decoded_rows(frame.where(where).selectExpr(*selected)) / kept[0].rows_total
        for where in wanted[: options.decoded_queries]
    ]
    return {
        "files": kept[0].files_total,
        "mb": round(kept[0].bytes_total / 1e6, 1),
        "rows_in_kept_files_pct": round(100 * float(rows.mean()), 2),
        "rows_in_kept_files_gmean_pct": round(100 * float(np.exp(np.log(np.maximum(rows, 1e-6)).mean())), 2),
        "rows_decoded_pct": round(100 * float(np.mean(decoded)), 2),
    }


if __name__ == "__main__":
    main()
