"""Sampling mathematics and fitting of a layout on the driver: seconds and memory, once the sample is there.

python bench/fit.py --rows 50000 --files 64
"""

from __future__ import annotations

import resource
import sys
from typing import Any

import common
import numpy as np
import pyarrow.dataset as ds

from zskip.layout import fit
from zskip.records import Field, Sample
from zskip.types import DataType


def main() -> None:
    """Measure, and print the figures."""
    options = common.arguments(__doc__ or "", rows=50_000, files=64, rounds=3, scale=2.0)
    sample, total = draw(options)
    common.seconds(lambda: fitted(sample, total, 2, "linear"))
    before = peak_mb()
    figures: dict[str, Any] = {"machine": common.machine(), "sample_rows": options.rows, "files": options.files}
    for curve in ("zorder", "hilbert", "linear"):
        times = [
            common.seconds(lambda curve=curve: fitted(sample, total, options.files, curve))
            for _ in range(options.rounds)
        ]
        figures[f"{curve}_fit_s"] = common.median(times)
    figures["peak_memory_mb"] = round(peak_mb() - before, 1)
    common.emit(figures, options.json)


def fitted(sample: Sample, total: int, files: int, curve: str) -> Any:
    """One layout."""
    return fit(sample, np.array([files]), partition_rows=np.array([total]), curve=curve)


def peak_mb() -> float:
    """The largest resident size of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


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
