"""A clustered table in one pass, `zskip.write`, beside a plain write followed by `optimize`: seconds, and what is kept.

python bench/one_pass.py --scale 1 --files 64 --rounds 3

Tables of Delta and Iceberg, which need the jars that `python3 dev.py test-engines` fetches, are made of `filter`.
Then a tenth of its rows is appended to each table: by `append`, and by the format's own writer.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

import zskip
from shared import data, measure, session
from shared.resources import Resources

RUNS = [
    {"name": "one-pass", "title": "A clustered table in one pass", "case": "usual",
     "text": "`zskip.write` of TPC-H lineitem by three columns (`one`) beside a plain write by Spark and an optimize "
     "of what it wrote (`two`): of a DataFrame that reads Parquet files as they are (`scan`), through a filter that "
     "keeps all rows (`filter`), joined with a small table (`join`), and grouped (`aggregate`). `cpu_s` are "
     "processor seconds of the driver, the JVM and the Python workers. `kept_pct` is the mean share of rows in the "
     "files that 100 random queries keep.",
     "options": "--scale 1 --files 64 --rounds 2",
     "goals": {"parquet_*_one_over_two_s": ("<=", 0.75), "parquet_*_one_over_write_s": ("<=", 1.5),
     "parquet_*_kept_over": ("<=", 1.05)}},
]  # fmt: skip

FORMATS, PLANS = "parquet,delta,iceberg", "scan,filter,join,aggregate"
STEPS = ("one", "write", "optimize", "append", "plain_append")


def main() -> None:
    """Measure, and print the figures."""
    options = measure.arguments(__doc__ or "", scale=1.0, files=64, rounds=3, queries=100, formats=FORMATS, plans=PLANS)
    formats = options.formats.split(",")
    spark = session.start(**session.readers_conf(formats, data.HOME / "one-pass-iceberg"))
    source = str(data.lineitem(options.scale))
    queries = data.random_queries(Path(source), data.CLUSTER_BY, options.queries, options.seed)
    plans = {name: df for name, df in plans_of(spark, source).items() if name in options.plans.split(",")}
    figures: dict[str, Any] = {"scale": options.scale}
    for form in formats:
        for name, df in plans.items() if form == "parquet" else [("filter", plans["filter"])]:
            figures |= measure_plan(spark, form, name, df, options, queries)
    measure.emit(figures, options.json)


def measure_plan(spark: Any, form: str, name: str, df: Any, options: Any, queries: list[str]) -> dict[str, Any]:
    """Measure one plan; the first round warms the session up."""
    seconds: dict[str, list[float]] = {step: [] for step in STEPS}
    cpu: dict[str, list[float]] = {step: [] for step in STEPS}
    kept: dict[str, float] = {}
    for number in range(options.rounds + 1):
        one, two = (fresh(spark, form, way) for way in ("one", "two"))
        for step, work in steps(spark, form, df, one, two, options.files).items():
            with Resources() as used:
                seconds[step].append(measure.seconds(work))
            cpu[step].append(used.cpu_s)
            if step == "optimize":
                kept = {
                    way: measure.kept_pct(zskip.table(spark, address), queries)
                    for way, address in (("one", one), ("two", two))
                }
        if not number and options.rounds:
            seconds, cpu = ({step: [] for step in STEPS} for _ in range(2))
        measure.log(f"{form} {name}: {seconds} {cpu} {kept}")
    figures: dict[str, Any] = {}
    for unit, values in (("s", seconds), ("cpu_s", cpu)):
        medians = {step: measure.median(values[step]) for step in STEPS}
        figures |= {f"{form}_{name}_{step}_{unit}": value for step, value in medians.items()}
        both = medians["write"] + medians["optimize"]
        figures[f"{form}_{name}_one_over_two_{unit}"] = round(medians["one"] / both, 3)
        figures[f"{form}_{name}_one_over_write_{unit}"] = round(medians["one"] / medians["write"], 3)
        figures[f"{form}_{name}_append_over_plain_{unit}"] = round(medians["append"] / medians["plain_append"], 3)
    figures |= {f"{form}_{name}_{way}_kept_pct": value for way, value in kept.items()}
    figures[f"{form}_{name}_kept_over"] = round(kept["one"] / kept["two"], 3)
    return figures


def steps(spark: Any, form: str, df: Any, one: str, two: str, files: int) -> dict[str, Callable[[], Any]]:
    """What is timed, by name and in order; one, two: a table for each way."""
    tenth, by = df.where("pmod(xxhash64(l_orderkey, l_linenumber), 10) = 0"), data.CLUSTER_BY
    return {
        "one": lambda: zskip.write(df, one, by=by, files=files, format=form),
        "write": lambda: plain_write(df, form, two, "overwrite"),
        "optimize": lambda: zskip.table(spark, two).optimize(by, files=files),
        "append": lambda: zskip.table(spark, one).append(tenth),
        "plain_append": lambda: plain_write(tenth, form, two, "append"),
    }


def plain_write(df: Any, form: str, target: str, mode: str) -> None:
    """Write rows with the format's own writer."""
    if form != "iceberg":
        df.write.format(form).mode(mode).save(target)
    elif mode == "append":
        df.writeTo(target).append()
    else:
        df.writeTo(target).using("iceberg").tableProperty("write.parquet.compression-codec", "zstd").create()


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


def fresh(spark: Any, form: str, way: str) -> str:
    """The address of a table that does not exist yet."""
    if form == "iceberg":
        spark.sql(f"DROP TABLE IF EXISTS local.db.{way} PURGE")
        return f"local.db.{way}"
    path = data.HOME / f"one-pass-{way}"
    shutil.rmtree(path, ignore_errors=True)
    return str(path)


if __name__ == "__main__":
    main()
