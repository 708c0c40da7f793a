"""The 22 queries of TPC-H, on tables as the generator wrote them and, in an enabled session, on clustered ones.

python bench/queries/tpch.py --scale 1 --joins always
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tpch_queries import QUERIES

import zskip
from shared import data, measure, session

RUNS = [
    {"name": "tpch", "title": "All of TPC-H", "case": "usual",
     "text": "Files, and bytes of the files, that the scans of each query read (Spark's own `numFiles` and "
     "`filesSize`): plain Spark on the tables as the generator wrote them, then an enabled session on lineitem, "
     "orders, part, partsupp and customer clustered into as many files, all as views of `spark.read.parquet`. The "
     "run fails where an answer differs. zskip writes the codec of its input (here snappy).",
     "options": "--scale 1 --joins always", "goals": {"identical": ("=", 22), "bytes_after_over_before": ("<=", 0.6)}},
]  # fmt: skip

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
    options = measure.arguments(__doc__ or "", scale=1.0, joins="auto")
    spark = session.start(spark__zskip__joins=options.joins)
    plain = generated(options.scale)
    clustered = {name: cluster(spark, plain / name, *how) for name, how in CLUSTERED.items()}
    figures: dict[str, Any] = {"identical": 0}
    total = [[0, 0], [0, 0]]
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
        total = [[a + b for a, b in zip(*pair, strict=True)] for pair in zip(total, (before, after), strict=True)]
    figures["all"] = f"{show(total[0])} -> {show(total[1])}"
    figures["bytes_after_over_before"] = round(total[1][1] / total[0][1], 3)
    measure.emit(figures, options.json)


def generated(scale: float) -> Path:
    """All tables of a scale factor, as many files each as they are clustered into, made once."""
    parts = {**{name: files for name, (_, files) in CLUSTERED.items()}, **dict.fromkeys(WHOLE, 1)}

    def make(directory: Path) -> None:
        for name, count in parts.items():
            data.generate(directory, scale, name, count)

    return data.once(data.HOME / f"tpch-sf{scale:g}", make)


def cluster(spark: Any, source: Path, by: list[str], files: int) -> str:
    """Cluster one table into a new one, and return its path."""
    path = data.HOME / "out" / f"tpch-{source.name}"
    shutil.rmtree(path, ignore_errors=True)
    zskip.table(spark, str(source)).optimize(by, files=files, into=str(path))
    return str(path)


def answer(spark: Any, sql: str) -> tuple[list[str], tuple[int, int]]:
    """The rows of a query, in some fixed order, and the files and bytes of the files that its scans read."""
    frame = spark.sql(sql)
    rows = sorted(map(repr, frame.collect()))
    return rows, session.files_and_bytes(frame)


def show(read: Any) -> str:
    """Files and megabytes."""
    return f"{read[0]} files, {read[1] / 1e6:.1f} MB"


if __name__ == "__main__":
    main()
