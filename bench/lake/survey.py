"""The time of a survey of many tables.

    PYTHONPATH=src .venv/bin/python bench/lake/survey.py DIR [--tables 1000 --files 100]

Makes the lake in DIR: every third table is indexed and has recorded queries, and every ninth is listed as clustered by
its own journal. Then surveys it twice, also with 20 ms for each request, as in a store.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

SURVEY = """
import json, resource, sys, time
import zskip
from zskip.storage import LocalStorage
if float(sys.argv[3]):
    def slow(call):
        def wait(*arguments, **options):
            time.sleep(float(sys.argv[3]) / 1000)
            return call(*arguments, **options)
        return wait
    LocalStorage.kind = "objects"
    for name in ("list_dir", "walk", "stat", "is_dir", "read", "open"):
        setattr(LocalStorage, name, slow(getattr(LocalStorage, name)))
times = []
for _ in range(int(sys.argv[2])):
    started, cpu = time.monotonic(), time.process_time()
    lake = lake if times else zskip.lake(None, sys.argv[1])
    lake.tables
    found = time.monotonic() - started
    survey = lake.survey()
    times.append({"tables": len(survey.tables), "errors": sum(bool(t.error) for t in survey.tables),
                  "find": round(found, 2), "seconds": round(time.monotonic() - started, 2),
                  "cpu": round(time.process_time() - cpu, 2)})
print(json.dumps({"times": times, "MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000}))
"""


def make(root: Path, tables: int, files: int) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    import zskip
    from zskip.advisor.workload.reservoir import Entry, priority
    from zskip.records import Operation
    from zskip.table.journal import record_operation
    from zskip.table.workload.recording import add_scans

    rng = np.random.default_rng(0)
    first = root / "db0" / "t0000"
    for t in range(tables):
        path = root / f"db{t % 10}" / f"t{t:04d}"
        path.mkdir(parents=True)
        for f in range(files):
            if t:
                os.link(first / f"p{f:04d}.parquet", path / f"p{f:04d}.parquet")
                continue
            low = f * 100
            columns = {"a": rng.integers(low, low + 300, 200), "b": rng.integers(0, 1000, 200), "c": rng.random(200)}
            pq.write_table(pa.table(columns), path / f"p{f:04d}.parquet")
        if t % 3 == 0:
            table = zskip.open(str(path))
            table.index()
            now = int(time.time() * 1000)
            times = rng.integers(now - 30 * 86_400_000, now, 300).tolist()
            scans = [
                Entry(priority(at, rng.random()), at, f"a BETWEEN {i * 30} AND {i * 30 + 99}", 100, 3, 20_000)
                for i, at in enumerate(times)
            ]
            add_scans(table._handle, scans)
            if t % 9 == 0:
                operation = Operation(
                    version=0,
                    time_ms=now,
                    operation="optimize",
                    by=("a",),
                    curve="linear",
                    build="sample",
                    rows=20_000,
                    files_removed=files,
                    files_added=files,
                    bytes_removed=1,
                    bytes_added=1,
                    seconds=1.0,
                )
                record_operation(table._handle, operation, target_file_size=5_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--files", type=int, default=100)
    arguments = parser.parse_args()
    if not arguments.root.exists():
        make(arguments.root, arguments.tables, arguments.files)
    for latency in ("0", "20"):
        print(f"{latency} ms a request; a survey, and then another with the same Lake:")
        command = [sys.executable, "-c", SURVEY, str(arguments.root), "2", latency]
        print(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


if __name__ == "__main__":
    main()
