"""How long it takes before anything happens: `import zskip`, `zskip --help`, `zskip.enable` and a first query.

python bench/startup.py --rounds 30 --sessions 5
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import zskip
from shared import data, measure

RUNS = [
    {"name": "startup", "title": "Starting up", "case": "plain",
     "text": "Fresh processes that take turns: `import zskip`, `zskip --help`, and a `python` that does nothing, "
     "whose time is part of the other two. Medians; `least` is the least of the rounds, `cpu` the time of the "
     "processors. Then `zskip.enable` in new sessions that have run a query, with its Java from the user's cache and "
     "compiled anew, and the first query of a new session, plain and with `enable` before it.",
     "options": "--rounds 30 --sessions 5",
     "goals": {"import_ms": ("<", 150), "help_ms": ("<", 400), "enable_cached_ms": ("<=", 500),
     "first_query_added_ms": ("<=", 400)}},
]  # fmt: skip

CALLS = {
    "python": ["-c", "pass"],
    "import": ["-c", "import zskip"],
    "help": ["-c", "from zskip.cli import main; main()", "--help"],
}
"""`help` is what the installed command runs."""
ENABLE = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
from shared import session
spark = session.start()
spark.range(9).count()
from pyspark.java_gateway import ensure_callback_server_started
begun = [time.perf_counter()]
import zskip
from zskip.spark.jvm.gateway import Jvm
from zskip.spark.jvm.compiled.janino import singleton
begun.append(time.perf_counter())
ensure_callback_server_started(spark.sparkContext._gateway)
begun.append(time.perf_counter())
singleton(Jvm.of(spark), "ScanLog")
begun.append(time.perf_counter())
zskip.enable(spark)
begun.append(time.perf_counter())
print(json.dumps([1000 * (b - a) for a, b in zip(begun, begun[1:])]))
"""
"""Prints the milliseconds of the parts of `zskip.enable`, in a session that has run a query."""
FIRST = """
import sys, time
sys.path.insert(0, sys.argv[1])
from shared import session
spark = session.start()
begun = time.perf_counter()
if sys.argv[3] == "enabled":
    import zskip
    zskip.enable(spark)
spark.read.parquet(sys.argv[2]).where("a < 1000").selectExpr("sum(b)").collect()
print(1000 * (time.perf_counter() - begun))
"""
TABLE = data.HOME / "startup"
PARTS = ("imports", "callback_server", "java", "rest")


def main() -> None:
    """Start each in turns, in fresh processes, and print medians."""
    options = measure.arguments(__doc__ or "", rounds=30, sessions=0)
    took: dict[str, list[float]] = {name: [] for name in CALLS}
    busy: dict[str, list[float]] = {name: [] for name in CALLS}
    for _ in range(options.rounds + 1):
        for name, call in CALLS.items():
            before = processor_seconds()
            took[name].append(1000 * measure.seconds(lambda call=call: start(call)))
            busy[name].append(1000 * (processor_seconds() - before))
    figures: dict[str, Any] = {"rounds": options.rounds}
    for name in CALLS:
        figures[f"{name}_ms"] = measure.median(took[name][1:])  # The first finds nothing in the caches of the disk.
        figures[f"{name}_least_ms"] = round(min(took[name][1:]), 3)
        figures[f"{name}_cpu_ms"] = measure.median(busy[name][1:])
    for kind, conf in (("cached", {}), ("compiled", {"XDG_CACHE_HOME": os.devnull})) if options.sessions else ():
        parts = [enable(conf) for _ in range(options.sessions + 1)][1:]
        figures[f"enable_{kind}_ms"] = measure.median([sum(each) for each in parts])
        for name, times in zip(PARTS, zip(*parts, strict=True), strict=True):
            figures[f"enable_{kind}_{name}_ms"] = measure.median(list(times))
    if options.sessions:
        figures |= first_queries(options.sessions)
    measure.emit(figures, options.json)


def processor_seconds() -> float:
    """What all processes that have ended took of the processors."""
    spent = os.times()
    return spent.children_user + spent.children_system


def enable(environment: dict[str, str]) -> list[float]:
    """Enable zskip in a new session of a new process; the milliseconds of its parts."""
    call = [sys.executable, "-c", ENABLE, str(data.ROOT / "bench")]
    done = subprocess.run(call, check=True, capture_output=True, text=True, env={**os.environ, **environment})
    return list(json.loads(done.stdout.splitlines()[-1]))


def first_queries(rounds: int) -> dict[str, float]:
    """The first query of new sessions, plain and enabled in turns; medians in milliseconds."""
    data.emptied(TABLE)
    values = np.random.default_rng(7).permutation(64_000)
    for number in range(64):
        rows = np.sort(values[number * 1000 : (number + 1) * 1000])
        pq.write_table(pa.table({"a": rows, "b": rows % 100}), TABLE / f"{number}.parquet")
    zskip.open(str(TABLE)).index()
    took: dict[str, list[float]] = {"plain": [], "enabled": []}
    for _ in range(rounds + 1):
        for kind, times in took.items():
            call = [sys.executable, "-c", FIRST, str(data.ROOT / "bench"), str(TABLE), kind]
            done = subprocess.run(call, check=True, capture_output=True, text=True)
            times.append(float(done.stdout.splitlines()[-1]))
    plain, enabled = (measure.median(times[1:]) for times in took.values())
    return {
        "first_query_plain_ms": plain,
        "first_query_enabled_ms": enabled,
        "first_query_added_ms": round(enabled - plain, 3),
    }


def start(call: list[str]) -> None:
    """Run one to its end; raises where it fails."""
    subprocess.run([sys.executable, *call], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
