"""A clustered table in one pass, `zskip.write`, beside a plain write followed by `optimize`: seconds, and what is kept.

python bench/one_pass.py --scale 1 --files 64 --rounds 3

The source is TPC-H lineitem as a directory of Parquet files, read as it is, and read through a filter that keeps all
rows, as any other plan. `kept_pct` is the mean share of rows in the files that 100 random queries keep.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

import zskip
from shared import common

FORMATS = "parquet,delta"


def main() -> None:
    """Measure, and print the figures."""
    options = common.arguments(__doc__ or "", scale=1.0, files=64, rounds=3, queries=100, formats=FORMATS)
    spark = common.session()
    source = str(common.lineitem(options.scale))
    queries = common.queries(Path(source), common.CLUSTER_BY, options.queries, options.seed)
    scan = spark.read.parquet(source)
    plans = {"scan": scan, "plan": scan.where("length(l_comment) >= 0")}
    figures: dict[str, Any] = {"machine": common.machine(), "spark": spark.version, "scale": options.scale}
    for form in options.formats.split(","):
        for name, df in plans.items() if form == "parquet" else [("plan", plans["plan"])]:
            seconds: dict[str, list[float]] = {"one": [], "write": [], "optimize": []}
            kept: dict[str, float] = {}
            for number in range(options.rounds + 1):
                one, two = (fresh(f"one-pass-{way}") for way in ("one", "two"))
                seconds["one"].append(
                    common.seconds(
                        lambda d=df, t=one, f=form: zskip.write(
                            d, t, by=common.CLUSTER_BY, files=options.files, format=f
                        )
                    )
                )
                seconds["write"].append(common.seconds(lambda d=df, t=two: d.write.parquet(str(t))))
                table = zskip.table(spark, str(two))
                seconds["optimize"].append(
                    common.seconds(lambda t=table: t.optimize(common.CLUSTER_BY, files=options.files))
                )
                kept = {"one": kept_pct(one, queries), "two": kept_pct(two, queries)}
                if not number:
                    # The first round warms the session up.
                    seconds = {step: [] for step in seconds}
                common.log(f"{form} {name}: {seconds} {kept}")
            medians = {step: common.median(values) for step, values in seconds.items()}
            figures |= {f"{form}_{name}_{step}_s": value for step, value in medians.items()}
            figures[f"{form}_{name}_one_over_two"] = round(medians["one"] / (medians["write"] + medians["optimize"]), 3)
            figures |= {f"{form}_{name}_{way}_kept_pct": round(value, 2) for way, value in kept.items()}
            figures[f"{form}_{name}_kept_over"] = round(kept["one"] / kept["two"], 3)
    common.emit(figures, options.json)


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
