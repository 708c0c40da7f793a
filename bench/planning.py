"""What zskip adds to the planning of a query: by predicates that cannot be pruned, and by one that can.

Each filter is new, and then comes again; at last 8 and 32 threads plan queries at once that cannot be pruned.
Through `Table.df()`, and in a session with `zskip.enable` on the same files with an index and without one. The files
are plain Parquet, or those of a table that another format's own reader reads (`--format delta`, `--format iceberg`).

python bench/planning.py --files 64 --more-files 1000
"""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import zskip
from shared import data, measure, session

RUNS = [
    {"name": "planning", "title": "Planning a query", "case": "hard",
     "text": "What zskip adds to plain Spark's planning (analysis, optimizer, physical plan, list of files): medians "
     "of the differences of queries that take turns. Nothing can be pruned by `hash` (`hash(a) % 7 = 3`), `rand`, "
     "`text` (two functions and an OR), `list` (1,000 values of a product) and `many` (20 conjuncts). `names` lists "
     "1,000 strings, `bounds` has 20 conjuncts that the bounds of all files meet, and `pruned` keeps 3 files. "
     "`added` is through `Table.df()`, `enabled_added` in a session with `zskip.enable` on the same files, "
     "`no_index_added` there on files without an index.",
     "options": "--files 64 --more-files 1000 --rounds 40",
     "goals": {"[!0-9]*_files_added_ms": ("<=", 20), "[!0-9]*_files_enabled_added_ms": ("<=", 6),
     "[!0-9]*_files_no_index_added_ms": ("<=", 2)}},
]  # fmt: skip

ROWS = 100


def predicates(chance: random.Random) -> dict[str, str]:
    """Filters with literals that no query has had before."""
    numbers = [chance.randrange(10**9) for _ in range(1000)]
    low = chance.randrange(ROWS)
    return {
        "hash": f"hash(a, {numbers[0]}) % 7 = 3",
        "rand": f"rand({numbers[0]}) < 0.5",
        "text": f"reverse(s) RLIKE '^[0-9]+' OR sqrt(x) > {numbers[0]}",
        "list": f"a * b IN ({', '.join(map(str, numbers))})",
        "names": "s IN (" + ", ".join(f"'n{number}'" for number in numbers) + ")",
        "many": " AND ".join(f"hash(a, b, {number}) % 7 <> 3" for number in numbers[:20]),
        "bounds": " AND ".join(
            f"{column} > -{number}" for number, column in zip(numbers[:20], "abxab" * 4, strict=True)
        ),
        "pruned": f"a BETWEEN {ROWS + low} AND {3 * ROWS + low}",
    }


def main() -> None:
    """Measure, and print the figures."""
    options = measure.arguments(__doc__ or "", files=64, more_files=1000, rounds=40, format="parquet", only="")
    chance = random.Random(options.seed)
    warehouse = data.HOME / "planning"
    spark = session.start(**session.readers_conf([options.format], warehouse))
    figures: dict[str, Any] = {}
    for files in (options.files, options.more_files):
        names = [f"{kind}_{files}" for kind in ("indexed", "bare")]
        at = warehouse / options.format
        addresses = [session.as_table(spark, options.format, make(files, name), at, name) for name in names]
        table = zskip.table(spark, addresses[0])
        table.index()
        plain, other = (spark.table(name) for name in names)
        pairs = {
            "added": ((plain, False), (table.df(), False)),
            "enabled_added": ((plain, False), (plain, True)),
            "no_index_added": ((other, False), (other, True)),
        }
        zskip.enable(spark)
        for name in options.only.split(",") if options.only else predicates(chance):
            for kind, pair in pairs.items():
                new, again = alternate(spark, pair, lambda name=name: predicates(chance)[name], options.rounds)
                tell(figures, f"{name}_{files}_files", kind, new)
                tell(figures, f"{name}_{files}_files_again", kind, again)
        for threads in (8, 32):
            for kind, pair in pairs.items():
                took = at_once(spark, pair, threads, lambda: predicates(chance)["hash"], max(3, options.rounds // 4))
                tell(figures, f"{threads}_at_once_{files}_files", kind, took)
        zskip.disable(spark)
    measure.emit(figures, options.json)


def tell(figures: dict[str, Any], name: str, kind: str, took: list[list[float]]) -> None:
    """Note what Spark takes alone, and what zskip adds, as medians in milliseconds."""
    alone = measure.median([1000 * a for a in took[0]])
    more = measure.median([1000 * (b - a) for a, b in zip(*took, strict=True)])
    measure.log(f"{name}, {kind}: Spark {alone:.1f} ms, zskip {more:+.1f} ms")
    figures[f"{name}_spark_ms"] = round(alone, 1)
    figures[f"{name}_{kind}_ms"] = round(more, 1)


def alternate(spark: Any, pair: Any, where: Callable[[], str], rounds: int) -> tuple[list[list[float]], ...]:
    """Seconds of each round for each of a pair, in turns, of a new filter and of the same again.

    pair: a frame, and whether the session is enabled, twice. The first rounds warm the JVM.
    """
    new: list[list[float]] = [[], []]
    again: list[list[float]] = [[], []]
    for i in range(rounds + rounds // 2):
        text = where()
        for took in (new, again):
            for k in (0, 1) if i % 2 else (1, 0):
                frame, is_enabled = pair[k]
                # The setting alone: `enable` leaves objects in the JVM that are cleaned up while a query is timed.
                spark.conf.set("spark.zskip.enabled", str(is_enabled).lower())
                query = frame.where(text)
                took[k].append(measure.seconds(lambda query=query: planned(query)))
    return tuple([times[rounds // 2 :] for times in took] for took in (new, again))


def at_once(spark: Any, pair: Any, threads: int, where: Callable[[], str], rounds: int) -> list[list[float]]:
    """Seconds until as many queries as there are threads are planned at once, for each of a pair, in turns."""
    took: list[list[float]] = [[], []]
    with ThreadPoolExecutor(threads) as pool:
        for i in range(rounds + 2):
            texts = [where() for _ in range(threads)]
            for k in (0, 1) if i % 2 else (1, 0):
                frame, is_enabled = pair[k]
                spark.conf.set("spark.zskip.enabled", str(is_enabled).lower())
                queries = [frame.where(text) for text in texts]
                took[k].append(measure.seconds(lambda queries=queries: list(pool.map(planned, queries))))
    return [times[2:] for times in took]


def planned(query: Any) -> None:
    """Analyze, optimize and plan a query, list its files and split them into tasks; run nothing."""
    query._jdf.queryExecution().executedPlan().execute().getNumPartitions()


def make(files: int, name: str) -> Path:
    """A directory of files of 100 rows, made once."""

    def write(directory: Path) -> None:
        for i in range(files):
            ids = range(i * ROWS, (i + 1) * ROWS)
            floats, names = [k / 3 for k in ids], [f"n{k}" for k in ids]
            rows = pa.table({"a": list(ids), "b": [k % 7 for k in ids], "x": floats, "s": names})
            pq.write_table(rows, directory / f"part-{i:06d}.parquet")

    return data.once(data.HOME / "planning" / name, write)


if __name__ == "__main__":
    main()
