"""Merging 10,000 files of 100 kB into files of 128 MB, beside plain Spark reading and writing them into as many.

python bench/compact.py --files 10000 --rounds 2
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import zskip
from shared import common
from shared.resources import Resources

ROWS = 6_000


def main() -> None:
    """Measure, and print the figures."""
    options = common.arguments(__doc__ or "", files=10_000, rounds=2, target="128MB")
    spark = common.session()
    source, ours, plain = (common.HOME / f"compact-{options.files}{name}" for name in ("", "-zskip", "-spark"))
    make(source, options.files)
    spark.range(10).count()
    for file in source.iterdir():  # Whoever is first reads them from memory, too, and with code that is compiled.
        file.read_bytes()
    shutil.rmtree(plain, ignore_errors=True)
    common.link_files(source, ours, options.files // 10)
    copy(spark, ours, plain, 1)
    zskip.table(spark, str(ours)).compact(target_file_size=options.target)
    times: dict[str, list[float]] = {"zskip": [], "spark": []}
    figures: dict[str, Any] = {"machine": common.machine(), "spark": spark.version, "files": options.files}
    for _ in range(options.rounds):
        shutil.rmtree(plain)
        common.link_files(source, ours)
        opened = zskip.table(spark, str(ours))
        with Resources() as used:
            start = time.perf_counter()
            result = opened.compact(target_file_size=options.target)
            times["zskip"].append(time.perf_counter() - start)
        figures |= used.figures("zskip")
        with Resources() as used:
            times["spark"].append(common.seconds(lambda n=result.files_after: copy(spark, source, plain, n)))
        figures |= used.figures("spark")
        common.log(f"in s: { ({name: took[-1] for name, took in times.items()}) }")
    if spark.read.parquet(str(ours)).count() != ROWS * options.files:
        raise SystemExit("rows are lost")
    total = {name: common.median(took) for name, took in times.items()}
    figures |= {
        "files_after": result.files_after,
        "mean_kb": round(sum(f.stat().st_size for f in source.iterdir()) / options.files / 1000),
        "zskip_s": total["zskip"],
        "spark_s": total["spark"],
        "zskip_over_spark": round(total["zskip"] / total["spark"], 2),
    }
    common.emit(figures, options.json)


def make(path: Path, files: int) -> None:
    """Files of about 100 kB, made once."""
    if path.exists():
        return
    staging = path.with_name(f"staging-{path.name}")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    random = np.random.default_rng(1)
    for i in range(files):
        rows = pa.table(
            {
                "id": np.arange(i * ROWS, (i + 1) * ROWS),
                "value": random.random(ROWS),
                "kind": random.integers(0, 50, ROWS),
                "name": [f"n{x}" for x in random.integers(0, 2000, ROWS).tolist()],
            }
        )
        pq.write_table(rows, staging / f"part-{i:06d}.parquet", compression="zstd")
    staging.rename(path)


def copy(spark: object, source: Path, path: Path, files: int) -> None:
    """What plain Spark does: as many tasks as files, without a shuffle."""
    spark.read.parquet(str(source)).coalesce(files).write.parquet(str(path))  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
