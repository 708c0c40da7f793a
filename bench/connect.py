"""What queries and rewrites through Spark Connect read and take, beside a classic session's.

python bench/connect.py --part queries --scale 1 --files 64 --queries 60
python bench/connect.py --part writes --scale 1 --files 64 --rounds 3

The server is PySpark's own, in another process with as many cores. Needs the jars that `python3 dev.py test-engines`
fetches.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

import pandas as pd
import pyarrow.parquet as pq
from connect_server import Server, connect_server

import zskip
from shared import data, measure, session
from shared.data import TABLES
from shared.engines import ENGINES

RUNS = [
    {"name": "connect-queries", "title": "Queries through Spark Connect", "case": "usual",
     "text": "TPC-H lineitem in 64 files clustered by three columns, read by path as plain Parquet, Delta and Iceberg: "
     "random queries by DataFrames in a classic session and through a Spark Connect server in another process, each "
     "plain and under `zskip.enable`, all in turns; answers are compared. Every second query has its columns within "
     "expressions, for which the formats' readers skip nothing. `rows_over_classic`: rows that the scans decode "
     "connected over those of the classic session, both under `enable`; `rows_over_plain`: over those of plain "
     "Connect. `client_ms`: the median of what the client spends on a query before it is sent, its listing of the "
     "table (`listing_ms`) included; `added_ms`: the median of the differences between a connected query with "
     "`enable` and without, which read more; `explain_more_ms`: as `added_ms`, of `explain`.",
     "options": "--part queries --scale 1 --files 64 --queries 60",
     "goals": {"parquet_rows_over_classic": ("<=", 1.2), "delta_rows_over_classic": ("<=", 1.5),
               "iceberg_rows_over_classic": ("<=", 1.5), "*_client_ms": ("<=", 10), "*_added_ms": ("<=", 10)}},
    {"name": "connect-writes", "title": "Rewrites through Spark Connect",
     "text": "`optimize` of TPC-H lineitem, then an `append` of as many rows, in a classic session and through a Spark "
     "Connect server in turns, on fresh tables of plain Parquet. `same_files`: whether both write files of the "
     "same rows in the same order.",
     "options": "--part writes --scale 1 --files 64 --rounds 2",
     "goals": {"optimize_over_classic": ("<=", 1.25), "append_over_classic": ("<=", 1.25),
               "*_same_files": ("=", True)}},
]  # fmt: skip

HOME = data.HOME / "connect"
SUMS = ["count(*) AS n", "sum(l_quantity) AS quantity", "sum(l_extendedprice) AS price"]
FORMATS = ("parquet", "delta", "iceberg")
SIDES = ("classic_plain", "classic", "connected_plain", "connected")


def main() -> None:
    """Measure, and print the figures."""
    options = measure.arguments(__doc__ or "", part="queries", scale=1.0, files=64, queries=60, rounds=3)
    conf = {**session.readers_conf(FORMATS, HOME), "spark.sql.parquet.compression.codec": "zstd"}
    classic = session.start(**conf)
    with connect_server(HOME / "server", {**conf, "spark.driver.memory": "4g"}) as server:
        part = {"queries": queries, "writes": writes}[options.part]
        measure.emit(part(classic, server, options), options.json)


def queries(classic: Any, server: Server, options: Any) -> dict[str, Any]:
    """Rows decoded and milliseconds of each side and format."""
    source = data.lineitem(options.scale)
    texts = data.random_queries(source, data.CLUSTER_BY, options.queries, options.seed)
    texts = [within_expressions(text) if i % 2 else text for i, text in enumerate(texts)]
    figures: dict[str, Any] = {"queries": len(texts)}
    paths = {name: table(classic, name, source, options.files) for name in FORMATS}
    sessions = {"classic_plain": classic, "classic": classic}
    sessions |= {side: server.session() for side in ("connected_plain", "connected")}
    zskip.enable(classic)
    zskip.enable(sessions["connected"])
    for name, path in paths.items():
        frames = {side: spark.read.format(name).load(path) for side, spark in sessions.items()}
        with client_times(sessions["connected"]) as client:
            measured = compared(sessions, frames, texts)
        measured |= {key: round(statistics.median(values[-len(texts) :]), 1) for key, values in client.items()}
        figures |= {f"{name}_{key}": value for key, value in measured.items()}
        measure.log(f"{name}: {measured}")
    return figures


def within_expressions(where: str) -> str:
    """The same condition, of whose columns the formats' readers know no bounds."""
    where = where.replace("l_shipdate", "date_add(l_shipdate, 0)")
    return where.replace("l_partkey", "l_partkey + 0").replace("l_suppkey", "l_suppkey + 0")


@contextmanager
def client_times(spark: Any) -> Iterator[dict[str, list[float]]]:
    """Milliseconds that the client of a session spends on each query before it is sent, and on listing the table."""
    from zskip.spark.connect.interceptor import find_interceptor
    from zskip.table.read import connected

    interceptor = find_interceptor(spark)
    assert interceptor is not None, "zskip.enable puts it there"
    took: dict[str, list[float]] = {"client_ms": [], "listing_ms": []}
    pruner: Any = interceptor.queries
    change, read = pruner.change, connected.read_snapshot

    def timed_change(method: str, request: Any) -> Any:
        begun = time.perf_counter()
        result = change(method, request)
        if method == "ExecutePlan" and request.plan.HasField("root"):
            took["client_ms"].append(1000 * (time.perf_counter() - begun))
        return result

    def timed_read(handle: Any) -> Any:
        begun = time.perf_counter()
        snapshot = read(handle)
        took["listing_ms"].append(1000 * (time.perf_counter() - begun))
        return snapshot

    pruner.change, connected.read_snapshot = timed_change, timed_read
    try:
        yield took
    finally:
        pruner.change, connected.read_snapshot = change, read


def table(spark: Any, name: str, source: Path, files: int) -> str:
    """A clustered table of a format, made once; returns its path."""
    label = f"{source.name}_{files}_{name}".replace("-", "_").replace(".", "_")
    if name == "parquet":
        path = HOME / label
        if not path.exists():
            zskip.table(spark, str(data.link_files(source, path))).optimize(by=data.CLUSTER_BY, files=files)
        return str(path)
    engine = ENGINES[name](HOME, TABLES["lineitem"])
    if not engine.path(label).exists():
        engine.create(spark.read.parquet(str(source)), label)
        zskip.table(spark, engine.address(label)).optimize(by=data.CLUSTER_BY, files=files)
    return str(engine.path(label))


def compared(sessions: dict[str, Any], frames: dict[str, Any], texts: list[str]) -> dict[str, Any]:
    """The figures of one format; raises where answers differ."""
    rows: dict[str, list[int]] = {side: [] for side in SIDES}
    took: dict[str, list[float]] = {side: [] for side in SIDES}
    explains: list[float] = []
    warming = texts[:5]
    for number, where in enumerate([*warming, *texts]):
        answers = set()
        shift = number % len(SIDES)
        for side in [*SIDES[shift:], *SIDES[:shift]]:
            if "classic" in side:
                sessions[side].conf.set("spark.zskip.enabled", str("plain" not in side).lower())
            query = frames[side].where(where).selectExpr(*SUMS)
            begun = time.perf_counter()
            (row,) = query.collect()
            took[side].append(1000 * (time.perf_counter() - begun))
            rows[side].append(session.decoded_rows(query) if "classic" in side else decoded_rows(query))
            answers.add(tuple(row))
        if len(answers) != 1:
            raise SystemExit(f"the sides do not agree on {where}: {answers}")
        plain, ours = (explain_ms(frames[side].where(where)) for side in SIDES[2:])
        explains.append(ours - plain)
    measured = {side: sum(counts[len(warming) :]) for side, counts in rows.items()}
    pairs = list(zip(took["connected"], took["connected_plain"], strict=True))[len(warming) :]
    return {
        "rows_over_classic": round(measured["connected"] / measured["classic"], 3),
        "rows_over_plain": round(measured["connected"] / measured["connected_plain"], 3),
        "added_ms": round(statistics.median(ours - plain for ours, plain in pairs), 1),
        "explain_more_ms": round(statistics.median(explains[len(warming) :]), 1),
        **{f"{side}_ms": round(statistics.median(took[side][len(warming) :]), 1) for side in SIDES},
    }


def explain_ms(frame: Any) -> float:
    """Milliseconds of an `explain`."""
    return 1000 * measure.seconds(lambda: frame._explain_string())


def decoded_rows(query: Any) -> int:
    """Rows that the scans of a connected query decoded, by the metrics that came with its answer."""
    plans = query.executionInfo.metrics._metrics
    scans = [plan for plan in plans if plan.name.startswith(("Scan ", "BatchScan"))]
    return sum(int(m.value) for scan in scans for m in scan.metrics if m.name == "numOutputRows")


def writes(classic: Any, server: Server, options: Any) -> dict[str, Any]:
    """Seconds of `optimize` and `append` on fresh tables, in turns, and whether they make the same files."""
    source, remote = data.lineitem(options.scale), server.session()
    took: dict[str, list[float]] = {}
    contents: dict[str, list[str]] = {}
    for number in range(options.rounds):
        for who in ("classic", "connected") if number % 2 else ("connected", "classic"):
            spark = classic if who == "classic" else remote
            # By this `pyspark.sql.functions` tells of which kind the columns are that it makes.
            os.environ.update({"SPARK_CONNECT_MODE_ENABLED": "1"} if spark is remote else {})
            path = data.link_files(source, HOME / f"written_{who}")
            opened = zskip.table(spark, str(path))
            steps = {
                "optimize": lambda opened=opened: opened.optimize(by=data.CLUSTER_BY, files=options.files),
                "append": lambda opened=opened, spark=spark: opened.append(spark.read.parquet(str(source))),
            }
            for step, run in steps.items():
                took.setdefault(f"{step}_{who}", []).append(measure.seconds(run))
                measure.log(f"{who} {step}: {took[f'{step}_{who}'][-1]:.1f} s")
                contents[f"{step}_{who}"] = sorted(map(rows_digest, path.glob("*.parquet")))
            os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)
            shutil.rmtree(path)
    figures: dict[str, Any] = {f"{name}_s": measure.median(seconds) for name, seconds in took.items()}
    for step in ("optimize", "append"):
        ratios = [a / b for a, b in zip(took[f"{step}_connected"], took[f"{step}_classic"], strict=True)]
        figures[f"{step}_over_classic"] = measure.median(ratios)
        figures[f"{step}_same_files"] = contents[f"{step}_connected"] == contents[f"{step}_classic"]
    return figures


def rows_digest(file: Path) -> str:
    """What the rows of a file are, in their order; footers tell which session wrote it."""
    rows = pd.util.hash_pandas_object(pq.read_table(file).to_pandas(), index=False)
    return hashlib.sha256(rows.to_numpy().tobytes()).hexdigest()


if __name__ == "__main__":
    main()
