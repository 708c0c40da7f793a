"""Layouts fitted to a workload, what was predicted of them, and pages of fewer rows: TPC-H lineitem, with Spark.

python bench/advice.py --scale 1 --files 32

100 queries train and 100 of the same distribution measure. Three mixes: `even` (as in clustering.py), `parts` (mostly
l_partkey) and `dates` (mostly narrow ranges of l_shipdate). Shares are of rows, in percent.
"""

from __future__ import annotations

import shutil
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import common
import zskip
from zskip.table import optimize as job

MIXES = {"even": (1.0, 1.0, 1.0), "parts": (6.0, 1.0, 1.0), "dates": (1.0, 1.0, 6.0)}


def main() -> None:
    """Measure, and print the figures."""
    options = common.arguments(__doc__ or "", scale=1.0, files=32, decoded=30, parts="fit,pages")
    source = common.lineitem(options.scale)
    spark = common.session()
    home = common.HOME / "advice"
    shutil.rmtree(home, ignore_errors=True)
    figures: dict[str, Any] = {"machine": common.machine(), "spark": spark.version}
    mixes = {name: mix(source, weights, options.seed) for name, weights in MIXES.items()}
    if "fit" in options.parts:
        figures |= fits(spark, source, home, mixes, options)
    if "pages" in options.parts:
        figures |= pages(spark, source, home, mixes["even"][1], options)
    shutil.rmtree(home, ignore_errors=True)
    common.emit(figures, options.json)


def mix(source: Path, weights: tuple[float, ...], seed: int) -> tuple[list[str], list[str]]:
    """100 queries to train with and 100 to measure: drawn from many by the weights of their columns."""
    rng = np.random.default_rng(seed)
    wanted = common.queries(source, common.CLUSTER_BY, 1_500, seed)
    chances = np.array([max(w for c, w in zip(common.CLUSTER_BY, weights, strict=True) if c in q) for q in wanted])
    chances *= [0.2 if q.count("BETWEEN") == 2 and max(weights) > 1 else 1.0 for q in wanted]
    taken = rng.choice(len(wanted), 200, replace=False, p=chances / chances.sum()).tolist()
    return [wanted[i] for i in taken[:100]], [wanted[i] for i in taken[100:]]


def fits(spark: Any, source: Path, home: Path, mixes: dict[str, tuple[list[str], list[str]]], options: Any) -> Any:
    """Rows in kept files with a workload and without, and beside what was predicted."""
    figures: dict[str, Any] = {}
    errors: dict[str, list[float]] = {"kept": [], "decoded": []}
    inside: list[bool] = []
    signs: list[bool] = []
    table = zskip.table(spark, str(source))
    written = {"without": clustered(spark, source, home / "without", options, curve="zorder")}
    for name, (train, _) in mixes.items():
        written[name] = clustered(spark, source, home / name, options, curve="auto", workload=train)
    shares = {
        (which, name): kept(found[0], tested) for which, found in written.items() for name, (_, tested) in mixes.items()
    }
    for name, (train, tested) in mixes.items():
        with_, without = (float(np.mean(shares[which, name])) for which in (name, "without"))
        stale = max(float(np.mean(shares[other, name])) for other in mixes if other != name)
        figures[f"{name}_curve"] = written[name][1].curve
        figures[f"{name}_kept_pct"] = round(100 * with_, 2)
        figures[f"{name}_with_over_without"] = round(with_ / without, 3)
        figures[f"{name}_stale_over_without"] = round(stale / without, 3)
        for which in ("without", name):
            made, result = written[which]
            said = table.what_if(
                common.CLUSTER_BY, curve="zorder" if which == "without" else result.curve, files=options.files,
                workload=tested if which == "without" else [*train, *tested],
            )  # fmt: skip
            truth = shares[which, name] if which == "without" else np.append(kept(made, train), shares[which, name])
            rows = decoded(spark, made, tested, options)
            errors["kept"].append(abs(said.kept / float(np.mean(truth)) - 1))
            errors["decoded"].append(abs(said.decoded / rows - 1))
            inside.append(said.kept_low <= float(np.mean(truth)) <= said.kept_high)
        slower = {
            query.where for query in table.what_if(common.CLUSTER_BY, files=options.files, workload=tested).slower
        }
        change = shares[name, name] / np.maximum(kept(table, tested), 1e-9)
        signs += [
            (where in slower) == (c > 1) for where, c in zip(tested, change.tolist(), strict=True) if abs(c - 1) > 0.2
        ]
    for what, found in errors.items():
        figures[f"{what}_mean_error_pct"] = round(100 * statistics.mean(found), 1)
    figures["pairs"] = len(inside)
    figures["inside_interval_pct"] = round(100 * statistics.mean(inside), 1)
    figures["right_sign_pct"] = round(100 * statistics.mean(signs), 1)
    return figures


def pages(spark: Any, source: Path, home: Path, tested: list[str], options: Any) -> Any:
    """Rows decoded, bytes, and seconds a query, by the rows of a page; queries take turns."""
    chosen = job.page_rows
    written = {}
    for rows in (20_000, 5_000, 2_000):
        job.page_rows = lambda *_, rows=rows: rows  # type: ignore[assignment]
        written[rows] = clustered(spark, source, home / f"pages{rows}", options, curve="zorder")
    job.page_rows = chosen  # type: ignore[assignment]
    took: dict[int, list[float]] = {rows: [] for rows in written}
    read: dict[int, list[float]] = {rows: [] for rows in written}
    frames = {rows: found[0].df() for rows, found in written.items()}
    total = written[20_000][1].rows
    for where in [*tested[:3], *tested[: options.decoded]]:
        for rows, frame in frames.items():
            query = frame.where(where).selectExpr("count(*)", "sum(l_extendedprice)", "max(l_comment)")
            started = time.perf_counter()
            read[rows].append(common.decoded_rows(query) / total)
            took[rows].append(time.perf_counter() - started)
    figures: dict[str, Any] = {}
    least = written[20_000][1].bytes_after
    for rows in written:
        figures[f"pages{rows}_decoded_pct"] = round(100 * statistics.mean(read[rows][3:]), 2)
        figures[f"pages{rows}_size_over_20000"] = round(written[rows][1].bytes_after / least, 4)
        figures[f"pages{rows}_query_median_s"] = round(statistics.median(took[rows][3:]), 4)
    return figures


def clustered(spark: Any, source: Path, target: Path, options: Any, **how: Any) -> tuple[zskip.Table, Any]:
    """A copy of the table, optimized."""
    table = zskip.table(spark, str(source))
    result = table.optimize(common.CLUSTER_BY, files=options.files, into=str(target), compression="zstd", **how)
    return zskip.table(spark, str(target)), result


def kept(table: zskip.Table, tested: list[str]) -> Any:
    """(queries,) share of the rows in kept files."""
    table.index() if table.info().index is None else None
    found = [table.prune(where) for where in tested]
    return np.array([report.rows / report.rows_total for report in found])  # type: ignore[operator]


def decoded(spark: Any, table: zskip.Table, tested: list[str], options: Any) -> float:
    """Mean share of the rows that Spark's scan decodes."""
    frame = table.df()
    rows = table.info().rows
    assert rows
    few = tested[: options.decoded]
    return statistics.mean(common.decoded_rows(frame.where(w).selectExpr("sum(l_extendedprice)")) / rows for w in few)


if __name__ == "__main__":
    main()
