"""A table in a session of Spark Connect: kept files are read by their names, the rest says where it works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from connect_server import connect_server

import zskip

SCRIPT = """
import sys, warnings
from pyspark.sql import SparkSession
import zskip
from zskip.errors import ColumnError, InputError, UnsupportedError

spark = SparkSession.builder.remote(sys.argv[-1]).getOrCreate()
spark.conf.set("spark.sql.session.timeZone", "UTC")
table = zskip.table(spark, sys.argv[1])
assert table.index().files == 6
ASKED = [("id between 120 and 180", 1, 61), ("id < 250 and p = 1", 1, 100), ("id < 0", 0, 0), (None, 6, 600)]
for where, files, rows in ASKED:
    frame = table.df(where=where)
    expected = spark.read.parquet(sys.argv[1])
    expected = expected if where is None else expected.where(where)
    assert frame.schema == expected.schema, (frame.schema, expected.schema)
    assert sorted(frame.collect()) == sorted(expected.collect())
    assert frame.count() == rows, where
    assert table.last_scan.files == files, (where, table.last_scan)
    assert len(frame.inputFiles()) <= max(files, 1)
table.record()
for where in ("id < 0", "id = 5"):
    table.df(where)
scans = table.workload(clear=True).scans
assert scans == 2, scans
table.record(False)
assert table.df("id < 100").groupBy("p").count().collect()[0]["count"] == 100
assert len(table.files("id = 5")) == 1
assert "1 files" in str(table.explain("id = 5")), table.explain("id = 5")
assert table.info().rows == 600
for refused in (lambda: table.explain("id < 5", analyze=True),):
    try:
        refused()
    except UnsupportedError as error:
        assert "classic session" in str(error)
    else:
        raise AssertionError("not refused")
try:
    table.df("nothing = 1")
except ColumnError as error:
    assert "nothing" in str(error)
from zskip.predicate.zones import _comparisons, zone_of
from zskip.table.session import session_time_zone

spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
assert session_time_zone(spark) == "Europe/Berlin"
assert zone_of("Asia/Tokyo") is not None
assert not _comparisons["Spark Connect"]("Nowhere/Land")
spark.udf.register("floor", lambda value: -value, "long")
assert [row.id for row in table.df("floor(id) = -5").collect()] == [5]
assert len(table.files("ceil(id) = 5")) == 1
import os
import zskip.formats.parquet.log as log
from zskip.errors import ConflictError, StorageError
from zskip.storage import LocalStorage

def refuse(*_, **__):
    raise StorageError("read-only")

root = sys.argv[2]
os.makedirs(root + "/_zskip/staging/s")
os.rename(root + "/p=0/a.parquet", root + "/_zskip/staging/s/b.parquet")
size = os.path.getsize(root + "/_zskip/staging/s/b.parquet")
added = log.Added(staged="_zskip/staging/s/b.parquet", target="p=0/b.parquet", size=size)
log.publish(LocalStorage(root), log.Entry(version=1, added=(added,), removed=()))
whole = {name: getattr(LocalStorage, name) for name in ("rename", "write", "delete")}
for name in whole:
    setattr(LocalStorage, name, refuse)
halfway = zskip.table(spark, root)
for where in (None, "id = 1"):
    try:
        halfway.df(where)
    except ConflictError as error:
        assert "are not in their partitions" in str(error)
    else:
        raise AssertionError("read without its partition")
assert halfway.df("p = 1").count() == 2
for name, method in whole.items():
    setattr(LocalStorage, name, method)
assert sorted(halfway.df("id = 1").collect()) == [(1, 0)]
for root in sys.argv[3:5]:
    try:
        zskip.table(spark, root).df("id = 1")
    except UnsupportedError as error:
        assert "is a pattern to Spark" in str(error)
    else:
        raise AssertionError("taken for a pattern")
spark.conf.set("spark.sql.ansi.enabled", "true")
for setting, rows in (("true", 4), ("false", 0)):
    spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", setting)
    assert zskip.table(spark, sys.argv[5]).df('a = "b"').count() == rows, setting
spark.stop()
print("done")
"""


@pytest.mark.slow  # A server in a JVM of its own.
def test_spark_connect(tmp_path: Path) -> None:
    for i in range(6):
        directory = tmp_path / "t" / f"p=0{i % 2}"
        directory.mkdir(parents=True, exist_ok=True)
        ids = np.arange(i * 100, (i + 1) * 100)
        pq.write_table(pa.table({"id": ids, "v": ids % 7}), directory / f"part-{i}.parquet")
    for i in range(2):
        (tmp_path / "halfway" / f"p={i}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [1 + 2 * i, 2 + 2 * i]}), tmp_path / "halfway" / f"p={i}" / "a.parquet")
    for name, number in (("t[1]/a", 1), ("t1/a", 2), ("names/a*", 3), ("names/ab", 4)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"id": [number]}), tmp_path / f"{name}.parquet")
    (tmp_path / "texts").mkdir()
    for name in "ab":
        pq.write_table(pa.table({"a": ["x", "y"], "b": ["x", "y"]}), tmp_path / "texts" / f"{name}.parquet")
    zskip.open(str(tmp_path / "texts")).index()
    paths = [str(tmp_path / name) for name in ("t", "halfway", "t[1]", "names", "texts")]
    with connect_server(tmp_path / "server") as server:
        command = [sys.executable, "-c", SCRIPT, *paths, server.url()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.stdout.endswith("done\n"), done.stdout + done.stderr[-4000:]
