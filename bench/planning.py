"""What zskip adds to the planning of a query: by predicates that cannot be pruned, and by one that can.

Through `Table.df()`, and in a session with `zskip.enable` on the same files with an index and without one. The files
are plain Parquet, or those of a table that another format's own reader reads (`--format delta`, `--format iceberg`).

python bench/planning.py --files 64 --more-files 1000
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import zskip
from shared import common

ROWS = 100


def main() -> None:
    """Measure, and print the figures."""
    options = common.arguments(__doc__ or "", files=64, more_files=1000, rounds=40, format="parquet")
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
    warehouse = common.HOME / "planning"
    spark = common.session(**common.reader_conf(options.format, warehouse))
    figures: dict[str, Any] = {"machine": common.machine(), "spark": spark.version}
    for files in (options.files, options.more_files):
        names = [f"{kind}_{files}" for kind in ("indexed", "bare")]
        at = warehouse / options.format
        addresses = [common.as_table(spark, options.format, make(files, name), at, name) for name in names]
        table = zskip.table(spark, addresses[0])
        table.index()
        plain, other = (spark.table(name) for name in names)
        pairs = {
            "added": ((plain, False), (table.df(), False)),
            "enabled_added": ((plain, False), (plain, True)),
            "no_index_added": ((other, False), (other, True)),
        }
        for name, where in predicates.items():
            for kind, pair in pairs.items():
                took = alternate(spark, pair, where, options.rounds)
                more = common.median([1000 * (b - a) for a, b in zip(*took, strict=True)])
                alone = common.median([1000 * a for a in took[0]])
                common.log(f"{files} files, {name}, {kind}: Spark {alone:.1f} ms, zskip {more:+.1f} ms")
                figures[f"{name}_{files}_files_spark_ms"] = round(alone, 1)
                figures[f"{name}_{files}_files_{kind}_ms"] = round(more, 1)
    common.emit(figures, options.json)


def alternate(spark: Any, pair: Any, where: str, rounds: int) -> list[list[float]]:
    """Seconds of each round for each of a pair, in turns; the first rounds warm the JVM.

    pair: a frame, and whether the session is enabled, twice.
    """
    zskip.enable(spark)
    took: list[list[float]] = [[], []]
    for i in range(rounds + rounds // 2):
        for k in (0, 1) if i % 2 else (1, 0):
            frame, is_enabled = pair[k]
            # The setting alone: `enable` leaves objects in the JVM that are cleaned up while the next query is timed.
            spark.conf.set("spark.zskip.enabled", str(is_enabled).lower())
            query = frame.where(where)
            took[k].append(common.seconds(lambda query=query: planned(query)))
    zskip.disable(spark)
    return [times[rounds // 2 :] for times in took]


def planned(query: Any) -> None:
    """Analyze, optimize and plan a query, list its files and split them into tasks; run nothing."""
    query._jdf.queryExecution().executedPlan().execute().getNumPartitions()


def make(files: int, name: str) -> Path:
    """A directory of files of 100 rows, made once."""
    path = common.HOME / "planning" / name
    if path.exists():
        return path
    staging = path.with_suffix(".part")
    staging.mkdir(parents=True, exist_ok=True)
    for i in range(files):
        ids = range(i * ROWS, (i + 1) * ROWS)
        columns = {"a": list(ids), "b": [k % 7 for k in ids], "x": [k / 3 for k in ids], "s": [f"n{k}" for k in ids]}
        pq.write_table(pa.table(columns), staging / f"part-{i:06d}.parquet")
    staging.rename(path)
    return path


if __name__ == "__main__":
    main()
