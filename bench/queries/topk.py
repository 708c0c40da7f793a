"""The first rows, a LIMIT and counts of TPC-H lineitem: files and bytes that are read, and seconds, beside plain Spark.

python bench/queries/topk.py --scale 1 --files 64
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import zskip
from shared import data, measure, session

RUNS = [
    {"name": "topk", "title": "The first rows, LIMIT and counts", "case": "plain",
     "text": "TPC-H lineitem in 64 files, sorted by l_shipdate (`date`) and by the Z-order of three columns "
     "(`zorder`): `ORDER BY l_shipdate DESC LIMIT 10`, `LIMIT 10` and counts over a range of l_shipdate. Files that "
     "are read, the share of the table's bytes in them, and the time of the query over that of plain Spark on the "
     "same files, in turns. The run fails where an answer differs.",
     "options": "--scale 1 --files 64",
     "goals": {"date_top_10_files": ("<=", 4), "date_limit_10_files": ("<=", 1), "date_count_files": ("<=", 0),
     "date_count_range_files": ("<=", 2), "zorder_limit_10_files": ("<=", 1)}},
]  # fmt: skip

BETWEEN = "l_shipdate BETWEEN DATE '1994-01-15' AND DATE '1995-09-20'"
QUERIES = {
    "top_10": "SELECT * FROM {t} ORDER BY l_shipdate DESC LIMIT 10",
    "limit_10": f"SELECT * FROM {{t}} WHERE {BETWEEN} LIMIT 10",
    "count": "SELECT count(*) FROM {t}",
    "count_range": f"SELECT count(*) FROM {{t}} WHERE {BETWEEN}",
    "extremes_range": f"SELECT min(l_shipdate), max(l_commitdate), count(l_tax) FROM {{t}} WHERE {BETWEEN}",
}
LAYOUTS = {"date": (["l_shipdate"], "linear"), "zorder": (["l_shipdate", "l_quantity", "l_discount"], "zorder")}


def main() -> None:
    """Check and measure, and print the figures."""
    options = measure.arguments(__doc__ or "", scale=1.0, files=64, rounds=5)
    spark = session.start()
    figures: dict[str, Any] = {}
    for layout, (by, curve) in LAYOUTS.items():
        table = cluster(spark, options.scale, by, curve, options.files)
        table.df().createOrReplaceTempView("pruned")
        spark.read.parquet(table.path).createOrReplaceTempView("plain")
        for name, query in QUERIES.items():
            table.last_scan = None
            check(spark, name, query)
            assert table.last_scan is not None
            figures[f"{layout}_{name}_files"] = table.last_scan.files
            figures[f"{layout}_{name}_bytes"] = round(table.last_scan.bytes / table.last_scan.bytes_total, 3)
            took = alternate(spark, query, options.rounds)
            figures[f"{layout}_{name}_seconds_over_plain"] = round(took["pruned"] / took["plain"], 2)
            measure.log(f"{layout} {name}: {table.last_scan.files} files, {took}")
    measure.emit(figures, options.json)


def cluster(spark: Any, scale: float, by: list[str], curve: str, files: int) -> zskip.Table:
    """Cluster lineitem into a new table."""
    path = data.HOME / "out" / "topk"
    shutil.rmtree(path, ignore_errors=True)
    zskip.table(spark, str(data.lineitem(scale))).optimize(by, curve=curve, files=files, into=str(path))
    return zskip.table(spark, str(path))


def check(spark: Any, name: str, query: str) -> None:
    """Hold the answer against plain Spark's: of rows that may be any, what they are sorted by and how many they are."""
    found, plain = (spark.sql(query.format(t=view)).collect() for view in ("pruned", "plain"))
    if name == "top_10":
        found, plain = ([row.l_shipdate for row in rows] for rows in (found, plain))
    elif name == "limit_10":
        found, plain = len(found), len(plain)
    if found != plain:
        raise SystemExit(f"{query} answers {found} instead of {plain}")


def alternate(spark: Any, query: str, rounds: int) -> dict[str, float]:
    """Median seconds of a query over each view, in turns."""
    took: dict[str, list[float]] = {"pruned": [], "plain": []}
    for _ in range(rounds):
        for view, times in took.items():
            times.append(measure.seconds(lambda view=view: spark.sql(query.format(t=view)).collect()))
    return {view: measure.median(times) for view, times in took.items()}


if __name__ == "__main__":
    main()
