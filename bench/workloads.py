"""What a layout that is fitted to a workload reads, on twelve workloads of which the fit has seen other queries.

python bench/workloads.py --rows 1500000 --files 256

No Spark: rows are placed in NumPy, and `prune` answers on the exact bounds of each file.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from statistics import geometric_mean
from typing import Any

import numpy as np

from shared import data, measure, workload_data
from zskip.advisor.fitting.cross_validation import (
    ParsedWorkload,
    Target,
    best_curve,
    cross_validate,
    fit_layout,
    predict_reads,
)
from zskip.advisor.fitting.sample_statistics import Groups, SampledTable
from zskip.layout.curves import curves_for
from zskip.layout.fit import fit
from zskip.layout.layout import Layout
from zskip.layout.patterns import spread, zorder_pattern
from zskip.layout.ranks import determine_bounds
from zskip.predicate import Predicate
from zskip.records import Ints, Partition, Sample

RUNS = [
    {"name": "workloads", "title": "Layouts fitted to a workload", "case": "usual",
     "text": "Four workloads on each of three tables (uniform, skewed, six columns of TPC-H lineitem), without "
     "Spark: 200 queries train, 300 of the same kind measure. `delta` is a Z-order over 1,000 ranges a column with "
     'files of equal size, `without` the default layout, `with` the one that `curve="auto"` chooses for the '
     "workload, `predicted` what the sample says of it, and `stale` the worst of the layouts that were chosen for "
     "the other workloads of the table. Percent of the rows in kept files; means over workloads are geometric.",
     "options": "--rows 1500000 --files 256",
     "goals": {"with_pct": ("<=", 9), "without_pct": ("<=", 14), "stale_over_without_mean": ("<=", 1.3),
     "stale_over_without_worst": ("<=", 1.95), "prediction_error_mean_pct": ("<=", 10)}},
]  # fmt: skip

TRAINED, TESTED = 200, 300


class Place:
    """One table, its sample and how many files it is to have."""

    def __init__(self, whole: Sample, files: int, sampled: int, curve: str, unseen: float) -> None:
        self.whole, self.files, self.curve = whole, files, curve
        partitions = [Partition(directory="")]
        self.table = SampledTable(whole, (), partitions)
        rows = np.random.default_rng(7).permutation(len(whole))[:sampled]
        self.sample = replace(
            whole, columns=tuple(c[rows] for c in whole.columns), nulls=tuple(n[rows] for n in whole.nulls),
            partition=whole.partition[rows], weights=np.full(len(rows), len(whole) / len(rows)),
        )  # fmt: skip
        self.sampled = SampledTable(self.sample, (), partitions)
        self.target = Target(files=np.array([files]), partition_rows=np.array([len(whole)]), unseen=unseen)

    def groups(self, ids: Ints) -> Groups:
        order = np.argsort(ids, kind="stable")
        starts = np.flatnonzero(np.diff(ids[order], prepend=-1))
        sizes = np.diff(np.append(starts, len(ids))).astype(float)
        return Groups(self.table, order, starts, sizes)

    def placed(self, layout: Layout) -> Groups:
        tie = np.random.default_rng(1).integers(0, 2**63, len(self.whole), dtype=np.uint64)
        files, _ = layout.place(self.whole.columns, self.whole.nulls, self.whole.partition, tie)
        return self.groups(files.astype(np.int64))

    def as_delta(self) -> Groups:
        codes = []
        for values, some in zip(self.whole.columns, self.sample.columns, strict=True):
            bounds = determine_bounds(some, np.ones(len(some)), 1000)
            codes.append(np.searchsorted(bounds, values, "left").astype(np.int64))
        keys = np.zeros(len(self.whole), np.int64)
        for column, column_codes in enumerate(codes):
            keys |= spread(column_codes, zorder_pattern([10] * len(codes)), column)
        place = np.argsort(np.argsort(keys, kind="stable"), kind="stable")
        return self.groups((place * self.files // len(keys)).astype(np.int64))

    def choose(self, asked: ParsedWorkload) -> tuple[str, Layout]:
        curve = self.curve
        if curve == "auto":
            curves = curves_for(len(self.sample.fields))
            reads_by_curve = cross_validate(self.sample, self.sampled, self.target, asked, curves)
            curve = best_curve(reads_by_curve, asked.weights, self.target.unseen)
        return curve, fit_layout(self.sample, self.target, asked, curve)


def share(files: Groups, predicates: list[Predicate]) -> float:
    """Mean share of the rows in files that a query reads."""
    return float(np.mean([files.share(p) for p in predicates]))


def main() -> None:
    """Measure, and print the figures."""
    options = measure.arguments(
        __doc__ or "", rows=1_500_000, files=256, sample=50_000, scale=1.0, curve="auto", unseen=0.2
    )
    makers: dict[str, Callable[[], Sample]] = {
        "uniform": lambda: workload_data.uniform(options.rows),
        "skewed": lambda: workload_data.skewed(options.rows),
        "lineitem": lambda: workload_data.lineitem(
            sorted(data.lineitem(options.scale).glob("*.parquet")), options.rows
        ),
    }
    found: list[dict[str, Any]] = []
    for name, make in makers.items():
        place = Place(make(), options.files, options.sample, options.curve, options.unseen)
        found += [{"table": name, **row} for row in measured(place, *workload_data.WORKLOADS[name])]
    figures: dict[str, Any] = {}
    for row in found:
        short = row["workload"].split()[0]
        figures |= {f"{short}_{name}": row[name] for name in row if name not in ("table", "workload")}
    for name in ("delta", "without", "with"):
        figures[f"{name}_pct"] = round(geometric_mean([row[f"{name}_pct"] for row in found]), 2)
    for name in makers:
        ratios = [row["with_pct"] / row["without_pct"] for row in found if row["table"] == name]
        figures[f"{name}_with_over_without"] = round(geometric_mean(ratios), 3)
    figures["with_over_without"] = round(figures["with_pct"] / figures["without_pct"], 3)
    stale = [row["stale_pct"] / row["without_pct"] for row in found]
    figures["stale_over_without_mean"] = round(float(np.mean(stale)), 3)
    figures["stale_over_without_worst"] = round(max(stale), 3)
    errors = [abs(row["predicted_pct"] / row["with_pct"] - 1) for row in found]
    figures["prediction_error_mean_pct"] = round(100 * float(np.mean(errors)), 2)
    measure.emit(figures, options.json)


def measured(place: Place, asking: Callable[..., list[Predicate]], kinds: list[str]) -> list[dict[str, Any]]:
    """The figures of each workload of a table, in percent of its rows."""
    default = place.placed(fit(place.sample, place.target.files, partition_rows=place.target.partition_rows))
    delta, layouts, found = place.as_delta(), {}, []
    for kind in kinds:
        started = time.process_time()
        predicates = asking(place.whole, kind, TRAINED, 11)
        asked = ParsedWorkload(predicates=predicates, weights=np.full(TRAINED, 1 / TRAINED))
        curve, layout = place.choose(asked)
        layouts[kind] = curve, layout, place.placed(layout), time.process_time() - started
    for kind in kinds:
        tested = asking(place.whole, kind, TESTED, 99)
        curve, layout, files, seconds = layouts[kind]
        predicted = predict_reads(layout, place.sample, place.sampled, place.target, tested)
        shares = {
            "delta": share(delta, tested),
            "without": share(default, tested),
            "with": share(files, tested),
            "predicted": float(predicted.kept.mean()),
            "stale": max((share(layouts[other][2], tested) for other in kinds if other != kind), default=0.0),
        }
        percents = {f"{name}_pct": round(100 * share, 2) for name, share in shares.items()}
        found.append({"workload": kind, **percents, "curve": curve, "cpu_s": round(seconds, 1)})
        measure.log(str(found[-1]))
    return found


if __name__ == "__main__":
    main()
