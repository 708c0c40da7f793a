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
from shared import common

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
    options = common.arguments(__doc__ or "", scale=1.0, files=64, rounds=5)
    spark = common.session()
    figures: dict[str, Any] = {"machine": common.machine(), "spark": spark.version}
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
            common.log(f"{layout} {name}: {table.last_scan.files} files, {took}")
    common.emit(figures, options.json)


def cluster(spark: Any, scale: float, by: list[str], curve: str, files: int) -> zskip.Table:
    """Cluster lineitem into a new table."""
    path = Path(common.HOME) / "out" / "topk"
    shutil.rmtree(path, ignore_errors=True)
    zskip.table(spark, str(common.lineitem(scale))).optimize(by, curve=curve, files=files, into=str(path))
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
            times.append(common.seconds(lambda view=view: spark.sql(query.format(t=view)).collect()))
    return {view: common.median(times) for view, times in took.items()}


if __name__ == "__main__":
    main()
