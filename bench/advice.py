"""Layouts fitted to a workload, and what was predicted of layouts, with Spark.

python bench/advice.py --data lineitem --scale 0.25 --files 32

`fits` measures the layouts chosen for a mix on all mixes. `pairs` says what `what_if` predicts of layouts that were
fitted to the training queries of a mix, beside what its other queries read of them.
"""

from __future__ import annotations

import shutil
import statistics
from pathlib import Path
from typing import Any

import numpy as np

import zskip
from shared import data, measure, session
from shared.data import MIXES, TABLES, Table, mix

RUNS = [
    {"name": "advice-lineitem", "title": "Advice and what comes of it: lineitem", "case": "hard",
     "text": "Three mixes of queries on three columns, `even`, `first` (mostly the first column) and `last` (mostly "
     "narrow ranges of the last); of each, 100 train and 100 measure. A third of the queries of `last` ask for the "
     "last column alone: on lineitem in 32 files the best grid for the measured queries themselves reads 0.83 of the "
     'default. `with_over_without`: rows in kept files under the layout that `curve="auto"` chose for a mix, over '
     "those under the default layout. The rest is of seven layouts (columns, curves, numbers of files), each fitted "
     "to each mix: what `Table.what_if` predicted of a table that was sorted by its last column, beside what Spark "
     "then keeps and decodes, and whether the queries that read over 20 % more or less are those that it named.",
     "options": "--data lineitem --scale 0.25 --files 32",
     "goals": {"with_over_without": ("<=", 0.75), "kept_mean_error_pct": ("<=", 10),
     "kept_inside_interval_pct": (">=", 85), "decoded_mean_error_pct": ("<=", 10),
     "decoded_inside_interval_pct": (">=", 85), "right_sign_pct": (">=", 95)}},
    {"name": "advice-connections", "title": "Advice and what comes of it: connections",
     "options": "--data connections --scale 0.25 --files 32"},
]  # fmt: skip

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
    options = measure.arguments(__doc__ or "", data="lineitem", scale=0.25, files=32, mixes="even,first,last")
    table = TABLES[options.data]
    source = table.make(options.scale)
    spark = session.start()
    home = data.HOME / f"advice-{options.data}"
    shutil.rmtree(home, ignore_errors=True)
    figures: dict[str, Any] = {}
    mixes = {name: mix(source, table, MIXES[name], options.seed) for name in options.mixes.split(",")}
    for part in (fits, pairs):
        figures |= part(spark, source, home, table, mixes, options)
    shutil.rmtree(home, ignore_errors=True)
    measure.emit(figures, options.json)


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
            forecast = today.what_if(by, curve=curve, files=files, workload=tested)
            after = kept(made, tested)
            truth = {"kept": float(after.mean()), "decoded": decoded(made, table, tested)}
            predicted = {
                "kept": (forecast.kept, forecast.kept_low, forecast.kept_high),
                "decoded": (forecast.decoded, forecast.decoded_low, forecast.decoded_high),
            }
            for what, (mean, low, high) in predicted.items():
                errors[what].append(abs(mean / truth[what] - 1))
                inside[what].append(low <= truth[what] <= high)
            slower = {query.where for query in forecast.slower}
            change = after / np.maximum(before, 1e-9)
            right = [(w in slower) == (c > 1) for w, c in zip(tested, change.tolist(), strict=True) if abs(c - 1) > 0.2]
            signs += right
            measure.log(f"{name}, {curve} by {', '.join(by)}, {files} files: {truth}, predicted {predicted}")
            shutil.rmtree(path)
    figures: dict[str, Any] = {"pairs": len(errors["kept"])}
    for what in errors:
        figures[f"{what}_mean_error_pct"] = round(100 * statistics.mean(errors[what]), 1)
        figures[f"{what}_inside_interval_pct"] = round(100 * statistics.mean(inside[what]), 1)
    figures["changes"] = len(signs)
    figures["right_sign_pct"] = round(100 * statistics.mean(signs), 1)
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
        session.decoded_rows(frame.where(where).selectExpr(f"sum({table.summed})")) / rows for where in tested
    )


if __name__ == "__main__":
    main()
