"""`maintain`, and an optimize in batches, beside appends, deletes and a second maintainer: what a serial order gives.

ZSKIP_STRESS_ROUNDS says how many rounds there are on each format; in each, both maintainers do their work once.
ZSKIP_STRESS_SECONDS says how long they go on at least.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiers
from format_tables import FORMATS, Maker, opened
from pyspark import InheritableThread
from pyspark.sql import SparkSession

import zskip
from zskip.errors import ConflictError

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROUNDS = int(os.environ.get("ZSKIP_STRESS_ROUNDS", "2"))
SECONDS = float(os.environ.get("ZSKIP_STRESS_SECONDS", "0"))
TRIES = 100


def rounds(least: int) -> Iterator[int]:
    """Numbers, until there are so many and the time is over."""
    end = time.monotonic() + SECONDS
    return itertools.takewhile(lambda number: number < least or time.monotonic() < end, itertools.count())


def wide(start: int, rows: int) -> pa.Table:
    """Rows from everywhere."""
    rng = np.random.default_rng(start)
    ids = np.arange(start, start + rows)
    return pa.table({"id": ids, "a": rng.integers(0, 5000, rows), "b": rng.integers(0, 99, rows)})


class Writers:
    """Appends and deletes in turns, until they are told to stop."""

    def __init__(self, maker: Maker, path: Path) -> None:
        self._maker, self._path = maker, path
        self.ids: set[int] = set()
        """Of the rows that must be there."""
        self.refused = 0
        """Times that a writer had to begin anew."""
        self.appends = self.deletes = 0
        self._next = 0
        self._stop = threading.Event()
        self.append(300)
        self.append(300)

    def append(self, rows: int) -> None:
        start, self._next = self._next, self._next + rows
        self._tried(lambda: self._append(wide(start, rows), start))
        self.ids |= set(range(start, start + rows))
        self.appends += 1

    def _append(self, rows: pa.Table, start: int) -> None:
        if self._maker.time_travel:
            self._maker.append(self._path, rows, partitioned=False)
            return
        # As engines append to plain Parquet: a name of its own, seen once it is whole.
        self._path.mkdir(exist_ok=True)
        pq.write_table(rows, self._path / f".{start}.parquet")
        (self._path / f".{start}.parquet").rename(self._path / f"appended-{start}.parquet")

    def delete(self) -> None:
        if not self._maker.time_travel:
            return  # Whoever replaces a file of plain Parquet does so behind everybody's back.
        ids = sorted(self.ids)[:: max(1, len(self.ids) // 2)][:2]
        self._tried(lambda: self._delete(f"id in ({ids[0]}, {ids[-1]})"))
        self.ids -= set(ids)
        self.deletes += 1

    def _delete(self, where: str) -> None:
        if self._maker.name == "delta":
            from deltalake import DeltaTable

            DeltaTable(str(self._path)).delete(where)
        else:
            self._maker._load(self._path).delete(where)  # type: ignore[attr-defined]

    def _tried(self, work: Callable[[], Any]) -> None:
        for left in reversed(range(TRIES)):
            try:
                work()
                return
            except Exception:
                # Whoever was slower begins anew; a writer that never gets through fails the test.
                if not left:
                    raise
                self.refused += 1
                time.sleep(0.05)

    def run(self) -> None:
        """Write until the end; one thread, so that it is known what must be there."""
        while not self._stop.is_set():
            self.append(20)
            self.delete()
            # Longer each time, so that rewrites get through on slow machines, too.
            self._stop.wait(0.03 * self.appends)

    def stop(self) -> None:
        self._stop.set()


@pytest.mark.parametrize("maker", tiers.nightly(FORMATS, daily=2), ids=lambda maker: maker.name)
def test_nothing_is_lost_or_doubled(spark: SparkSession, maker: Maker, tmp_path: Path) -> None:
    path = tmp_path / "t"
    writers = Writers(maker, path)
    address = maker.address(path)
    outcomes = {"done": 0, "conflict": 0}

    def second() -> None:
        for _ in rounds(ROUNDS):
            with suppress(ConflictError):
                zskip.table(spark, address).maintain(by=["a", "b"], target_file_size=3_000)

    other, writer = InheritableThread(target=second), threading.Thread(target=writers.run)
    other.start()
    writer.start()
    try:
        started = time.monotonic()
        for number in rounds(10 * ROUNDS):
            if number >= ROUNDS and outcomes["done"] and time.monotonic() >= started + SECONDS:
                break
            table = zskip.table(spark, address)
            sizes = opened(path).snapshot().sizes
            size = max(3 * int(sizes.max()), int(sizes.sum()) // 4)
            try:
                if number % 2:
                    table.optimize(by=["a", "b"], max_batch=size, files=8, jobs=2)
                else:
                    table.maintain(by=["a", "b"], target_file_size=3_000)
                outcomes["done"] += 1
            except ConflictError:
                outcomes["conflict"] += 1
    finally:
        writers.stop()
        writer.join()
        other.join()
    print(maker.name, outcomes, "appends", writers.appends, "deletes", writers.deletes, "refused", writers.refused)
    assert outcomes["done"]
    assert writers.appends > 2
    opened(path).snapshot()
    assert sorted(maker.read(path)["id"].to_pylist()) == sorted(writers.ids)
    table = zskip.table(spark, address)
    table.maintain(by=["a", "b"], target_file_size=3_000)
    assert sorted(maker.read(path)["id"].to_pylist()) == sorted(writers.ids)
    assert table.verify(queries=2).ok
