"""Threads, restarts and sessions of other kinds."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import tiers
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from zskip.errors import InputError, UnsupportedError
from zskip.formats.parquet import ParquetFormat
from zskip.spark.jvm.arrays import frame_of_texts
from zskip.spark.jvm.compat import check_session, collect_arrow, private_session
from zskip.spark.scan.relation import scan
from zskip.spark.schema import read_schema
from zskip.storage import LocalStorage


def opened(spark: SparkSession, path: Path) -> DataFrame:
    return scan(spark, read_schema(spark, ParquetFormat(LocalStorage(str(path))).snapshot()))


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sessions") / "t"
    spark.range(0, 90, 1, 1).selectExpr("id", "id % 3 as p").write.partitionBy("p").parquet(str(path))
    return path


@pytest.mark.parametrize("count", [1, 5, 100])
def test_each_task_gets_its_own_text(spark: SparkSession, count: int) -> None:
    texts = [f'{i} "é"\n' * (1 + i % 3) for i in range(count)]
    frame = frame_of_texts(private_session(spark, {}), texts)

    def number(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            tasks = [TaskContext.get().partitionId()] * batch.num_rows  # type: ignore[union-attr]
            yield pa.RecordBatch.from_pydict({"value": batch.column(0), "task": tasks})

    rows = collect_arrow(frame.mapInArrow(number, "value string, task bigint")).to_pylist()
    assert [(row["value"], row["task"]) for row in rows] == list(zip(texts, range(count), strict=True))


@pytest.mark.slow  # Both garbage collectors take their time.
def test_neither_threads_nor_proxies_pile_up(spark: SparkSession, table: Path) -> None:
    pool = spark.sparkContext._gateway.gateway_property.pool.dict
    before = len(pool)  # other tests of this session may hold frames of their own
    frame = opened(spark, table)
    for _ in range(12):
        frame.where("id > 5").count()  # adaptive plans ask from a new thread of the JVM each time
    threads = threading.active_count()
    for _ in range(12):
        frame.where("id > 5").count()
    assert threading.active_count() <= threads + 1
    for _ in range(20):
        opened(spark, table)
    for _ in range(50):
        gc.collect()
        spark._jvm.System.gc()
        if len(pool) <= before + 8:
            break
        time.sleep(0.2)
    assert len(pool) <= before + 8
    assert frame.where("p = 1").count() == 30


def test_stopped_and_foreign_sessions_are_refused() -> None:
    with pytest.raises(InputError, match="not a SparkSession"):
        check_session("spark")  # type: ignore[arg-type]
    connect = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(UnsupportedError, match="Spark Connect"):
        check_session(connect)


SCRIPT = """
import sys, warnings
from concurrent.futures import ThreadPoolExecutor
from pyspark.sql import SparkSession
from zskip.errors import InputError
from zskip.formats.parquet import ParquetFormat
from zskip.spark.scan.relation import scan
from zskip.spark.schema import read_schema
from zskip.storage import LocalStorage

def start():
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    return builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()

spark = start()
for _ in range(2):
    schema = read_schema(spark, ParquetFormat(LocalStorage(sys.argv[1])).snapshot())
    frame = scan(spark, schema)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: frame.where(f"p = {i % 3} AND id > 2").count(), range(24)))
    assert found == [29] * 24, found
    spark.stop()
    try:
        scan(spark, schema)
    except InputError as error:
        assert "stopped" in str(error)
    else:
        raise AssertionError("a stopped session was taken")
    spark = start()
print("done")
"""


@pytest.mark.slow  # Pinning is chosen when a process starts.
@pytest.mark.parametrize("pinned", tiers.nightly(["false", "true"]))
def test_restarts_with_threads_pinned_or_not(table: Path, pinned: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(table)],
        env={**os.environ, "PYSPARK_PIN_THREAD": pinned},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip().endswith("done")
