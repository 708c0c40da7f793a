"""The 22 queries of TPC-H, on tables as the generator wrote them and, in an enabled session, on clustered ones.

Both are views of `spark.read.parquet`.

python bench/queries/tpch.py --scale 1 --joins always
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tpch_queries import QUERIES

import zskip
from shared import common

CLUSTERED = {
    "lineitem": (["l_shipdate", "l_quantity", "l_discount"], 48),
    "orders": (["o_orderdate", "o_custkey"], 24),
    "part": (["p_size", "p_brand", "p_container"], 12),
    "partsupp": (["ps_partkey", "ps_suppkey"], 12),
    "customer": (["c_mktsegment", "c_phone"], 12),
}
"""Table to the columns it is clustered by, and its number of files."""
WHOLE = ("supplier", "nation", "region")


def main() -> None:
    """Check and measure, and print the figures."""
    options = common.arguments(__doc__ or "", scale=1.0, joins="auto")
    spark = common.session(spark__zskip__joins=options.joins)
    plain = generated(options.scale)
    clustered = {name: cluster(spark, plain / name, *how) for name, how in CLUSTERED.items()}
    figures: dict[str, Any] = {"machine": common.machine(), "spark": spark.version, "identical": 0}
    total = {"before": [0, 0], "after": [0, 0]}
    for i, sql in enumerate(QUERIES, 1):
        for name in (*CLUSTERED, *WHOLE):
            spark.read.parquet(str(plain / name)).createOrReplaceTempView(name)
        expected, before = answer(spark, sql)
        for name, path in clustered.items():
            spark.read.parquet(path).createOrReplaceTempView(name)
        with zskip.enabled(spark):
            found, after = answer(spark, sql)
        if found != expected:
            raise SystemExit(f"query {i} answers {found[:3]}... instead of {expected[:3]}...")
        figures["identical"] += 1
        figures[f"Q{i}"] = f"{show(before)} -> {show(after)}"
        for when, read in (("before", before), ("after", after)):
            total[when] = [a + b for a, b in zip(total[when], read, strict=True)]
    figures["all"] = f"{show(total['before'])} -> {show(total['after'])}"
    figures["bytes_after_over_before"] = round(total["after"][1] / total["before"][1], 3)
    common.emit(figures, options.json)


def generated(scale: float) -> Path:
    """All tables of a scale factor, as many files each as they are clustered into, made once."""
    target = common.HOME / f"tpch-sf{scale:g}"
    if target.exists():
        return target
    common.log(f"generating TPC-H, scale factor {scale:g}")
    staging = common.HOME / f"tpch-staging-sf{scale:g}"
    shutil.rmtree(staging, ignore_errors=True)
    for name in (*CLUSTERED, *WHOLE):
        parts = CLUSTERED[name][1] if name in CLUSTERED else 1
        generate(scale, name, parts, staging)
    staging.rename(target)
    return target


def generate(scale: float, name: str, parts: int, directory: Path) -> None:
    """Write one table as a directory of Parquet files."""
    tool = Path(sys.executable).with_name("tpchgen-cli")
    place = directory / name if parts == 1 else directory
    many = [] if parts == 1 else ["--parts", parts]
    command = [tool, "parquet", "-s", f"{scale:g}", "-T", name, *many, "-o", place]
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def cluster(spark: Any, source: Path, by: list[str], files: int) -> str:
    """Cluster one table into a new one, and return its path."""
    path = common.HOME / "out" / f"tpch-{source.name}"
    shutil.rmtree(path, ignore_errors=True)
    zskip.table(spark, str(source)).optimize(by, files=files, into=str(path))
    return str(path)


def answer(spark: Any, sql: str) -> tuple[list[str], tuple[int, int]]:
    """The rows of a query, in some fixed order, and the files and bytes of the files that its scans read."""
    frame = spark.sql(sql)
    rows = sorted(map(repr, frame.collect()))
    return rows, common.files_and_bytes(frame)


def show(read: Any) -> str:
    """Files and megabytes."""
    return f"{read[0]} files, {read[1] / 1e6:.1f} MB"


if __name__ == "__main__":
    main()
