"""A clustered table in one pass, `zskip.write`, beside a plain write followed by `optimize`: seconds, and what is kept.

python bench/one_pass.py --scale 1 --files 64 --rounds 3

The plans: TPC-H lineitem as Parquet files, read as they are (`scan`), through a filter that keeps all rows (`filter`),
joined with a small table that is broadcast (`join`), and grouped by an order's lines and parts, which are all different
(`aggregate`). `cpu_s` are processor seconds of the driver, the JVM and the Python workers. `kept_pct` is the mean share
of rows in the files that 100 random queries keep.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import functions as F

import zskip
from shared import common
from shared.resources import Resources

FORMATS, PLANS = "parquet,delta", "scan,filter,join,aggregate"
STEPS = ("one", "write", "optimize")


def main() -> None:
    """Measure, and print the figures."""
    options = common.arguments(__doc__ or "", scale=1.0, files=64, rounds=3, queries=100, formats=FORMATS, plans=PLANS)
    spark = common.session()
    source = str(common.lineitem(options.scale))
    queries = common.queries(Path(source), common.CLUSTER_BY, options.queries, options.seed)
    plans = {name: df for name, df in plans_of(spark, source).items() if name in options.plans.split(",")}
    figures: dict[str, Any] = {"machine": common.machine(), "spark": spark.version, "scale": options.scale}
    for form in options.formats.split(","):
        for name, df in plans.items() if form == "parquet" else [("filter", plans["filter"])]:
            seconds: dict[str, list[float]] = {step: [] for step in STEPS}
            cpu: dict[str, list[float]] = {step: [] for step in STEPS}
            kept: dict[str, float] = {}
            for number in range(options.rounds + 1):
                one, two = (fresh(f"one-pass-{way}") for way in ("one", "two"))
                steps = {
                    "one": lambda d=df, t=one, f=form: zskip.write(
                        d, t, by=common.CLUSTER_BY, files=options.files, format=f
                    ),
                    "write": lambda d=df, t=two: d.write.parquet(str(t)),
                    "optimize": lambda t=two: zskip.table(spark, str(t)).optimize(
                        common.CLUSTER_BY, files=options.files
                    ),
                }
                for step, work in steps.items():
                    with Resources() as used:
                        seconds[step].append(common.seconds(work))
                    cpu[step].append(sum(value for key, value in used.figures("x").items() if key.endswith("cpu_s")))
                kept = {"one": kept_pct(one, queries), "two": kept_pct(two, queries)}
                if not number and options.rounds:
                    # The first round warms the session up.
                    seconds, cpu = ({step: [] for step in STEPS} for _ in range(2))
                common.log(f"{form} {name}: {seconds} {cpu} {kept}")
            for unit, values in (("s", seconds), ("cpu_s", cpu)):
                medians = {step: common.median(values[step]) for step in STEPS}
                figures |= {f"{form}_{name}_{step}_{unit}": value for step, value in medians.items()}
                both = medians["write"] + medians["optimize"]
                figures[f"{form}_{name}_one_over_two_{unit}"] = round(medians["one"] / both, 3)
                figures[f"{form}_{name}_one_over_write_{unit}"] = round(medians["one"] / medians["write"], 3)
            figures |= {f"{form}_{name}_{way}_kept_pct": round(value, 2) for way, value in kept.items()}
            figures[f"{form}_{name}_kept_over"] = round(kept["one"] / kept["two"], 3)
    common.emit(figures, options.json)


def plans_of(spark: Any, source: str) -> dict[str, Any]:
    """A DataFrame of each kind."""
    scan = spark.read.parquet(source)
    nations = scan.select("l_suppkey").distinct().selectExpr("l_suppkey", "concat('N', l_suppkey % 25) AS nation")
    others = [name for name in scan.columns if name not in ("l_orderkey", "l_linenumber")]
    return {
        "scan": scan,
        "filter": scan.where("length(l_comment) >= 0"),
        "join": scan.join(F.broadcast(nations.localCheckpoint()), "l_suppkey"),
        "aggregate": scan.groupBy("l_orderkey", "l_linenumber").agg(*(F.max(name).alias(name) for name in others)),
    }


def fresh(name: str) -> Path:
    """A path where nothing lies."""
    path = common.HOME / name
    shutil.rmtree(path, ignore_errors=True)
    return path


def kept_pct(path: Path, queries: list[str]) -> float:
    """Mean share of the rows, in %, that lie in files which a query keeps."""
    table = zskip.open(str(path))
    scans = [table.prune(where) for where in queries]
    return 100 * float(np.mean([(scan.rows or 0) / max(scan.rows_total or 1, 1) for scan in scans]))


if __name__ == "__main__":
    main()
