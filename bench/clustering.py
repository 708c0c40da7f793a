"""Cluster TPC-H lineitem: what it costs beside a plain copy, and what queries read afterwards.

python bench/clustering.py --scale 2 --files 64 --rounds 3
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

import zskip
from shared import common


def main() -> None:
    """Measure, and print the figures."""
    options = common.arguments(
        __doc__ or "", scale=2.0, files=64, rounds=3, queries=100, decoded_queries=100, curves="zorder,hilbert,linear"
    )
    source = common.lineitem(options.scale)
    events = common.HOME / f"events-{time.time_ns()}"
    spark = common.session(events)
    wanted = common.queries(source, common.CLUSTER_BY, options.queries, options.seed)
    spark.read.parquet(str(source)).limit(10).count()
    figures: dict[str, Any] = {"machine": common.machine(), "spark": spark.version, "files": options.files}
    figures |= rewrite_cost(spark, source, options, events)
    figures |= steps(spark, source, options)
    for curve in options.curves.split(","):
        # The last of the timed runs was a sorted Z-order.
        done = zskip.table(spark, str(common.HOME / "out" / "zorder"))
        table = done if curve == "zorder" else cluster(spark, source, options, curve=curve)
        figures |= {f"{curve}_{name}": value for name, value in reading(spark, table, wanted, options).items()}
    shutil.rmtree(events, ignore_errors=True)
    common.emit(figures, options.json)


def target(name: str) -> Path:
    """A place for one output, empty."""
    path = common.HOME / "out" / name
    shutil.rmtree(path, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def cluster(spark: Any, source: Path, options: Any, **kwargs: Any) -> zskip.Table:
    """Cluster the source into a new table."""
    path = target(kwargs.get("curve", "zorder"))
    # As the session writes the copy; by default the codec of the source stays.
    more = {"files": options.files, "into": str(path), "compression": "zstd", **kwargs}
    zskip.table(spark, str(source)).optimize(common.CLUSTER_BY, **more)
    return zskip.table(spark, str(path))


def rewrite_cost(spark: Any, source: Path, options: Any, events: Path) -> dict[str, Any]:
    """Seconds of the optimize as multiples of a plain copy, alternating in one run; jobs that read the input."""
    times: dict[str, list[float]] = {"copy": [], "unsorted": [], "sorted": []}
    jobs = 0
    for _ in range(options.rounds):
        path = str(target("copy"))
        times["copy"].append(common.seconds(lambda path=path: spark.read.parquet(str(source)).write.parquet(path)))
        for name in ("unsorted", "sorted"):
            start = time.time()
            took = common.seconds(lambda name=name: cluster(spark, source, options, sort_within_files=name == "sorted"))
            times[name].append(took)
            time.sleep(0.5)
            jobs = max(jobs, common.jobs_reading_input(events, int(start * 1000), int(time.time() * 1000)))
        common.log(f"copy, unsorted, sorted: {[round(t[-1], 1) for t in times.values()]} s")
    ratio = {n: common.median([a / b for a, b in zip(times[n], times["copy"], strict=True)]) for n in times}
    return {
        "copy_s": common.median(times["copy"]),
        "unsorted_s": common.median(times["unsorted"]),
        "sorted_s": common.median(times["sorted"]),
        "unsorted_over_copy": ratio["unsorted"],
        "sorted_over_copy": ratio["sorted"],
        "jobs_reading_input": jobs,
    }


def steps(spark: Any, source: Path, options: Any) -> dict[str, float]:
    """Seconds that each step adds to a sorted optimize by Spark itself: its query is also run up to each step."""
    from zskip.spark.write import rewrite

    passed: dict[str, float] = {}
    routed = rewrite.routed

    def timed(frame: Any, ordinal: str, layout: Any, *, sort: bool) -> Any:
        upto = {
            "read": frame,
            "key": rewrite.place(frame, layout, ordinal=ordinal, key="_key", file_id="_file"),
            "shuffle": routed(frame, ordinal, layout, sort=False),
            "sort": routed(frame, ordinal, layout, sort=True),
        }
        for name, rows in upto.items():
            passed[name] = common.seconds(rows.write.format("noop").mode("overwrite").save)
        return upto["sort"]

    rewrite.routed = timed
    try:
        path = str(target("steps"))
        result = zskip.table(spark, str(source)).optimize(
            common.CLUSTER_BY, files=options.files, into=path, compression="zstd", writer="spark"
        )
    finally:
        rewrite.routed = routed
    # What came before a step is run again with it; the write is what the rewrite took beyond all of these.
    write = result.seconds["rewrite"] - sum(passed.values())
    rest = sum(result.seconds.values()) - result.seconds["rewrite"]
    upto = [0.0, *passed.values(), write]
    added = dict(zip([*passed, "write"], np.diff(upto).tolist(), strict=True))
    return {f"step_{name}_s": round(seconds, 2) for name, seconds in {**added, "rest": rest}.items()}


def reading(spark: Any, table: zskip.Table, wanted: list[str], options: Any) -> dict[str, float]:
    """Mean share, in percent, of rows in kept files and of rows decoded by Spark's scan."""
    kept = [table.prune(where) for where in wanted]
    rows = np.array([scan.rows / scan.rows_total for scan in kept])
    frame = table.df()
    decoded = [
        common.decoded_rows(frame.where(where).selectExpr("count(*)", "sum(l_extendedprice)")) / kept[0].rows_total
        for where in wanted[: options.decoded_queries]
    ]
    return {
        "files": kept[0].files_total,
        "mb": round(kept[0].bytes_total / 1e6, 1),
        "rows_in_kept_files_pct": round(100 * float(rows.mean()), 2),
        "rows_in_kept_files_gmean_pct": round(100 * float(np.exp(np.log(np.maximum(rows, 1e-6)).mean())), 2),
        "rows_decoded_pct": round(100 * float(np.mean(decoded)), 2),
    }


if __name__ == "__main__":
    main()
