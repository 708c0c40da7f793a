"""What zskip adds to the planning of a query: by predicates that cannot be pruned, and by one that can.

python bench/planning.py --files 64 --more-files 1000
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import common
import zskip

ROWS = 100


def main() -> None:
    """Measure, and print the figures."""
    options = common.arguments(__doc__ or "", files=64, more_files=1000, rounds=40)
    chance = random.Random(options.seed)
    listed = ", ".join(str(chance.randrange(10**9)) for _ in range(1000))
    predicates = {
        "hash": "hash(a) % 7 = 3",
        "rand": "rand() < 0.5",
        "text": "reverse(s) RLIKE '^[0-9]+' OR sqrt(x) > 7",
        "list": f"a * b IN ({listed})",
        "many": " AND ".join(f"hash(a, b, {i}) % 7 <> 3" for i in range(20)),
        "pruned": f"a BETWEEN {ROWS} AND {3 * ROWS}",
    }
    spark = common.session()
    figures: dict[str, Any] = {"machine": common.machine(), "spark": spark.version}
    for files in (options.files, options.more_files):
        path = make(files)
        table = zskip.table(spark, str(path))
        table.index()
        frames = {"spark": spark.read.parquet(str(path)), "zskip": table.df()}
        for name, where in predicates.items():
            took = alternate(frames, where, options.rounds)
            more = common.median([1000 * (b - a) for a, b in zip(took["spark"], took["zskip"], strict=True)])
            plain = common.median([1000 * a for a in took["spark"]])
            common.log(f"{files} files, {name}: Spark {plain:.1f} ms, zskip {more:+.1f} ms")
            figures[f"{name}_{files}_files_spark_ms"] = round(plain, 1)
            figures[f"{name}_{files}_files_added_ms"] = round(more, 1)
    common.emit(figures, options.json)


def alternate(frames: dict[str, Any], where: str, rounds: int) -> dict[str, list[float]]:
    """Seconds of each round, in turns; the first rounds warm the JVM."""
    took: dict[str, list[float]] = {name: [] for name in frames}
    for _ in range(rounds + rounds // 2):
        for name, frame in frames.items():
            query = frame.where(where)
            took[name].append(common.seconds(lambda query=query: planned(query)))
    return {name: times[rounds // 2 :] for name, times in took.items()}


def planned(query: Any) -> None:
    """Analyze, optimize and plan a query, list its files and split them into tasks; run nothing."""
    query._jdf.queryExecution().executedPlan().execute().getNumPartitions()


def make(files: int) -> Path:
    """A directory of files of 100 rows, made once."""
    path = common.HOME / f"planning-{files}"
    if path.exists():
        return path
    staging = common.HOME / f"planning-{files}.part"
    staging.mkdir(parents=True, exist_ok=True)
    for i in range(files):
        ids = range(i * ROWS, (i + 1) * ROWS)
        columns = {"a": list(ids), "b": [k % 7 for k in ids], "x": [k / 3 for k in ids], "s": [f"n{k}" for k in ids]}
        pq.write_table(pa.table(columns), staging / f"part-{i:06d}.parquet")
    staging.rename(path)
    return path


if __name__ == "__main__":
    main()
