"""What sketches that a workload chooses save on a trace that repeats and drifts, and what they cost.

python bench/learned.py --scale 1 --files 64 --queries 300

Redbench (PVLDB 19(1), 2026, arXiv:2511.13059) sorts the users of Amazon's Redset into ten classes by the share of their
queries that repeat an earlier one, and keeps two kinds of repetition: of the whole text, and of the tables alone, with
other filters. The trace has a user of each class. Half of the filters are on texts; that share is ours.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import zskip
from shared import data, measure, session

RUNS = [
    {"name": "learned", "title": "Sketches that a workload chooses", "case": "hard",
     "text": "TPC-H lineitem by `l_shipdate` and a log with JSON by time, in 64 files each, and a trace for each in "
     "the shape of Redbench: ten users, of whom 5 to 95 % of the queries repeat an earlier one word for word; others "
     "are of the same kinds with other literals. Half of the filters are on texts. `index(sketches=\"auto\")` after "
     "the first half. Of the second half, `repeated_over_before` and `drifting_over_before`: bytes in kept files over "
     "those kept without sketches, of queries that the first half had, and of the others. `build_over_rewrite`: the "
     "time of that call over the time of `optimize`. `kept_pct`: bytes of the sketches in % of the table. `wrong`: "
     "queries of the whole trace that find another number of rows than Spark alone. `taught_over_before`: bytes that "
     "60 filters read the second time under `spark.zskip.learn`, over those without; `teaching_over_plain`: time of "
     "the first time, over that without, one after the other. Each task reads one file there, as it does of files of "
     "128 MB.",
     "options": "--scale 1 --files 64 --queries 300",
     "goals": {"*_repeated_over_before": ("<=", 0.35), "*_drifting_over_before": ("<=", 1.0),
               "*_taught_over_before": ("<=", 0.35), "*_teaching_over_plain": ("<=", 1.03),
               "*_build_over_rewrite": ("<=", 0.03), "*_kept_pct": ("<=", 0.5), "*_wrong": ("=", 0)}},
]  # fmt: skip

CLASSES = [0.05 + 0.1 * i for i in range(10)]
"""Share of a user's queries that repeat an earlier one."""
LOG = """
    SELECT timestamp_seconds(1700000000 + id DIV 20) AS at, CAST(pmod(hash(id), 400) AS INT) AS host,
           concat('GET /', element_at(array('cart', 'item', 'search', 'login'), 1 + pmod(hash(id, 1), 4)), '/',
                  lower(hex(pmod(hash(id DIV 3000, id % 5), 65536))), ' took ', pmod(hash(id, 2), 900), ' ms') AS text,
           to_json(named_struct('user', pmod(hash(id DIV 40, 3), {rows} DIV 10), 'status',
                   IF(pmod(hash(id DIV 2000), 29) = 0, 503, 200), 'ms', pmod(hash(id, 2), 900))) AS js
    FROM range(0, {rows}, 1, 16)
"""
ROWS = 6_000_000
"""Of the log at scale factor 1."""

ONE_FILE = str(4 << 20)
"""Bytes of a task's files, so that each has one."""

Kind = Callable[[Any, random.Random], str]
"""Makes a filter from a row of the table."""
KINDS: dict[str, tuple[Sequence[Kind], Sequence[Kind]]] = {
    "lineitem": (
        (
            lambda row, _: f"l_comment LIKE '%{_part(row.l_comment, 24)}%'",
            lambda row, _: f"l_comment LIKE '%{_part(row.l_comment[:14], 14)}%{_part(row.l_comment[16:], 9)}%'",
            lambda row, _: f"l_comment RLIKE '^{_part(row.l_comment, 20)}'",
        ),
        (
            lambda row, _: f"l_partkey = {row.l_partkey}",
            lambda row, r: f"l_suppkey IN ({row.l_suppkey}, {row.l_suppkey + r.randint(1, 9)})",
            lambda row, _: f"l_extendedprice * l_discount = {row.l_extendedprice} * {row.l_discount}",
            lambda row, _: f"l_shipdate = DATE '{row.l_shipdate}' AND l_receiptdate > l_commitdate",
        ),
    ),
    "log": (
        (
            lambda row, _: f"text LIKE '%/{row.text.split('/')[2].split(' ')[0]} took%'",
            lambda row, _: f"text RLIKE '{row.text.split('/')[2].split(' ')[0]} .* 7[0-9][0-9] ms'",
            lambda row, _: f"text LIKE 'GET /cart/{row.text.split('/')[2][:3]}%'",
        ),
        (
            lambda row, _: f"get_json_object(js, '$.user') = '{_json(row.js, 'user')}'",
            lambda row, _: f"get_json_object(js, '$.status') = '503' AND host = {row.host}",
            lambda row, _: (
                f"CAST(get_json_object(js, '$.user') AS DOUBLE) BETWEEN {_json(row.js, 'user')} AND "
                f"{int(_json(row.js, 'user')) + 3}"
            ),
        ),
    ),
}
"""Of each table: filters on texts, and others."""


def _part(text: str, length: int) -> str:
    return text[:length].replace("'", "''").strip()


def _json(text: str, name: str) -> str:
    return text.split(f'"{name}":')[1].split(",")[0].rstrip("}")


def main() -> None:
    """Measure, and print the figures."""
    options = measure.arguments(__doc__ or "", scale=1.0, files=64, queries=300, taught=60)
    spark = session.start()
    figures: dict[str, Any] = {}
    for name, by in (("lineitem", "l_shipdate"), ("log", "at")):
        source = data.lineitem(options.scale) if name == "lineitem" else log_table(spark, options.scale)
        path = data.emptied(data.HOME / "out" / f"learned-{name}")
        path.rmdir()
        rewriting = measure.seconds(
            lambda s=source, b=by, p=path: zskip.table(spark, str(s)).optimize(
                b, curve="linear", files=options.files, into=str(p)
            )
        )
        table = zskip.table(spark, str(path))
        trace = make_trace(table.df(), name, options.queries, options.seed)
        measured = taught(spark, table, list(dict.fromkeys(trace))[: options.taught])
        measured |= learned(spark, table, trace, rewriting)
        figures |= {f"{name}_{key}": value for key, value in measured.items()}
        measure.log(f"{name}: {measured}")
    measure.emit(measure.rounded(figures), options.json)


def log_table(spark: Any, scale: float) -> Path:
    """The log, made once."""
    rows = int(ROWS * scale)
    return data.once(
        data.HOME / f"learned-log-sf{scale:g}",
        lambda path: spark.sql(LOG.format(rows=rows)).write.mode("overwrite").parquet(str(path)),
    )


def make_trace(frame: Any, name: str, count: int, seed: int) -> list[str]:
    """The filters of ten users in turns."""
    chance, rows = random.Random(seed), frame.sample(0.01, seed=seed).limit(20 * count).collect()
    texts, others = KINDS[name]
    earlier: list[list[str]] = [[] for _ in CLASSES]
    trace = []
    for i in range(count):
        user = i % len(CLASSES)
        if earlier[user] and chance.random() < CLASSES[user]:
            where = chance.choice(earlier[user])
        else:
            where = chance.choice(texts if chance.random() < 0.5 else others)(chance.choice(rows), chance)
        earlier[user].append(where)
        trace.append(where)
    return trace


def learned(spark: Any, table: zskip.Table, trace: Sequence[str], rewriting: float) -> dict[str, Any]:
    """What the second half of a trace reads after sketches were chosen by the first half, and what they cost."""
    half = len(trace) // 2
    before = {where: kept_bytes(table, where) for where in dict.fromkeys(trace)}
    table.record()
    for where in trace[:half]:
        table.files(where)
    table.record(False)
    started = time.perf_counter()
    index = table.index(sketches="auto")
    building = time.perf_counter() - started
    measure.log("\n".join(str(choice) for choice in index.choices or ()))
    after = {where: kept_bytes(table, where) for where in before}
    first = set(trace[:half])
    repeated, drifting = ([w for w in trace[half:] if (w in first) is known] for known in (True, False))
    return {
        "repeated_over_before": sum(after[w] for w in repeated) / sum(before[w] for w in repeated),
        "drifting_over_before": sum(after[w] for w in drifting) / sum(before[w] for w in drifting),
        "repeated_pct": 100 * len(repeated) / (len(trace) - half),
        "build_over_rewrite": building / rewriting,
        "kept_pct": 100 * sum(sketch.bytes for sketch in index.sketches) / (table.info().bytes or 1),
        "sketches": len(index.sketches),
        "wrong": sum(trace.count(where) for where in wrong(spark, table, list(before))),
    }


def kept_bytes(table: zskip.Table, where: str) -> int:
    """The bytes of the files that a query keeps, planned as in its session."""
    return int(table.explain(where).steps[-1].bytes)


def taught(spark: Any, table: zskip.Table, wheres: Sequence[str]) -> dict[str, float]:
    """What filters read that ran once under `spark.zskip.learn`, over before, and what a query takes with it."""
    table.index()

    def run_all(setting: str) -> tuple[float, int]:
        spark.conf.set("spark.zskip.learn", setting)
        seconds = size = 0.0
        for where in wheres:
            seconds += measure.seconds(spark.read.parquet(table.path).where(where).count)
            spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
            size += zskip.scans(spark)[0].bytes
        return seconds, int(size)

    with zskip.enabled(spark):
        spark.conf.set("spark.sql.files.maxPartitionBytes", ONE_FILE)
        # The first round warms the JVM; facts count from the first query that has shown them.
        _, (plain, before), (teaching, _), (_, after) = map(run_all, ("false", "false", "true", "true"))
    spark.conf.unset("spark.zskip.learn")
    spark.conf.unset("spark.sql.files.maxPartitionBytes")
    return {"taught_over_before": after / before, "teaching_over_plain": teaching / plain}


def wrong(spark: Any, table: zskip.Table, wheres: Sequence[str], at_once: int = 100) -> list[str]:
    """The filters of which a query under zskip finds another number of rows than Spark alone."""
    frame, bad = spark.read.parquet(table.path), []
    for start in range(0, len(wheres), at_once):
        some = wheres[start : start + at_once]
        (counts,) = frame.agg(*(_column(f"count_if({where})") for where in some)).collect()
        with zskip.enabled(spark):
            bad += [where for where, count in zip(some, counts, strict=True) if frame.where(where).count() != count]
    return bad


def _column(text: str) -> Any:
    from pyspark.sql import functions

    return functions.expr(text)


if __name__ == "__main__":
    main()
