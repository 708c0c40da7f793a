"""A full rewrite in ten batches beside the same in one job: seconds, the most that shuffles take on disk, what is read.

python bench/batches.py --scale 1 --files 64 --rounds 1
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import zskip
from shared import common
from shared.resources import Resources

BATCHES = 10


def main() -> None:
    """Measure, and print the figures."""
    options = common.arguments(__doc__ or "", scale=1.0, files=64, rounds=1, jobs=2, queries=100)
    spark = common.session()
    source = common.lineitem(options.scale)
    queries = common.queries(source, common.CLUSTER_BY, options.queries, options.seed)
    raw = common.HOME / "batches-raw"
    # More files than batches, as a large table has.
    shutil.rmtree(raw, ignore_errors=True)
    spark.read.parquet(str(source)).repartition(8 * BATCHES).write.parquet(str(raw))
    forget(spark)
    size = sum(file.stat().st_size for file in raw.glob("*.parquet"))
    ways: dict[str, dict[str, Any]] = {"single": {}, "batched": {"max_batch": size // BATCHES, "jobs": options.jobs}}
    found: dict[str, dict[str, list[float]]] = {name: {"s": [], "shuffle_mb": [], "kept_pct": []} for name in ways}
    resources: dict[str, Any] = {}
    commits = 0
    for _ in range(options.rounds):
        for name, more in ways.items():
            table = common.link_files(raw, common.HOME / f"batches-{name}")
            opened = zskip.table(spark, str(table))
            with Peak(common.HOME / "local") as peak, Resources() as used:
                start = time.perf_counter()
                result = opened.optimize(common.CLUSTER_BY, files=options.files, **more)
                took = time.perf_counter() - start
            resources |= {f"{name}_writer": result.writer, **used.figures(name)}
            forget(spark)
            commits = max(commits, len(opened.history()))
            kept = [scan.rows / scan.rows_total for scan in map(opened.prune, queries)]
            for figure, value in (("s", took), ("shuffle_mb", peak.most / 1e6), ("kept_pct", 100 * np.mean(kept))):
                found[name][figure].append(float(value))
            common.log(f"{name}: {found[name]}")
    medians = {name: {figure: common.median(values) for figure, values in of.items()} for name, of in found.items()}
    figures = {
        "machine": common.machine(),
        "spark": spark.version,
        "mb": round(size / 1e6),
        "batches": commits,
        **resources,
        **{f"{name}_{figure}": value for name, of in medians.items() for figure, value in of.items()},
        **{
            f"batched_over_single_{figure}": round(medians["batched"][figure] / medians["single"][figure], 2)
            for figure in ("s", "shuffle_mb", "kept_pct")
        },
    }
    common.emit(figures, options.json)


def forget(spark: Any) -> None:
    """Have Spark delete the shuffles of jobs that are done."""
    for _ in range(20):
        spark._jvm.System.gc()
        time.sleep(0.5)
        if not list((common.HOME / "local").rglob("shuffle_*.data")):
            return


class Peak:
    """The most bytes that files below a directory take together, beyond what was there before."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.most = 0

    def _size(self) -> int:
        total = 0
        for directory, _, names in os.walk(self._path):
            for name in names:
                try:
                    total += os.stat(os.path.join(directory, name)).st_size
                except FileNotFoundError:
                    continue
        return total

    def _watch(self) -> None:
        before = self._size()
        while not self._done.wait(0.1):
            self.most = max(self.most, self._size() - before)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


if __name__ == "__main__":
    main()
