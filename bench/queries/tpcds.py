"""The 99 queries of TPC-DS on clustered fact tables, read by plain Spark and by a session with zskip, in turns.

python bench/queries/tpcds.py --scale 1 --layout date --joins always --queries 1-99

All tables are plain Parquet, or those of a format (`--format delta`, `--format iceberg`) that its own reader reads on
both sides; this needs the jars that `python3 dev.py test-engines` fetches.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import answers
import tpcds_data

import zskip
from shared import common

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


class Bench:
    """A session with zskip enabled and not."""

    def __init__(self, spark: Any) -> None:
        self.spark = spark

    @contextmanager
    def side(self, name: str) -> Iterator[None]:
        """Queries run as they do on this side."""
        if name == "plain":
            yield
            return
        with zskip.enabled(self.spark):
            yield

    def run(self, sql: str, side: str, measured: Measured) -> None:
        """Run a query on one side, and take down what it took."""
        with self.side(side):
            frames: list[Any] = []

            def work() -> None:
                frames.append(self.spark.sql(sql))
                measured.rows[side] = frames[0].collect()

            measured.seconds[side].append(common.seconds(work))
            measured.bytes[side] = fact_bytes(frames[0])

    def both(self, sql: str) -> tuple[answers.Rows, answers.Rows]:
        """The answers of both sides, plain Spark's first."""
        found = []
        for side in SIDES:
            with self.side(side):
                found.append(self.spark.sql(sql).collect())
        return found[0], found[1]


def fact_bytes(frame: Any) -> int:
    """Size of the files of fact tables that the scans of an executed query read."""
    scans = common.scans(frame)
    return sum(common.bytes_read(scan) for scan in scans if common.table_name(scan) in tpcds_data.FACTS)


def main() -> None:
    """Check and measure, and print the figures."""
    options = common.arguments(
        __doc__ or "", scale=1.0, layout="date", format="parquet", joins="auto", queries="", rounds=1
    )
    sqls = tpcds_data.queries()
    chosen = chosen_queries(options)
    spark = common.session(
        **common.reader_conf(options.format, tpcds_data.home(options.scale) / "iceberg"),
        spark__sql__shuffle__partitions="4",
        spark__driver__memory="6g",
        spark__zskip__joins=options.joins,
    )
    facts = tpcds_data.FACTS.keys() & set().union(*(tpcds_data.tables_of(sqls[nr]) for nr in at_scale(options.scale)))
    tpcds_data.with_names(spark, options.scale, options.layout, sorted(facts), options.format)
    bench = Bench(spark)
    warm_up(bench)
    figures: dict[str, Any] = {"machine": common.machine(), "spark": spark.version, "queries": shown(chosen)}
    figures |= {"identical": 0, "differ": ""}
    measured: dict[int, Measured] = {}
    for at, nr in enumerate(chosen):
        measured[nr] = Measured()
        for turn in range(options.rounds):
            for side in SIDES if (at + turn) % 2 else SIDES[::-1]:
                bench.run(sqls[nr], side, measured[nr])
        wrong = answers.difference(sqls[nr], measured[nr].rows["plain"], measured[nr].rows["zskip"], bench.both)
        figures["identical"] += wrong is None
        if wrong is not None:
            figures["differ"] += f"Q{nr}: {wrong} "
        figures[f"Q{nr}"] = line(measured[nr])
        common.log(f"Q{nr}: {figures[f'Q{nr}']}{'' if wrong is None else ' WRONG: ' + wrong}")
    figures |= totals(list(measured.values()))
    common.emit(figures, options.json)
    if figures["differ"]:
        raise SystemExit(f"answers differ: {figures['differ']}")


def chosen_queries(options: argparse.Namespace) -> list[int]:
    """Which queries to run: those asked for, else all at this scale."""
    if options.layout not in tpcds_data.LAYOUTS or options.joins not in ("auto", "always", "off"):
        raise SystemExit("--layout is date, three or raw; --joins is auto, always or off")
    if options.format not in common.READERS:
        raise SystemExit(f"--format is {', '.join(common.READERS)}")
    if not options.queries:
        return at_scale(options.scale)
    wanted: set[int] = set()
    for part in options.queries.split(","):
        first, _, last = part.partition("-")
        wanted |= set(range(int(first), int(last or first) + 1))
    return [nr for nr in at_scale(options.scale) if nr in wanted]


def at_scale(scale: float) -> list[int]:
    """All queries, of a larger scale only the 20 stars."""
    return sorted(tpcds_data.queries()) if scale <= 1 else tpcds_data.stars()


def warm_up(bench: Bench) -> None:
    """Let the JVM and zskip load what the first query of a session would wait for, on both sides."""
    for side in SIDES:
        with bench.side(side):
            for name in tpcds_data.FACTS:
                bench.spark.table(name).groupBy().count().collect()
            bench.spark.sql("SELECT count(*) FROM date_dim JOIN time_dim ON d_date_sk = t_time_sk").collect()


def shown(chosen: list[int]) -> str:
    """The numbers of queries, in a line."""
    return " ".join(map(str, chosen))


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
