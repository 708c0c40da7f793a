"""What it costs to record a workload: a week of 1,000,000 scans, flushed every 15 seconds of it.

python bench/layout/recording.py
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shared import common
from zskip.advisor.workload.predicate_text import text_of
from zskip.predicate import Columns, parse
from zskip.records import Field, ScanReport
from zskip.storage import LocalStorage
from zskip.table.workload import recording
from zskip.types import DataType

WEEK_MS = 7 * 86_400_000
COLUMNS = Columns([Field(name=n, type=DataType(t)) for n, t in [("a", "long"), ("d", "date"), ("s", "string")]])
REPORT = ScanReport(files=3, files_total=64, bytes=1, bytes_total=9, rows=10, rows_total=90, seconds=0.0)


def main() -> None:
    """Measure, and print the figures."""
    options = common.arguments(__doc__ or "", scans=1_000_000, flushes=2_000)
    rng = np.random.default_rng(options.seed)
    clock = [1_700_000_000_000]
    recording._now_ms = lambda: clock[0]  # type: ignore[assignment]
    predicates = [
        parse(f"a = {a} AND d >= DATE '2024-01-01' AND s LIKE '{a % 97}%'", COLUMNS)
        for a in rng.integers(0, 50_000, 5_000).tolist()
    ]
    with tempfile.TemporaryDirectory() as home:
        recorder = recording.Recorder(LocalStorage(home))
        noted: list[float] = []
        flushed: list[float] = []
        each = options.scans // options.flushes
        for _ in range(options.flushes):
            for _ in range(each):
                predicate = predicates[int(rng.integers(len(predicates)))]
                started = time.perf_counter()
                recorder.note(lambda p=predicate: text_of([p]), REPORT)  # type: ignore[misc]
                noted.append(time.perf_counter() - started)
                clock[0] += WEEK_MS // options.scans
            flushed.append(common.seconds(recorder.flush))
        largest = max(file.stat().st_size for file in Path(home).rglob("*.reservoir"))
        _, held = recording._latest_or_new(LocalStorage(home))
    figures: dict[str, Any] = {
        "machine": common.machine(),
        "scans": held.scans,
        "kept": len(held.entries),
        "reservoir_bytes": largest,
        "note_ms_mean": round(1000 * statistics.fmean(noted), 4),
        "note_ms_p99": round(1000 * float(np.quantile(noted, 0.99)), 4),
        "flush_ms_median": round(1000 * statistics.median(flushed), 1),
        "flush_s_all": round(sum(flushed), 1),
        "background_ms_a_scan": round(1000 * sum(flushed) / held.scans, 4),
    }
    common.emit(figures, options.json)


if __name__ == "__main__":
    main()
