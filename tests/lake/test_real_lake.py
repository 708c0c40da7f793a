"""A lake of sixty tables on a disk, maintained in three calls of which two are killed, while one is written to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import format_tables
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables
from pyspark.sql import SparkSession

import zskip
from zskip.demo.data import generate

pytestmark = [pytest.mark.spark, pytest.mark.nightly]  # Each killed call has a JVM of its own.
MANY = 10_000
CALL = """
import json, sys
import zskip
from zskip.spark.jvm.session import local_session
done = zskip.lake(local_session("lake"), sys.argv[1]).maintain(int(sys.argv[2]), jobs=2)
print(json.dumps({"batches": done.batches, "written": done.bytes_written, "failed": dict(done.failed)}))
"""


def write(path: Path, number: int) -> None:
    rows = {"id": np.arange(number * 100, number * 100 + 100), "a": np.random.default_rng(number).random(100)}
    pq.write_table(pa.table(rows), path / f".w{number:05d}")
    (path / f".w{number:05d}").rename(path / f"w{number:05d}.parquet")


def make_lake(root: Path, unpack: Callable[[str], Path]) -> None:
    """Plain tables of many shapes, TPC-H, Delta, Hudi and Iceberg, broken and empty ones, one of 10,000 small files."""
    rng = np.random.default_rng(0)
    for i in range(35):
        tables.make_events(root / "events" / f"e{i:02d}", files=int(rng.integers(2, 30)), rows=2_000, seed=i)
    for i in range(2):
        tables.make_partitioned(root / "parts" / f"p{i}", rows=2_000)
    for i in range(6):
        for start in range(0, 200, 40):
            rows = format_tables.content(start=start)
            format_tables.DeltaMaker().append(root / "delta" / f"d{i}", rows, partitioned=i % 2 == 0)
    for i in range(3):
        for start in range(0, 200, 40):
            rows = format_tables.content(start=start)
            format_tables.IcebergMaker().append(root / "iceberg" / f"i{i}", rows, partitioned=False)
    generate(0.01, root / "tpch")
    unpack("plain").rename(root / "hudi")
    (root / "iceberg" / "none" / "metadata").mkdir(parents=True)
    (root / "iceberg" / "none" / "metadata" / "00000-a.metadata.json").write_text("{}")
    many, first = root / "many", root / "many" / "00000.parquet"
    many.mkdir()
    pq.write_table(pa.table({"id": pa.array([0, 1], pa.int64()), "v": [1.5, 2.5]}), first)
    for i in range(1, MANY):
        os.link(first, many / f"{i:05d}.parquet")
    for i in range(4):
        (root / "broken" / f"b{i}").mkdir(parents=True)
        (root / "broken" / f"b{i}" / "x.parquet").write_bytes(b"PAR1" * (i + 1))
    for i in range(4):
        (root / "empty" / f"n{i}").mkdir(parents=True)
        pq.write_table(tables.events(10).slice(0, 0), root / "empty" / f"n{i}" / "x.parquet")
    (root / "written").mkdir()
    write(root / "written", 0)


def record_queries(path: Path) -> None:
    """Index a table, and record two hundred queries."""
    table = zskip.open(str(path))
    table.index()
    table.record(True)
    for low in np.random.default_rng(1).integers(0, 1_900, 200).tolist():
        table.files(f"id BETWEEN {low} AND {low + 40}")
    table.record(False)


def content(root: Path) -> dict[str, list[int]]:
    """All ids (of TPC-H: all keys) of each table that can be read, as zskip sees its files."""
    found = {}
    for line in zskip.lake(None, str(root), exclude=["*/written", "*/hudi"]).survey().tables:
        if not line.error:
            files = zskip.open(line.table).files()
            key = next(name for name in ("id", "l_orderkey", "o_orderkey") if name in pq.read_schema(files[0]).names)
            read = [pq.ParquetFile(file).read(columns=[key])[key].to_pylist() for file in files]
            found[line.table] = sorted(i for ids in read for i in ids)
    return found


def written_since(root: Path, since_ms: int) -> list[int]:
    """Bytes of each commit, by the journals."""
    lines = zskip.lake(None, str(root)).survey().tables
    histories = [zskip.open(line.table).history() for line in lines if not line.error]
    return [operation.bytes_added for history in histories for operation in history if operation.time_ms >= since_ms]


def killed_call(root: Path, budget: int, commits: int) -> None:
    """Kill a call, with its JVM, a moment after it has made some commits."""
    since = int(time.time() * 1000)
    call = subprocess.Popen([sys.executable, "-c", CALL, str(root), str(budget)], start_new_session=True)
    while len(list(root.rglob("operations/*.json.gz"))) < commits and call.poll() is None:
        assert time.time() * 1000 - since < 300_000
        time.sleep(0.05)
    time.sleep(0.3)
    if call.poll() is None:
        os.killpg(call.pid, signal.SIGKILL)
    call.wait()


@pytest.mark.timeout(1800)
def test_nothing_is_lost_and_predictions_hold(
    spark: SparkSession, tmp_path: Path, unpack: Callable[[str], Path]
) -> None:
    root = tmp_path / "lake"
    root.mkdir()
    make_lake(root, unpack)
    for i in range(6):
        record_queries(root / "events" / f"e{i:02d}")
    clustered = zskip.table(spark, str(root / "events" / "e05"))
    clustered.optimize("id", curve="linear", target_file_size=12_000)
    tables.make_events(tmp_path / "more", files=6, rows=2_000, seed=5)
    for file in (tmp_path / "more").iterdir():
        file.rename(root / "events" / "e05" / f"more-{file.name}")
    survey = zskip.lake(None, str(root)).survey()
    assert len(survey.tables) == 60
    assert sum(bool(line.error) for line in survey.tables) == 5
    before = content(root)
    assert len(before[f"{root}/many"]) == 2 * MANY
    budget = sum(line.bytes_to_rewrite for line in survey.tables) // 2
    stop = threading.Event()

    def keep_writing() -> None:
        number = 1
        while not stop.wait(0.2):
            write(root / "written", number)
            number += 1
        counts.append(number)

    counts: list[int] = []
    writer = threading.Thread(target=keep_writing)
    writer.start()
    try:
        started = int(time.time() * 1000)
        for commits in (3, 8):
            killed_call(root, budget, commits)
            assert content(root) == before
            assert sum(written_since(root, started)) <= 2 * budget
        last = int(time.time() * 1000)
        command = [sys.executable, "-c", CALL, str(root), str(budget)]
        done = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    finally:
        stop.set()
        writer.join()
    assert content(root) == before
    commits = written_since(root, last)
    assert commits, done
    assert sum(commits) == done["written"] <= budget + max(commits)
    assert len(commits) == done["batches"] > 0
    predicted = zskip.lake(None, str(root)).survey().tables
    rest = zskip.lake(spark, str(root)).maintain()
    assert not {name for name in rest.failed if "broken" not in name and "iceberg" not in name}, rest.failed
    after = {line.table: line for line in zskip.lake(None, str(root)).survey().tables}
    assert content(root) == before
    ids = sorted(row.id for row in zskip.table(spark, str(root / "written")).df().collect())
    assert ids == list(range(100 * counts[0]))
    recorded = [line for line in survey.tables if line.is_recorded]
    assert len(recorded) == 6
    read = sum(after[line.table].files_read_a_day for line in recorded)
    assert read == pytest.approx(sum(line.files_read_a_day_after for line in recorded), rel=0.1), predicted
