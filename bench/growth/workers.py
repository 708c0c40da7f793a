"""A standalone cluster of workers with one core and 2 GB each: a copy, optimize, index, append, by the cores in use.

python bench/growth/workers.py --scale 1 --files 64 --cores 1,2,3,4

The master and four workers are processes of this machine; for each number of cores a driver of its own takes as many
of them (`spark.cores.max`). `_s` are seconds by the clock, which fall only as far as the machine has cores. `_cpu_s`
are the busy seconds of all its processors: where they stay flat, no work was added, and as many cores of their own
would share it. `_driver_cpu_s` is the driver's part, Python and JVM, which more cores do not share.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import zskip
from shared import common, growth
from shared.cluster import standalone
from shared.resources import Resources

WORKERS, MEMORY = 4, "2g"
HOME = common.HOME / "growth-workers"
HEAP = "1g"
"""Of an executor, which leaves its worker as much for Python."""


def main() -> None:
    """Measure, and keep the figures."""
    options = common.arguments(__doc__ or "", scale=1.0, files=64, cores="1,2,3,4", master="", only="")
    if options.only:
        print(json.dumps(measure(options, int(options.only))))
        return
    from zskip.spark.jvm.java import ensure_java

    ensure_java()
    shutil.rmtree(HOME, ignore_errors=True)
    common.lineitem(options.scale)
    rows = []
    for cores in options.cores.split(","):
        # Workers anew, so that no executor of the driver before is still about to end.
        with standalone(HOME / f"cluster-{cores}", WORKERS, MEMORY) as master:
            given = [f"--scale={options.scale}", f"--files={options.files}", f"--master={master}"]
            rows.append(common.in_a_process(__file__, cores, given))
        common.log(str(rows[-1]))
    result = growth.keep("workers", "cores", rows, options.seed)
    common.emit({"machine": result["machine"], **rows[-1]}, options.json)


def measure(options: Any, cores: int) -> growth.Row:
    """The figures of a driver that takes some of the cores."""
    source, new, copy = common.lineitem(options.scale), HOME / f"new-{cores}", HOME / f"copy-{cores}"
    spark = session(options.master, cores)
    rows = spark.read.parquet(str(source))
    rows.selectExpr("hash(*) AS h").selectExpr("sum(h)").collect()  # All executors have started.
    table = zskip.table(spark, str(source))
    figures: growth.Row = {"cores": cores}
    figures |= worked("copy", lambda: rows.write.parquet(str(copy)))
    figures |= worked("optimize", lambda: table.optimize(common.CLUSTER_BY, into=str(new), files=options.files))
    clustered = zskip.table(spark, str(new))
    figures |= worked("index", lambda: clustered.index(sketches=["bloom(0.01):l_orderkey"]))
    tenth = rows.where("l_orderkey % 40 < 4")
    figures |= worked("append", lambda: clustered.append(tenth))
    spark.stop()
    return growth.rounded(figures)


def session(master: str, cores: int) -> Any:
    """A session on the cluster."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = {
        "spark.master": master,
        "spark.cores.max": str(cores),
        "spark.executor.cores": "1",
        "spark.executor.memory": HEAP,
        "spark.driver.host": "127.0.0.1",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.sql.shuffle.partitions": str(2 * WORKERS),
    }
    return common.session(**conf)


def worked(name: str, work: Callable[[], Any]) -> growth.Row:
    """What a piece of work takes of the driver and of all processors."""
    start, busy = time.perf_counter(), busy_seconds()
    with Resources() as used:
        work()
    took = {f"{name}_s": time.perf_counter() - start, f"{name}_cpu_s": busy_seconds() - busy}
    driver = sum(value for key, value in used.figures(name).items() if key.endswith("_cpu_s"))
    return {**took, f"{name}_driver_cpu_s": driver}


def busy_seconds() -> float:
    """What all processes of the machine have taken of its processors."""
    user, nice, system = map(int, Path("/proc/stat").read_text().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
