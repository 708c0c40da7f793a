"""The 99 queries of TPC-DS on clustered fact tables, read by plain Spark and by a session with zskip, in turns.

python bench/queries/tpcds.py --scale 1 --layout date --joins always --queries 1-99

All tables are plain Parquet, or those of a format (`--format delta`, `--format iceberg`) that its own reader reads on
both sides; this needs the jars that `python3 dev.py test-engines` fetches.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import answers
import tpcds_data

import zskip
from shared import measure, session

RUNS = [
    {"name": "tpcds-date", "title": "All of TPC-DS, clustered by date", "case": "usual",
     "text": "The 99 queries, each by plain Spark and in an enabled session in turns, on the same files. The seven "
     "fact tables are clustered by the key of their date, in Z-order by date, item and customer (`three`), or not at "
     "all (`raw`). Megabytes are those of the files of fact tables that the scans of a query read, without what "
     "queries for join keys read before; seconds are the whole query's. At scale factor 10 run the first 20 queries "
     "of which each joins one fact table with some days of `date_dim`. The run fails where an answer differs.",
     "options": "--scale 1 --layout date --joins always",
     "goals": {"identical": ("=", 99), "fact_bytes_over_plain": ("<=", 0.48)}},
    {"name": "tpcds-three-columns", "title": "All of TPC-DS, clustered by three columns",
     "options": "--scale 1 --layout three --joins auto --rounds 2",
     "goals": {"identical": ("=", 99), "fact_bytes_over_plain": ("<=", 0.66), "time_over_plain": ("<=", 1.03)}},
    {"name": "tpcds-not-clustered", "title": "All of TPC-DS, not clustered", "case": "hard",
     "options": "--scale 1 --layout raw --rounds 2",
     "goals": {"identical": ("=", 99), "time_over_plain": ("<=", 1.03)}},
    {"name": "tpcds-delta", "title": "All of TPC-DS, read by Delta", "case": "usual",
     "options": "--scale 1 --layout date --format delta",
     "goals": {"identical": ("=", 99), "fact_bytes_over_plain": ("<=", 0.48), "time_over_plain": ("<=", 1.03)}},
    {"name": "tpcds-iceberg", "title": "All of TPC-DS, read by Iceberg",
     "options": "--scale 1 --layout date --format iceberg"},
    {"name": "tpcds-scale-10", "title": "TPC-DS at scale factor 10", "options": "--scale 10 --layout date",
     "goals": {"identical": ("=", 20), "time_over_plain": ("<=", 0.7)}},
]  # fmt: skip

SIDES = ("plain", "zskip")


@dataclass
class Measured:
    """What both sides took for one query."""

    bytes: dict[str, int] = field(default_factory=dict)
    """Of the files that the scans of fact tables read."""
    seconds: dict[str, list[float]] = field(default_factory=lambda: {side: [] for side in SIDES})
    rows: dict[str, answers.Rows] = field(default_factory=dict)

    def best(self, side: str) -> float:
        """Seconds of a side's quickest round."""
        return min(self.seconds[side])


def run(spark: Any, sql: str, side: str, measured: Measured) -> None:
    """Run a query on one side, and take down what it took."""
    frames: list[Any] = []

    def work() -> None:
        frames.append(spark.sql(sql))
        measured.rows[side] = frames[0].collect()

    with on(spark, side):
        measured.seconds[side].append(measure.seconds(work))
        measured.bytes[side] = fact_bytes(frames[0])


def on(spark: Any, side: str) -> Any:
    """Queries run as they do on this side."""
    return nullcontext() if side == "plain" else zskip.enabled(spark)


def both(spark: Any, sql: str) -> tuple[answers.Rows, answers.Rows]:
    """The answers of both sides, plain Spark's first."""
    measured = Measured()
    for side in SIDES:
        run(spark, sql, side, measured)
    return measured.rows["plain"], measured.rows["zskip"]


def fact_bytes(frame: Any) -> int:
    """Size of the files of fact tables that the scans of an executed query read."""
    scans = session.scans(frame)
    return sum(session.bytes_read(scan) for scan in scans if session.table_name(scan) in tpcds_data.FACTS)


def main() -> None:
    """Check and measure, and print the figures."""
    options = measure.arguments(
        __doc__ or "", scale=1.0, layout="date", format="parquet", joins="auto", queries="", rounds=1
    )
    sqls = tpcds_data.queries()
    chosen = chosen_queries(options)
    spark = session.start(
        **session.readers_conf([options.format], tpcds_data.home(options.scale) / "iceberg"),
        spark__sql__shuffle__partitions="4",
        spark__driver__memory="6g",
        spark__zskip__joins=options.joins,
    )
    facts = tpcds_data.FACTS.keys() & set().union(*(tpcds_data.tables_of(sqls[nr]) for nr in at_scale(options.scale)))
    tpcds_data.with_names(spark, options.scale, options.layout, sorted(facts), options.format)
    warm_up(spark)
    figures: dict[str, Any] = {"queries": " ".join(map(str, chosen)), "identical": 0, "differ": ""}
    measured: dict[int, Measured] = {}
    for at, nr in enumerate(chosen):
        measured[nr] = Measured()
        for turn in range(options.rounds):
            for side in SIDES if (at + turn) % 2 else SIDES[::-1]:
                run(spark, sqls[nr], side, measured[nr])
        rows = measured[nr].rows
        wrong = answers.difference(sqls[nr], rows["plain"], rows["zskip"], partial(both, spark))
        figures["identical"] += wrong is None
        if wrong is not None:
            figures["differ"] += f"Q{nr}: {wrong} "
        figures[f"Q{nr}"] = line(measured[nr])
        measure.log(f"Q{nr}: {figures[f'Q{nr}']}{'' if wrong is None else ' WRONG: ' + wrong}")
    figures |= totals(list(measured.values()))
    measure.emit(figures, options.json)
    if figures["differ"]:
        raise SystemExit(f"answers differ: {figures['differ']}")


def chosen_queries(options: argparse.Namespace) -> list[int]:
    """Which queries to run: those asked for, else all at this scale."""
    ends = [part.partition("-")[::2] for part in options.queries.split(",") if part]
    chosen = {nr for first, last in ends for nr in range(int(first), int(last or first) + 1)}
    return [nr for nr in at_scale(options.scale) if nr in chosen or not ends]


def at_scale(scale: float) -> list[int]:
    """All queries, of a larger scale only the 20 stars."""
    return sorted(tpcds_data.queries()) if scale <= 1 else list(tpcds_data.STARS)


def warm_up(spark: Any) -> None:
    """Let the JVM and zskip load what the first query of a session would wait for, on both sides."""
    for side in SIDES:
        with on(spark, side):
            for name in tpcds_data.FACTS:
                spark.table(name).groupBy().count().collect()
            spark.sql("SELECT count(*) FROM date_dim JOIN time_dim ON d_date_sk = t_time_sk").collect()


def line(measured: Measured) -> str:
    """What one query read and took."""
    sizes = [f"{measured.bytes[side] / 1e6:.1f}" for side in SIDES]
    times = [f"{measured.best(side):.2f}" for side in SIDES]
    return f"{' -> '.join(sizes)} MB, {' -> '.join(times)} s"


def totals(measured: list[Measured]) -> dict[str, Any]:
    """Sums over all queries."""
    sizes = [sum(m.bytes[side] for m in measured) for side in SIDES]
    times = [sum(m.best(side) for m in measured) for side in SIDES]
    return {
        "fact_mb": f"{sizes[0] / 1e6:.1f} -> {sizes[1] / 1e6:.1f}",
        "fact_bytes_over_plain": round(sizes[1] / max(sizes[0], 1), 3),
        "seconds": f"{times[0]:.1f} -> {times[1]:.1f}",
        "time_over_plain": round(times[1] / times[0], 3),
    }


if __name__ == "__main__":
    main()
