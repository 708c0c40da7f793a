"""A table of many small files: opening it and answering one query that keeps ten, beside plain Spark.

python bench/index/small_files.py --files 100000
"""

from __future__ import annotations

import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import zskip
from shared import common

ROWS = 10
KEPT = 10


def main() -> None:
    """Measure, and print the figures."""
    options = common.arguments(__doc__ or "", files=100_000, rounds=2)
    path = make(options.files)
    spark = common.session(spark__sql__shuffle__partitions="4")
    spark.range(10).count()
    indexing = common.seconds(lambda: zskip.table(spark, str(path)).index())
    where = f"id >= {ROWS * 500} AND id < {ROWS * (500 + KEPT)}"
    runs: dict[str, list[tuple[float, float]]] = {"zskip": [], "spark": []}
    for _ in range(options.rounds):
        runs["zskip"].append(timed(lambda: zskip.table(spark, str(path)).df(), where))
        runs["spark"].append(timed(lambda: spark.read.parquet(str(path)), where))
        common.log(f"open, query in s: { ({name: times[-1] for name, times in runs.items()}) }")
    table = zskip.table(spark, str(path))
    total = {name: common.median([a + b for a, b in times]) for name, times in runs.items()}
    figures = {
        "machine": common.machine(),
        "spark": spark.version,
        "files": options.files,
        "files_kept": table.prune(where).files,
        "index_s": round(indexing, 1),
        "zskip_open_s": common.median([a for a, _ in runs["zskip"]]),
        "zskip_query_s": common.median([b for _, b in runs["zskip"]]),
        "spark_open_s": common.median([a for a, _ in runs["spark"]]),
        "spark_query_s": common.median([b for _, b in runs["spark"]]),
        "zskip_over_spark": round(total["zskip"] / total["spark"], 3),
    }
    common.emit(figures, options.json)


def timed(opened: Any, where: str) -> tuple[float, float]:
    """Seconds to open a DataFrame, and to answer the query with it."""
    frames: list[Any] = []
    opening = common.seconds(lambda: frames.append(opened()))
    counts: list[int] = []
    answering = common.seconds(lambda: counts.append(frames[0].where(where).count()))
    if counts != [ROWS * KEPT]:
        raise SystemExit(f"wrong answer: {counts[0]} rows")
    return round(opening, 3), round(answering, 3)


def make(files: int) -> Path:
    """A directory of small files, ten rows each, made once."""
    path = common.HOME / f"small-{files}"
    if path.exists():
        return path
    common.log(f"writing {files} small files")
    staging = path.with_name(path.name + ".tmp")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)

    def write(i: int) -> None:
        ids = np.arange(i * ROWS, (i + 1) * ROWS)
        table = pa.table({"id": ids, "bucket": (ids % 97).astype(np.int32), "name": [f"name {x:09d}" for x in ids]})
        pq.write_table(table, staging / f"part-{i:06d}.parquet")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, range(files)))
    staging.rename(path)
    return path


if __name__ == "__main__":
    main()
