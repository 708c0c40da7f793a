"""What a layout that is fitted to a workload reads, on twelve workloads of which the fit has seen other queries.

python bench/workloads.py --rows 1500000 --files 256

No Spark: rows are placed in NumPy, and `prune` answers on the exact bounds of each file. For each workload the share of
rows in kept files: Delta's way (1,000 ranges a column, Z-order, files of equal size), the default layout, the layout
chosen for 200 training queries, what was predicted of it from the sample alone, and under that of the layouts chosen
for the table's other workloads that reads most (those that no longer hold).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from shared import common
from shared import workload_data as data
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

TRAINED, TESTED = 200, 300


def take(sample: Sample, rows: Ints) -> Sample:
    scale = len(sample) / len(rows)
    return Sample(
        fields=sample.fields,
        columns=tuple(c[rows] for c in sample.columns),
        nulls=tuple(n[rows] for n in sample.nulls),
        partition=sample.partition[rows],
        weights=np.full(len(rows), scale),
    )


class Place:
    """One table, its sample and how many files it is to have."""

    def __init__(self, whole: Sample, files: int, sampled: int, curve: str, unseen: float) -> None:
        self.whole, self.files, self.curve = whole, files, curve
        partitions = [Partition(directory="")]
        self.table = SampledTable(whole, (), partitions)
        self.sample = take(whole, np.random.default_rng(7).permutation(len(whole))[:sampled])
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
    options = common.arguments(
        __doc__ or "", rows=1_500_000, files=256, sample=50_000, scale=1.0, only="", curve="auto", unseen=0.2
    )
    makers: dict[str, Callable[[], Sample]] = {
        "uniform": lambda: data.uniform(options.rows),
        "skewed": lambda: data.skewed(options.rows),
        "lineitem": lambda: data.lineitem(sorted(common.lineitem(options.scale).glob("*.parquet")), options.rows),
    }
    found: list[dict[str, Any]] = []
    for name, make in makers.items():
        kinds = [k for k in data.WORKLOADS[name][1] if not options.only or k.split()[0] in options.only.split(",")]
        if kinds:
            rows = measured(
                Place(make(), options.files, options.sample, options.curve, options.unseen),
                data.WORKLOADS[name][0],
                kinds,
            )
            found += [{"table": name, **row} for row in rows]
    figures: dict[str, Any] = {"machine": common.machine()}
    for row in found:
        short = row["workload"].split()[0]
        figures |= {f"{short}_{name}": row[name] for name in row if name not in ("table", "workload")}
    for name in ("delta", "without", "with"):
        figures[f"{name}_pct"] = round(float(np.exp(np.mean([np.log(row[f"{name}_pct"]) for row in found]))), 2)
    for name in makers:
        ratios = [row["with_pct"] / row["without_pct"] for row in found if row["table"] == name]
        if ratios:
            figures[f"{name}_with_over_without"] = round(float(np.exp(np.mean(np.log(ratios)))), 3)
    figures["with_over_without"] = round(figures["with_pct"] / figures["without_pct"], 3)
    stale = [row["stale_pct"] / row["without_pct"] for row in found]
    figures["stale_over_without_mean"] = round(float(np.mean(stale)), 3)
    figures["stale_over_without_worst"] = round(max(stale), 3)
    errors = [abs(row["predicted_pct"] / row["with_pct"] - 1) for row in found]
    figures["prediction_error_mean_pct"] = round(100 * float(np.mean(errors)), 2)
    common.emit(figures, options.json)


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
        common.log(str(found[-1]))
    return found


if __name__ == "__main__":
    main()
