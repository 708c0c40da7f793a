"""Whatever a store does wrong, a call ends in the right answer or in an error that says what was asked for.

ZSKIP_FAULT_RUNS says how many calls there are on each format.
"""

from __future__ import annotations

import os
import random
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
import pytest
from bucket import Bucket
from faulty import Proxy
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

import zskip
from zskip.errors import ZskipError

RUNS = int(os.environ.get("ZSKIP_FAULT_RUNS", "30"))
REWRITES = int(os.environ.get("ZSKIP_FAULT_RUNS", "5"))
FILES, ROWS = 6, 50
OFTEN = ("slow", "slow", "reset", "late", "torn")
QUICK = {"max_retries": "3", "retry_timeout": "5s", "timeout": "5s"}


def rows_from(start: int) -> pa.Table:
    ids = np.arange(start, start + ROWS)
    return pa.table({"id": ids, "v": (ids * 7919) % 1000})


def maker(bucket: Bucket, name: str, place: Path) -> tuple[str, Callable[[int], object]]:
    """Where a table of a format lies, and what adds rows to it from a number on, by a way without faults."""
    if name == "parquet":
        return bucket.uri("t"), lambda start: bucket.put_table(f"t/part-{start:07}.parquet", rows_from(start))
    if name == "delta":
        options = bucket.options | {"aws_allow_http": "true"}
        return bucket.uri("t"), lambda start: deltalake.write_deltalake(
            bucket.uri("t"), rows_from(start), mode="append", storage_options=options
        )
    if name == "hudi":
        bucket.unpack("t", Path(__file__).parents[1] / "data" / "hudi" / "hive.zip")
        return bucket.uri("t"), lambda start: None
    catalog = bucket.catalog(place)
    table = catalog.create_table("n.t", schema=rows_from(0).schema)
    return table.location(), lambda start: table.append(rows_from(start))


def wrongs(rate: float, forbidden: bool) -> Callable[[str, str, random.Random], str | None]:
    """Requests fail at a rate; now and then the credentials run out, a body is cut short, or a listing lags."""

    def fault(method: str, path: str, chance: random.Random) -> str | None:
        if chance.random() > rate:
            return None
        kinds = [*OFTEN]
        if forbidden:
            kinds.append("forbidden")
        if method == "GET" and "list-type" not in path and "_delta_log" not in path:
            kinds.append("short")
        # Stores list what was written since 2020; of the index even an old listing does no harm.
        if "list-type" in path and "_zskip%2Findex" in path:
            kinds.append("lagging")
        return chance.choice(kinds)

    return fault


@pytest.mark.parametrize("name", ["parquet", "delta", "iceberg", "hudi"])
def test_no_fault_costs_a_row(bucket: Bucket, proxy: Proxy, name: str, tmp_path: Path) -> None:
    problems: list[str] = []
    count = 0
    place, add = maker(bucket, name, tmp_path)
    for _ in range(FILES):
        add(count * ROWS)
        count += 1
    options = bucket.options | {"aws_endpoint_url": proxy.endpoint} | QUICK
    known = sorted(held(bucket, zskip.open(place, storage_options=bucket.options).files()))
    outcomes: Counter[str] = Counter()
    for run in range(RUNS):
        chance = broken(proxy, run)
        if run % 8 == 7 and name != "hudi":
            add(count * ROWS)
            known += range(count * ROWS, (count + 1) * ROWS)
            count += 1
        low = chance.choice(known)
        act = chance.choice(ACTS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                files = act(zskip.open(place, storage_options=options), low)
            except ZskipError as error:
                outcomes["error"] += 1
                problems.append(str(error))
                continue
            finally:
                proxy.fault = lambda method, path, chance: None
        outcomes["answer"] += 1
        if files is not None:
            check(bucket, files, low, known)
    table = zskip.open(place, storage_options=bucket.options)
    table.index()
    check(bucket, table.files(f"id between {low} and {low + 5}"), low, known)
    files = table.files(f"id = {low}")
    # Each append of the others is a file of its own; a table of Hudi is one that was made before.
    assert 0 < len(files) < len(table.files()) if name == "hudi" else (len(files), len(table.files())) == (1, count)
    assert sorted(held(bucket, table.files())) == known
    print(f"{name}: {RUNS} runs, {dict(outcomes)}, faults {dict(proxy.broken)}")
    assert [text for text in problems if bucket.name not in text and "_zskip" not in text] == []
    # A timeline of Hudi takes more requests, any of which may fail.
    assert outcomes["answer"] > outcomes["error"] if name != "hudi" else 3 * outcomes["answer"] > RUNS


def broken(proxy: Proxy, run: int, rates: Sequence[float] = (0.02, 0.1, 0.3)) -> random.Random:
    """Let requests fail from here on, at one of some rates; gives what else is drawn in this run."""
    chance = random.Random(run)
    proxy.random = random.Random(run)
    proxy.fault = wrongs(chance.choice(rates), chance.random() < 0.3)
    return chance


ACTS: list[Callable[[zskip.Table, int], Any]] = [
    lambda table, low: table.files(f"id between {low} and {low + 5}"),
    lambda table, low: table.files(f"id between {low} and {low + 5}"),
    lambda table, low: (table.index(), table.files(f"id between {low} and {low + 5}"))[1],
    lambda table, low: table.index() and None,
    lambda table, low: table.info() and None,
    lambda table, low: table.clean(delete=True) and None,
]


def held(bucket: Bucket, files: list[Any]) -> list[int]:
    """The ids of the rows in some files."""
    import obstore
    import pyarrow.parquet as pq

    numbers: list[int] = []
    for file in files:
        data = obstore.get(bucket.store, str(file).removeprefix(bucket.uri(""))).bytes()
        numbers += pq.read_table(pa.BufferReader(bytes(data)), columns=["id"])["id"].to_pylist()
    return numbers


def check(bucket: Bucket, files: list[Any], low: int, known: list[int]) -> None:
    """The kept files hold every row from `low` to `low + 5`, once."""
    expected, actual = [number for number in known if low <= number <= low + 5], held(bucket, files)
    assert len(actual) == len(set(actual))
    assert sorted(number for number in actual if low <= number <= low + 5) == expected


def collected(rows: DataFrame) -> list[Row]:
    """The rows of a query of Spark's own; its errors too, some of which PySpark passes on as they come."""
    try:
        return rows.collect()
    except Py4JJavaError as error:
        raise PySparkException(str(error.java_exception)) from error


REWRITING: list[Callable[[zskip.Table, int], Any]] = [
    lambda table, low: table.optimize(by=["id", "v"], files=3),
    lambda table, low: table.optimize(by=["v", "id"], files=4, max_batch=5_000),
    lambda table, low: table.maintain(by=["id", "v"], target_file_size=4_000),
    lambda table, low: table.compact(target_file_size=6_000),
    lambda table, low: table.index(),
    lambda table, low: table.clean(delete=True),
    lambda table, low: collected(table.df(f"id between {low} and {low + 5}")),
]
PATIENCE = {
    "retry.limit": "6",
    "retry.interval": "50ms",
    "retry.throttle.limit": "2",
    "retry.throttle.interval": "50ms",
    "connection.establish.timeout": "2s",
    "connection.timeout": "5s",
}


@pytest.mark.parametrize("name", ["parquet", "delta"])
def test_no_fault_of_a_rewrite_costs_a_row(
    s3a_spark: SparkSession, bucket: Bucket, proxy: Proxy, name: str, tmp_path: Path
) -> None:
    place, add = maker(bucket, name, tmp_path)
    place = place.replace("s3:", "s3a:")
    settings = s3a_spark.sparkContext._jsc.hadoopConfiguration()  # type: ignore[union-attr]
    for key, value in {"endpoint": proxy.endpoint, **PATIENCE}.items():
        settings.set(f"fs.s3a.bucket.{bucket.name}.{key}", value)
    outcomes: Counter[str] = Counter()
    problems: list[str] = []
    for run in range(REWRITES):
        for _ in range(FILES if run == 0 else 2):
            add(ROWS * outcomes["files"])
            outcomes["files"] += 1
        # A rewrite is a hundred requests and more.
        chance = broken(proxy, run, (0.002, 0.01, 0.1))
        rows = ROWS * outcomes["files"]
        low = chance.randrange(rows)
        act = chance.choice(REWRITING)
        try:
            result = act(zskip.table(s3a_spark, place), low)
            outcomes["done"] += 1
        except (ZskipError, PySparkException) as error:
            outcomes["error"] += 1
            problems.append(str(error))
            result = None
        finally:
            proxy.fault = lambda method, path, chance: None
        if isinstance(result, list):
            assert sorted(row["id"] for row in result) == list(range(low, min(low + 6, rows))), run
        ids = sorted(row["id"] for row in zskip.table(s3a_spark, place).df().select("id").collect())
        assert ids == list(range(rows)), run
    print(f"{name}: {REWRITES} rewrites and queries, {dict(outcomes)}, faults {dict(proxy.broken)}")
    assert [text for text in problems if bucket.name not in text] == []
    assert outcomes["done"]
