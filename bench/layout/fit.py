"""Sampling mathematics and fitting of a layout on the driver: seconds and memory, once the sample is there.

python bench/layout/fit.py --rows 50000 --files 64
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


from shared import common
from zskip.layout.fit import fit
from zskip.layout.layout import Layout
from zskip.layout.predict import sample_ranks
from zskip.layout.workload import synthetic_workload
from zskip.records import Field, Sample
from zskip.types import DataType

_QUERIES, _PLACED = 300, 1_000_000


def main() -> None:
    """Measure, and print the figures."""
    options = common.arguments(__doc__ or "", rows=50_000, files=64, rounds=3, scale=2.0)
    sample, total = draw(options)
    common.seconds(lambda: fitted(sample, total, 2, "linear"))
    figures: dict[str, Any] = {"machine": common.machine(), "sample_rows": options.rows, "files": options.files}
    peaks = []
    for curve in ("zorder", "hilbert", "linear"):
        times = [
            common.seconds(lambda curve=curve: fitted(sample, total, options.files, curve))
            for _ in range(options.rounds)
        ]
        figures[f"{curve}_fit_s"] = common.median(times)
        peaks.append(peak_mb(lambda curve=curve: fitted(sample, total, options.files, curve)))
    figures["tree_fit_s"] = common.median(
        [common.seconds(lambda: tree_of(sample, total, options.files)) for _ in range(options.rounds)]
    )
    peaks.append(peak_mb(lambda: tree_of(sample, total, options.files)))
    figures["peak_memory_mb"] = round(max(peaks), 1)
    layouts = {"zorder": fitted(sample, total, options.files, "zorder"), "tree": tree_of(sample, total, options.files)}
    many = np.random.default_rng(0).integers(0, len(sample), _PLACED)
    columns, nulls = [c[many] for c in sample.columns], [n[many] for n in sample.nulls]
    seconds: dict[str, list[float]] = {name: [] for name in layouts}
    for _ in range(options.rounds):
        for name, layout in layouts.items():
            seconds[name].append(
                common.seconds(lambda layout=layout: layout.place(columns, nulls, 0, np.zeros(_PLACED, np.uint64)))
            )
    figures["tree_place_over_zorder"] = round(common.median(seconds["tree"]) / common.median(seconds["zorder"]), 2)
    common.emit(figures, options.json)


def fitted(sample: Sample, total: int, files: int, curve: str) -> Any:
    """One layout."""
    return fit(sample, np.array([files]), partition_rows=np.array([total]), curve=curve)


def tree_of(sample: Sample, total: int, files: int) -> Layout:
    """A tree of cuts, for made-up queries on one or two columns."""
    workload = synthetic_workload(sample_ranks(sample), queries=_QUERIES)
    return fit(sample, np.array([files]), partition_rows=np.array([total]), curve="fitted", workload=workload)


def peak_mb(work: Callable[[], Any]) -> float:
    """Most memory that one call holds at a time beyond what is there before; NumPy reports its arrays."""
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def draw(options: Any) -> tuple[Sample, int]:
    """A uniform sample of lineitem's clustering columns, in their forms."""
    table = ds.dataset(common.lineitem(options.scale), format="parquet").to_table(columns=common.CLUSTER_BY)
    rng = np.random.default_rng(options.seed)
    taken = table.take(np.sort(rng.choice(table.num_rows, options.rows, replace=False)))
    columns = tuple(common._whole(taken[name]) for name in common.CLUSTER_BY)
    types = ("long", "long", "date")
    fields = tuple(Field(name=n, type=DataType(t)) for n, t in zip(common.CLUSTER_BY, types, strict=True))
    rows = options.rows
    sample = Sample(
        fields=fields,
        columns=columns,
        nulls=tuple(np.zeros(rows, bool) for _ in columns),
        partition=np.zeros(rows, np.int32),
        weights=np.full(rows, table.num_rows / rows),
    )
    return sample, table.num_rows


if __name__ == "__main__":
    main()
