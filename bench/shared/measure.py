"""What scripts take and print, and how they time what they measure."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from shared.slopes import figures_of, series_of

LOAD = os.getloadavg()[2]
"""How busy the machine was in the quarter of an hour before."""


def arguments(description: str, **defaults: Any) -> argparse.Namespace:
    """Parse `--json`, `--seed` and one option for each default."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--seed", type=int, default=7)
    for name, value in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value, help=f"default {value}")
    return parser.parse_args()


def emit(figures: dict[str, Any], as_json: bool) -> None:
    """Print the figures of one run, and the machine, for people or as one JSON document."""
    spark = f", Spark {sys.modules['pyspark'].__version__}" if "pyspark" in sys.modules else ""
    system = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    figures = {"machine": f"{system}{spark}", "load": round(LOAD, 1), **figures}
    if as_json:
        print(json.dumps(figures))
        return
    width = max(map(len, figures))
    for name, value in figures.items():
        print(f"{name:<{width}}  {value}")


def emit_series(rows: Sequence[dict[str, Any]], as_json: bool) -> None:
    """Print rows, each of whose first figure is a size, with the last of each figure and its slope."""
    series = series_of([rounded(row) for row in rows])
    emit({"series": series, **figures_of(series)}, as_json)


def log(text: str) -> None:
    """Say on stderr what is going on."""
    print(text, file=sys.stderr, flush=True)


def seconds(work: Callable[[], Any]) -> float:
    """Run and time one call, in seconds."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of a call: by the clock, and of this process's processors."""
    before = time.process_time()
    return seconds(work), time.process_time() - before


def median(values: list[float]) -> float:
    """The median, rounded for print."""
    return round(statistics.median(values), 3)


def rounded(figures: dict[str, Any]) -> dict[str, Any]:
    """Floats with four digits that count."""
    return {name: float(f"{v:.4g}") if isinstance(v, float) and math.isfinite(v) else v for name, v in figures.items()}


def kept_pct(table: Any, queries: Sequence[str]) -> float:
    """The mean share of rows, in %, in the files that queries keep."""
    scans = map(table.prune, queries)
    return round(100 * statistics.mean((scan.rows or 0) / max(scan.rows_total or 1, 1) for scan in scans), 2)


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
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def peak() -> float:
    """The most memory of this process so far, in megabytes."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6, 1)
