"""TPC-H lineitem at more and more scale factors: a copy, optimize, and queries, with a driver of 2 GB.

python bench/growth/rows.py --scales 1,10,30,100 --file-mb 64

Each scale is measured in a process of its own. Seconds named `cpu` are of all processors, JVM and Python's workers.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import zskip
from shared import data, measure, session
from shared.resources import Resources

RUNS = [
    {"name": "growth-rows", "title": "More and more rows", "case": "hard",
     "text": "TPC-H lineitem, with a driver of 2 GB: a copy by Spark, `optimize` by three columns into files of 64 "
     "MB, and the median of twenty random queries by `df()`, under `enable` and without zskip, all on the new table. "
     "`shuffle_over_table` is what goes through shuffles over the bytes of the table that is read.",
     "options": "--scales 1,10,30,75", "hours": True,
     "goals": {"optimize_over_copy": ("<=", 1.15), "optimize_jvm_peak_mb": ("<=", 2000)},
     "shown": ["copy_s", "optimize_s", "optimize_over_copy", "optimize_jvm_peak_mb", "optimize_python_peak_mb",
     "shuffle_over_table", "kept_pct", "df_query_s", "enabled_query_s", "plain_query_s"]},
]  # fmt: skip

QUERIES = 20


def main() -> None:
    """Measure, and keep the figures."""
    options = measure.arguments(__doc__ or "", scales="1,10,30,100", file_mb=64.0, only="")
    if options.only:
        print(json.dumps(costs(float(options.only), options.file_mb, options.seed)))
        return
    rows = []
    for scale in options.scales.split(","):
        given = [f"--file-mb={options.file_mb}", f"--seed={options.seed}"]
        rows.append(measure.in_a_process(__file__, scale, given))
        measure.log(str(rows[-1]))
    measure.emit_series(rows, options.json)


def costs(scale: float, file_mb: float, seed: int) -> dict[str, Any]:
    """The figures of one scale."""
    source, events = data.lineitem(scale), data.HOME / f"growth-events-{time.time_ns()}"
    size = sum(file.stat().st_size for file in source.glob("*.parquet"))
    spark = session.start(events, spark__driver__memory="2g")
    spark.read.parquet(str(source)).limit(10).count()
    copy, new = (data.HOME / f"growth-rows-{name}" for name in ("copy", "new"))
    files = max(2, round(size / 1e6 / file_mb))
    figures: dict[str, Any] = {"million_rows": 6.0012 * scale, "table_mb": size / 1e6, "files": files}
    figures |= worked("copy", lambda: spark.read.parquet(str(source)).write.mode("overwrite").parquet(str(copy)))
    for path in (copy, new):
        shutil.rmtree(path, ignore_errors=True)
    start = time.time()
    table = zskip.table(spark, str(source))
    figures |= worked("optimize", lambda: table.optimize(data.CLUSTER_BY, into=str(new), files=files))
    time.sleep(0.5)
    shuffled = session.shuffled_mb(events, int(start * 1000), int(time.time() * 1000))
    figures["shuffle_over_table"] = shuffled / (size / 1e6)
    figures["optimize_over_copy"] = figures["optimize_s"] / figures["copy_s"]
    figures["optimize_over_copy_cpu"] = figures["optimize_cpu_s"] / figures["copy_cpu_s"]
    some = data.link_files(source, data.HOME / "growth-rows-some", 2)  # All rows would not fit into memory.
    wanted = data.random_queries(some, data.CLUSTER_BY, QUERIES, seed)
    clustered = zskip.table(spark, str(new))
    figures["kept_pct"] = measure.kept_pct(clustered, wanted)
    frame, selected = clustered.df(), ("count(*)", "sum(l_extendedprice)")
    figures["df_query_s"] = median_of(lambda where: frame.where(where).selectExpr(*selected).collect(), wanted)
    zskip.enable(spark)
    plain = spark.read.parquet(str(new))
    figures["enabled_query_s"] = median_of(lambda where: plain.where(where).selectExpr(*selected).collect(), wanted)
    zskip.disable(spark)
    figures["plain_query_s"] = median_of(lambda where: plain.where(where).selectExpr(*selected).collect(), wanted)
    for path in (new, some, events):
        shutil.rmtree(path, ignore_errors=True)
    return figures


def worked(name: str, work: Callable[[], Any]) -> dict[str, Any]:
    """What a piece of work takes of the machine."""
    with Resources() as used:
        seconds = measure.seconds(work)
    memory = {key: value for key, value in used.figures(name).items() if key.endswith("_mb") and value}
    return {f"{name}_s": seconds, f"{name}_cpu_s": used.cpu_s, **memory}


def median_of(query: Callable[[str], Any], wanted: list[str]) -> float:
    """The median of the seconds of some queries; the first is not counted."""
    query(wanted[0])
    return statistics.median(measure.seconds(lambda where=where: query(where)) for where in wanted)


if __name__ == "__main__":
    main()
