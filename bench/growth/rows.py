"""TPC-H lineitem at more and more scale factors: a copy, optimize, and queries, with a driver of 2 GB.

python bench/growth/rows.py --scales 1,10,30,100 --file-mb 64

Each scale is measured in a process of its own: a plain copy by Spark, `optimize` by three columns into a new table
(which it indexes), and twenty random queries (`bench/shared/common.py`) by `df()` and under `enable`. Files of the new
table are of the same size at each scale. Seconds named `cpu` are of all processors, JVM and Python's workers together;
`shuffle_over_table` is what went through shuffles, over the bytes of the table.
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
from shared import common, growth
from shared.resources import Resources

QUERIES = 20


def main() -> None:
    """Measure, and keep the figures."""
    options = common.arguments(__doc__ or "", scales="1,10,30,100", file_mb=64.0, only="", notes="")
    if options.only:
        print(json.dumps(measure(float(options.only), options.file_mb, options.seed)))
        return
    rows = []
    for scale in options.scales.split(","):
        given = [f"--file-mb={options.file_mb}", f"--seed={options.seed}"]
        rows.append(common.in_a_process(__file__, scale, given))
        common.log(str(rows[-1]))
    result = growth.keep("rows", "millions of rows", rows, options.seed, notes=options.notes)
    common.emit({"machine": result["machine"], **rows[-1]}, options.json)


def measure(scale: float, file_mb: float, seed: int) -> growth.Row:
    """The figures of one scale."""
    source, events = common.lineitem(scale), common.HOME / f"growth-events-{time.time_ns()}"
    size = sum(file.stat().st_size for file in source.glob("*.parquet"))
    spark = common.session(events, spark__driver__memory="2g")
    spark.read.parquet(str(source)).limit(10).count()
    copy, new = (common.HOME / f"growth-rows-{name}" for name in ("copy", "new"))
    files = max(2, round(size / 1e6 / file_mb))
    figures: growth.Row = {"millions of rows": 6.0012 * scale, "table_mb": size / 1e6, "files": files}
    figures |= worked("copy", lambda: spark.read.parquet(str(source)).write.mode("overwrite").parquet(str(copy)))
    for path in (copy, new):
        shutil.rmtree(path, ignore_errors=True)
    start = time.time()
    table = zskip.table(spark, str(source))
    figures |= worked("optimize", lambda: table.optimize(common.CLUSTER_BY, into=str(new), files=files))
    time.sleep(0.5)
    shuffled = common.shuffled_mb(events, int(start * 1000), int(time.time() * 1000))
    figures["shuffle_over_table"] = shuffled / (size / 1e6)
    figures["optimize_over_copy_cpu"] = figures["optimize_cpu_s"] / figures["copy_cpu_s"]
    some = common.link_files(source, common.HOME / "growth-rows-some", 2)  # All rows would not fit into memory.
    wanted = common.queries(some, common.CLUSTER_BY, QUERIES, seed)
    clustered = zskip.table(spark, str(new))
    figures["kept_pct"] = 100 * statistics.mean(
        (k.rows or 0) / (k.rows_total or 1) for k in map(clustered.prune, wanted)
    )
    frame, selected = clustered.df(), ("count(*)", "sum(l_extendedprice)")
    figures["df_query_s"] = median_of(lambda where: frame.where(where).selectExpr(*selected).collect(), wanted)
    zskip.enable(spark)
    plain = spark.read.parquet(str(new))
    figures["enabled_query_s"] = median_of(lambda where: plain.where(where).selectExpr(*selected).collect(), wanted)
    zskip.disable(spark)
    figures["plain_query_s"] = median_of(lambda where: plain.where(where).selectExpr(*selected).collect(), wanted)
    for path in (new, some, events):
        shutil.rmtree(path, ignore_errors=True)
    return growth.rounded(figures)


def worked(name: str, work: Callable[[], Any]) -> growth.Row:
    """What a piece of work takes of the machine."""
    start = time.perf_counter()
    with Resources() as used:
        work()
    given = used.figures(name)
    seconds = sum(value for key, value in given.items() if key.endswith("_cpu_s"))
    memory = {key: value for key, value in given.items() if key.endswith("_mb") and value}
    return {f"{name}_s": time.perf_counter() - start, f"{name}_cpu_s": seconds, **memory}


def median_of(query: Callable[[str], Any], wanted: list[str]) -> float:
    """The median of the seconds of some queries; the first is not counted."""
    query(wanted[0])
    return statistics.median(common.seconds(lambda where=where: query(where)) for where in wanted)


if __name__ == "__main__":
    main()
