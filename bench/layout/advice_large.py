"""Advice for a table of 1,000,000 files and 100 columns by 10,000 recorded predicates: time, memory, Spark's jobs.

python bench/layout/advice_large.py --files 1000000 --queries 10000

The files are links to 40 that exist once. Of 20 columns the index has bounds, as footers of different files would give
them; the predicates ask for 12 of these.
"""

from __future__ import annotations

import os
import resource
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import zskip
from shared import common
from zskip.advisor.workload.reservoir import Entry, priority
from zskip.index.store.leaves import Column
from zskip.index.store.manifest import Manifest, manifest_path
from zskip.index.store.segment import ENTRIES_SCHEMA, FILES_SCHEMA, MAX_ENTRIES, new_name, write_segment
from zskip.storage import LocalStorage
from zskip.table.handle import Handle
from zskip.table.workload.recording import add_scans

DISTINCT, ROWS, COLUMNS, INDEXED, ASKED = 40, 1_000, 100, 20, 12
DOMAIN = 10**9


def main() -> None:
    """Measure, and print the figures."""
    options = common.arguments(__doc__ or "", files=1_000_000, queries=10_000)
    path = make(options.files, options.queries, options.seed)
    spark = common.session()
    spark.range(10).count()
    tracker = spark.sparkContext.statusTracker()
    before = memory()
    started, began = time.perf_counter(), time.process_time()
    spark.sparkContext.setJobGroup("advice", "advice")
    advice = zskip.table(spark, str(path)).advise()
    took, worked = time.perf_counter() - started, time.process_time() - began
    figures: dict[str, Any] = {
        "machine": common.machine(),
        "files": options.files,
        "predicates": options.queries,
        "advise_s": round(took, 1),
        "advise_cpu_s": round(worked, 1),
        "driver_peak_mb": round(memory()),
        "driver_before_mb": round(before),
        "jobs": len(tracker.getJobIdsForGroup("advice")),
        "best": advice.best.name if advice.best else "",
        "by_number": [round(c.kept, 3) for c in advice.by_number_of_columns],
    }
    common.emit(figures, options.json)
    shutil.rmtree(path)


def memory() -> float:
    """Peak of this process, the Python side of the driver, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_000


def make(files: int, queries: int, seed: int) -> Path:
    """The table, its index, and what was recorded."""
    path = common.HOME / f"wide-{files}"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    names = [f"c{i:03d}" for i in range(COLUMNS)]
    for i in range(DISTINCT):
        held = {name: rng.integers(0, DOMAIN, ROWS) for name in names}
        pq.write_table(pa.table(held), path / f"part-{i:07d}.parquet")
    for i in range(DISTINCT, files):
        os.link(path / f"part-{i % DISTINCT:07d}.parquet", path / f"part-{i:07d}.parquet")
    stats = [(path / f"part-{i:07d}.parquet").stat() for i in range(DISTINCT)]
    index(path, np.arange(files), stats, names[:INDEXED], rng)
    record(path, names[:ASKED], queries, rng)
    return path


def index(path: Path, numbers: Any, stats: list[os.stat_result], names: list[str], rng: np.random.Generator) -> None:
    """Bounds of `INDEXED` columns in each file: narrow in the first, wide in all others."""
    storage = LocalStorage(str(path))
    segments = []
    each = max(1, MAX_ENTRIES // len(names))
    columns = tuple(Column((name,), "long") for name in names)
    for start in range(0, len(numbers), each):
        part = numbers[start : start + each]
        count = len(part)
        values = (
            [f"part-{i:07d}.parquet" for i in part.tolist()],
            [stats[i % DISTINCT].st_size for i in part.tolist()],
            [stats[i % DISTINCT].st_mtime_ns // 1_000_000 for i in part.tolist()],
            np.full(count, ROWS),
            np.zeros(count, np.int32),
            np.ones(count, np.int64),
        )
        listing = pa.table(dict(zip(FILES_SCHEMA.names, values, strict=True)), schema=FILES_SCHEMA)
        entries = (bounds(number, part, len(numbers), rng) for number in range(len(names)))
        segments.append(write_segment(storage, new_name(), listing, columns, (tuple(range(len(names))),), (), entries))
    storage.write(
        manifest_path(1), Manifest(version=1, table_version=1, zskip="bench", segments=tuple(segments)).to_bytes()
    )


def bounds(number: int, part: Any, files: int, rng: np.random.Generator) -> pa.Table:
    low = rng.integers(0, DOMAIN // 50, len(part)) if number else part * (DOMAIN // files)
    high = DOMAIN - rng.integers(1, DOMAIN // 50, len(part)) if number else low + 2 * DOMAIN // files
    given = {
        "column": np.full(len(part), number, np.int32),
        "file": np.arange(len(part), dtype=np.int32),
        "nulls": np.zeros(len(part), np.int64),
        "int_min": low,
        "int_max": high,
    }
    arrays = [
        pa.array(given[f.name], f.type) if f.name in given else pa.nulls(len(part), f.type) for f in ENTRIES_SCHEMA
    ]
    return pa.table(arrays, schema=ENTRIES_SCHEMA)


def record(path: Path, names: list[str], queries: int, rng: np.random.Generator) -> None:
    """Predicates of one to three ranges or values each, all different, some columns asked for more often."""
    weights = 1 / np.arange(1, len(names) + 1)
    entries = []
    now = int(time.time() * 1000)
    for _ in range(queries):
        parts = []
        for name in rng.choice(names, rng.integers(1, 4), replace=False, p=weights / weights.sum()).tolist():
            low = int(rng.integers(0, DOMAIN))
            parts.append(
                f"{name} = {low}L" if rng.random() < 0.4 else f"{name} >= {low}L AND {name} < {low + DOMAIN // 100}L"
            )
        entries.append(Entry(priority(now, rng.random()), now, " AND ".join(parts), ROWS, 1))
    add_scans(Handle(LocalStorage(str(path)), None), entries)


if __name__ == "__main__":
    main()
