"""Layouts fitted to a workload, what was predicted of layouts, and pages of fewer rows, with Spark.

python bench/advice.py --data lineitem --scale 0.25 --files 32 --parts fit,pairs
python bench/advice.py --data lineitem --scale 1 --files 32 --parts pages

Queries of three mixes: `even` (as in clustering.py), `first` (mostly the first column) and `last` (mostly narrow ranges
of the last); of each, 100 train and 100 measure. `fit` measures the layouts chosen for a mix on all mixes; `pairs` says
what `what_if` predicts of layouts that were fitted to the training queries of a mix, beside what its other queries read
of them (of rows decoded the first `--decoded` ones); `pages` compares rows a page. Shares are of rows, in percent.
"""

from __future__ import annotations

import shutil
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import zskip
from shared import common
from shared.table_data import MIXES, TABLES, Table, mix
from zskip.table.rewrite import optimize as job

LAYOUTS = (
    ((0, 1, 2), "zorder", 1.0),
    ((0, 1, 2), "hilbert", 1.0),
    ((0, 1, 2), "linear", 1.0),
    ((0, 1, 2), "fitted", 1.0),
    ((0, 1, 2), "zorder", 0.5),
    ((0, 1), "zorder", 1.0),
    ((2, 0), "fitted", 1.0),
)
"""Columns, curve, and files as a part of those asked for; each is fitted to each mix."""

Mixes = dict[str, tuple[list[str], list[str]]]


def main() -> None:
    """Measure, and print the figures."""
    options = common.arguments(
        __doc__ or "", data="lineitem", scale=0.25, files=32, decoded=100, mixes="even,first,last", parts="fit,pairs"
    )
    table = TABLES[options.data]
    source = table.make(options.scale)
    spark = common.session()
    home = common.HOME / f"advice-{options.data}"
    shutil.rmtree(home, ignore_errors=True)
    figures: dict[str, Any] = {"machine": common.machine(), "spark": spark.version}
    mixes = {name: mix(source, table, MIXES[name], options.seed) for name in options.mixes.split(",")}
    for name, part in (("fit", fits), ("pairs", pairs), ("pages", pages)):
        if name in options.parts.split(","):
            figures |= part(spark, source, home, table, mixes, options)
    shutil.rmtree(home, ignore_errors=True)
    common.emit(figures, options.json)


def fits(spark: Any, source: Path, home: Path, table: Table, mixes: Mixes, options: Any) -> dict[str, Any]:
    """Rows in kept files with a workload and without, of queries that were not trained with."""
    written = {"without": clustered(spark, source, home / "without", table.by, files=options.files)}
    for name, (train, _) in mixes.items():
        written[name] = clustered(
            spark, source, home / name, table.by, curve="auto", workload=train, files=options.files
        )
    share = {
        (which, name): float(np.mean(kept(made, tested)))
        for which, (made, _) in written.items()
        for name, (_, tested) in mixes.items()
    }
    figures: dict[str, Any] = {}
    for name in mixes:
        figures[f"{name}_curve"] = written[name][1].curve
        figures[f"{name}_without_pct"] = round(100 * share["without", name], 2)
        figures[f"{name}_with_pct"] = round(100 * share[name, name], 2)
        figures[f"{name}_with_over_without"] = round(share[name, name] / share["without", name], 3)
        stale = max((share[other, name] for other in mixes if other != name), default=0.0)
        figures[f"{name}_stale_over_without"] = round(stale / share["without", name], 3)
    ratios = [figures[f"{name}_with_over_without"] for name in mixes]
    figures["with_over_without"] = round(statistics.geometric_mean(ratios), 3)
    return figures


def pairs(spark: Any, source: Path, home: Path, table: Table, mixes: Mixes, options: Any) -> dict[str, Any]:
    """How far predictions are from what is read, of a table that was sorted by its last column."""
    errors: dict[str, list[float]] = {"kept": [], "decoded": []}
    inside: dict[str, list[bool]] = {"kept": [], "decoded": []}
    signs: list[bool] = []
    today, _ = clustered(spark, source, home / "today", table.by[2:], curve="linear", files=options.files)
    for name, (train, tested) in mixes.items():
        before = kept(today, tested)
        for number, (columns, curve, part) in enumerate(LAYOUTS):
            by, files = [table.by[i] for i in columns], int(options.files * part)
            path = home / f"{name}{number}"
            made, _ = clustered(spark, home / "today", path, by, curve=curve, workload=train, files=files)
            said = today.what_if(by, curve=curve, files=files, workload=tested)
            after = kept(made, tested)
            few = tested[: options.decoded]
            truth = {"kept": float(after.mean()), "decoded": decoded(made, table, few)}
            told = said if len(few) == len(tested) else today.what_if(by, curve=curve, files=files, workload=few)
            predicted = {
                "kept": (said.kept, said.kept_low, said.kept_high),
                "decoded": (told.decoded, told.decoded_low, told.decoded_high),
            }
            for what, (mean, low, high) in predicted.items():
                errors[what].append(abs(mean / truth[what] - 1))
                inside[what].append(low <= truth[what] <= high)
            slower = {query.where for query in said.slower}
            change = after / np.maximum(before, 1e-9)
            right = [(w in slower) == (c > 1) for w, c in zip(tested, change.tolist(), strict=True) if abs(c - 1) > 0.2]
            signs += right
            common.log(
                f"{name}, {curve} by {', '.join(by)}, {files} files: kept {100 * truth['kept']:.2f} %, predicted "
                f"{100 * said.kept:.2f}; decoded {100 * truth['decoded']:.2f} %, predicted {100 * told.decoded:.2f}; "
                f"{sum(right)} of {len(right)} changes"
            )
            shutil.rmtree(path)
    figures: dict[str, Any] = {"pairs": len(errors["kept"])}
    for what in errors:
        figures[f"{what}_mean_error_pct"] = round(100 * statistics.mean(errors[what]), 1)
        figures[f"{what}_inside_interval_pct"] = round(100 * statistics.mean(inside[what]), 1)
    figures["changes"] = len(signs)
    figures["right_sign_pct"] = round(100 * statistics.mean(signs), 1)
    return figures


def pages(spark: Any, source: Path, home: Path, table: Table, mixes: Mixes, options: Any) -> dict[str, Any]:
    """Rows decoded, bytes, and seconds a query, by the rows of a page; queries take turns."""
    tested = mixes["even"][1]
    chosen = job.rows_per_page
    written = {}
    for rows in (20_000, 5_000, 2_000):
        job.rows_per_page = lambda *_, rows=rows: rows  # type: ignore[assignment]
        written[rows] = clustered(spark, source, home / f"pages{rows}", table.by, files=options.files)
    job.rows_per_page = chosen  # type: ignore[assignment]
    took: dict[int, list[float]] = {rows: [] for rows in written}
    read: dict[int, list[float]] = {rows: [] for rows in written}
    frames = {rows: found[0].df() for rows, found in written.items()}
    total = written[20_000][1].rows
    turns = list(frames)
    for number, where in enumerate([*tested[:5], *tested[: options.decoded]]):
        for rows in turns[number % 3 :] + turns[: number % 3]:
            query = frames[rows].where(where).selectExpr("count(*)", f"sum({table.summed})", f"max({table.text})")
            started = time.perf_counter()
            decoded_of = common.decoded_rows(query)
            took[rows].append(time.perf_counter() - started)
            read[rows].append(decoded_of / total)
    figures: dict[str, Any] = {}
    least = written[20_000][1].bytes_after
    for rows in written:
        figures[f"pages{rows}_decoded_pct"] = round(100 * statistics.mean(read[rows][5:]), 2)
        figures[f"pages{rows}_size_over_20000"] = round(written[rows][1].bytes_after / least, 4)
        figures[f"pages{rows}_query_median_s"] = round(statistics.median(took[rows][5:]), 4)
        both = zip(took[rows][5:], took[20_000][5:], strict=True)
        figures[f"pages{rows}_query_over_20000"] = round(statistics.median(few / many for few, many in both), 3)
    return figures


def clustered(spark: Any, source: Path, target: Path, by: Any, **how: Any) -> tuple[zskip.Table, Any]:
    """A copy of the table, optimized."""
    result = zskip.table(spark, str(source)).optimize(list(by), into=str(target), compression="zstd", **how)
    made = zskip.table(spark, str(target))
    made.index()
    return made, result


def kept(table: zskip.Table, tested: list[str]) -> Any:
    """(queries,) share of the rows in kept files."""
    found = [table.prune(where) for where in tested]
    return np.array([report.rows / report.rows_total for report in found])  # type: ignore[operator]


def decoded(made: zskip.Table, table: Table, tested: list[str]) -> float:
    """Mean share of the rows that Spark's scan decodes."""
    frame, rows = made.df(), made.info().rows
    assert rows
    return statistics.mean(
        common.decoded_rows(frame.where(where).selectExpr(f"sum({table.summed})")) / rows for where in tested
    )


if __name__ == "__main__":
    main()
