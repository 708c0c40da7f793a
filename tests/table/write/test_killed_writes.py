"""SIGKILL at random moments of a write, and writers beside each other: each row is there once, or its write is not.

Half of the moments are times, the others changes of files or commits, of which most come in the last milliseconds.
ZSKIP_STRESS_ROUNDS says how many rounds there are on each format.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import tiers
from format_tables import FORMATS, Maker, opened, rows_of
from new_rows import frame_of, points
from pyspark.sql import SparkSession
from victims import Victim, victim

import zskip
from zskip.errors import ConflictError, StorageError

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROUNDS = int(os.environ.get("ZSKIP_STRESS_ROUNDS", "3"))
ROWS, STEPS = 400, 20


@pytest.fixture(scope="module")
def victims(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    with victim(tmp_path_factory.mktemp("victims")) as process:
        yield process


def all_rows(maker: Maker, path: Path) -> Any:
    """What any engine reads once zskip has looked at the table, and so has finished what is committed."""
    opened(path).snapshot()
    return rows_of(maker.read(path))


def moment(rng: random.Random, seconds: float) -> float:
    """When to kill a write, after so many seconds or before a step; never if nobody knows how long it takes."""
    if seconds == math.inf:
        return 0
    return rng.uniform(0.1, seconds) if rng.random() < 0.5 else rng.randrange(1, STEPS)


@pytest.mark.parametrize("name", tiers.nightly(["delta", "parquet"]))
def test_a_new_table_is_whole_or_not_there(name: str, victims: Victim, tmp_path: Path) -> None:
    rng, rows, seconds, killed = random.Random(name), points(0, ROWS), math.inf, 0
    pq.write_table(rows, tmp_path / "new.parquet")
    maker = next(maker for maker in FORMATS if maker.name == name)
    arguments = {"rows": str(tmp_path / "new.parquet"), "by": ["a", "b"], "files": 3, "mode": "error"}
    for number in range(ROUNDS + 1):
        path = tmp_path / f"t{number}"
        started = time.monotonic()
        done = victims.call(name, path, "write", arguments, moment(rng, seconds))
        seconds = seconds if done is None else min(seconds, time.monotonic() - started)
        killed += done is None
        if not path.exists():
            assert victims.call(name, path, "write", arguments, 0) is not None
        assert all_rows(maker, path) == rows_of(rows)
    print(f"{name}: {killed} of {ROUNDS} killed")


@pytest.mark.parametrize("maker", tiers.nightly(FORMATS), ids=lambda maker: maker.name)
def test_two_writers_and_a_maintain(maker: Maker, spark: SparkSession, tmp_path: Path) -> None:
    path, tries = tmp_path / "t", 0
    maker.append(path, points(0, ROWS), partitioned=False)
    address = maker.address(path)
    zskip.table(spark, address).optimize(["a", "b"], files=4)

    def append(start: int) -> None:
        nonlocal tries
        new = frame_of(spark, points(start, 20))
        while True:
            tries += 1
            try:
                zskip.table(spark, address).append(new)
                return
            except (ConflictError, StorageError):
                # SQLite does not wait for locks.
                if maker.name != "iceberg":
                    raise

    def maintain() -> None:
        try:
            zskip.table(spark, address).maintain()
        except (ConflictError, StorageError):
            if maker.name != "iceberg":
                raise

    with ThreadPoolExecutor(3) as pool:
        for number in range(ROUNDS):
            start = 1000 + 40 * number
            for call in [pool.submit(append, start), pool.submit(append, start + 20), pool.submit(maintain)]:
                call.result()
            ids = sorted(row["id"] for row in maker.read(path).to_pylist())
            assert ids == [*range(ROWS), *range(1000, 1040 + 40 * number)], number
    print(f"{maker.name}: {2 * ROUNDS} appends in {tries} tries")
    assert zskip.table(spark, address).verify(queries=2).ok
