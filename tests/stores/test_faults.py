"""Whatever a store does wrong, a call ends in the right answer or in an error that says what was asked for."""

from __future__ import annotations

import os
import random
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
import pytest
from bucket import Bucket
from faulty import Proxy

import zskip
from zskip.errors import ZskipError

RUNS = int(os.environ.get("ZSKIP_FAULT_RUNS", "30"))
"""Of each format."""
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
    catalog = bucket.catalog(place)
    made = catalog.create_table("n.t", schema=rows_from(0).schema)
    return made.location(), lambda start: made.append(rows_from(start))


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


@pytest.mark.parametrize("name", ["parquet", "delta", "iceberg"])
def test_no_fault_costs_a_row(bucket: Bucket, proxy: Proxy, name: str, tmp_path: Path) -> None:
    outcomes: Counter[str] = Counter()
    problems: list[str] = []
    count = 0
    place, add = maker(bucket, name, tmp_path)
    for _ in range(FILES):
        add(count * ROWS)
        count += 1
    options = bucket.options | {"aws_endpoint_url": proxy.endpoint} | QUICK
    for run in range(RUNS):
        chance = random.Random(run)
        proxy.random = random.Random(run)
        proxy.fault = wrongs(chance.choice([0.02, 0.1, 0.3]), chance.random() < 0.3)
        if run % 8 == 7:
            add(count * ROWS)
            count += 1
        low = chance.randrange(count * ROWS)
        act = chance.choice(ACTS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = act(zskip.open(place, storage_options=options), low)
            except ZskipError as error:
                outcomes["error"] += 1
                problems.append(str(error))
                continue
            finally:
                proxy.fault = lambda method, path, chance: None
        outcomes["answer"] += 1
        if found is not None:
            check(bucket, found, low, count)
    table = zskip.open(place, storage_options=bucket.options)
    table.index()
    check(bucket, table.files(f"id between {low} and {low + 5}"), low, count)
    assert len(table.files(f"id = {low}")) == 1
    assert len(table.files()) == count
    print(f"{name}: {RUNS} runs, {dict(outcomes)}, faults {dict(proxy.broken)}")
    assert [text for text in problems if bucket.name not in text and "_zskip" not in text] == []
    assert outcomes["answer"] > outcomes["error"]


ACTS: list[Callable[[zskip.Table, int], Any]] = [
    lambda table, low: table.files(f"id between {low} and {low + 5}"),
    lambda table, low: table.files(f"id between {low} and {low + 5}"),
    lambda table, low: (table.index(), table.files(f"id between {low} and {low + 5}"))[1],
    lambda table, low: table.index() and None,
    lambda table, low: table.info() and None,
    lambda table, low: table.clean(delete=True) and None,
]


def check(bucket: Bucket, files: list[Any], low: int, count: int) -> None:
    """The kept files hold every row from `low` to `low + 5`."""
    import obstore
    import pyarrow.parquet as pq

    held: list[int] = []
    for file in files:
        data = obstore.get(bucket.store, str(file).removeprefix(bucket.uri(""))).bytes()
        held += pq.read_table(pa.BufferReader(bytes(data)))["id"].to_pylist()
    assert len(held) == len(set(held))
    assert set(range(low, min(low + 6, count * ROWS))) <= set(held)
