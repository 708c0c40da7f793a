"""How near files come to `target_file_size`, in tables whose rows take more or less room once they are clustered.

python bench/file_sizes.py --rows 400000

`small_pct` is the share of files below 0.75 of the target, without the only files of partitions, `mean` the mean size
as a multiple of the target, and `maintained` the number of files that `maintain` rewrites right after.
"""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import zskip
from shared import data, measure, session

KINDS = "correlated,random,wide,skewed,events,partitioned"
WORKLOAD = ["a BETWEEN 10 AND 40", "b = 7", "a < 100 AND b > 50"]


def main() -> None:
    """Measure, and print the figures."""
    options = measure.arguments(
        __doc__ or "", rows=400_000, kinds=KINDS, codecs="snappy,zstd", curves="zorder,hilbert,fitted"
    )
    spark, figures = session.start(), dict[str, Any]()
    for kind in options.kinds.split(","):
        for codec in options.codecs.split(","):
            source = data.emptied(data.HOME / "file-sizes")
            write(make_rows(kind, options.rows, options.seed), source, codec)
            for curve in options.curves.split(","):
                figures |= {f"{kind}_{codec}_{curve}_{k}": v for k, v in sized(spark, source, curve).items()}
                measure.log(f"{kind} {codec} {curve}: {list(figures.items())[-4:]}")
    measure.emit(figures, options.json)


def sized(spark: Any, source: Path, curve: str) -> dict[str, Any]:
    """Cluster a copy of a table, and look at its files."""
    path = data.HOME / "file-sizes-copy"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(source, path)
    target = sum(file.stat().st_size for file in path.rglob("*.parquet")) // 16
    workload = {"workload": WORKLOAD} if curve == "fitted" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = zskip.table(spark, str(path))
        table.optimize(by=["a", "b"], curve=curve, target_file_size=target, **workload)
        sizes = [
            [f.stat().st_size / target for f in d.glob("*.parquet")] for d in {f.parent for f in path.rglob("*.p*")}
        ]
        maintained = table.maintain(**workload).files_removed
    several = np.array([size for some in sizes if len(some) > 1 for size in some])
    return {
        "files": sum(map(len, sizes)),
        "small_pct": 100 * float(np.mean(several < 0.75)),
        "mean": float(several.mean()),
        "maintained": maintained,
    }


def make_rows(kind: str, rows: int, seed: int) -> pa.Table:
    """Rows of a kind; all but events lie in no order."""
    rng = np.random.default_rng(seed)

    def words(count: int, width: int) -> Any:
        return np.array([rng.bytes(width).hex() for _ in range(count)])[rng.integers(0, count, rows)]

    a, b = rng.integers(0, 20_000, rows), rng.integers(0, 1_000, rows)
    if kind == "correlated":
        names = np.char.add("name of a user ", (a // 7).astype(str))
        return pa.table({"a": a, "b": b, "c": a * 3 + rng.integers(0, 3, rows), "name": names})
    if kind == "random":
        return pa.table({"a": rng.integers(0, 2**40, rows), "b": rng.random(rows), "c": rng.random(rows)})
    if kind == "wide":
        texts = [rng.bytes(int(width)).hex() for width in rng.integers(20, 2_000, rows // 8)]
        return pa.table({"a": a[: len(texts)], "b": b[: len(texts)], "text": texts})
    if kind == "skewed":
        heavy = (rng.pareto(1.2, rows) * 10).astype(np.int64)
        return pa.table({"a": heavy, "b": b % 100, "text": np.where(heavy > 30, words(5_000, 20), "short")})
    if kind == "partitioned":
        parts = rng.choice(6, rows, p=[0.5, 0.25, 0.12, 0.08, 0.04, 0.01])
        return pa.table({"p": parts, "a": a, "b": b, "text": words(3_000, 12)})
    times, users = np.sort(rng.integers(0, 30 * 86_400, rows)), (rng.pareto(1.5, rows) * 500).astype(np.int64) % 50_000
    amounts = np.round(rng.gamma(2, 30, rows), 2)
    return pa.table({"a": times, "b": users, "amount": amounts, "kind": words(8, 3), "agent": words(300, 30)})


def write(rows: pa.Table, path: Path, codec: str) -> None:
    """Write rows as twelve files, of each partition if they have any."""
    names = rows.column_names
    for i in range(12):
        part = rows.slice(i * len(rows) // 12, len(rows) // 12)
        for p in part["p"].unique().to_pylist() if "p" in names else [None]:
            directory = path if p is None else path / f"p={p}"
            directory.mkdir(parents=True, exist_ok=True)
            some = part if p is None else part.filter(pa.compute.equal(part["p"], p)).drop_columns("p")
            pq.write_table(some, directory / f"{i}.parquet", compression=codec)


if __name__ == "__main__":
    main()
