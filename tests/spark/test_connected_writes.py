"""The verbs that write, in a session of Spark Connect: the same rows, layouts and files as in a classic session."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from connect_server import connect_server

import zskip

SCRIPT = """
import os, sys
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession, functions as F
import zskip
from zskip.errors import ColumnError, InputError, TableNotFoundError, UnsupportedError

root = sys.argv[1]
spark = SparkSession.builder.remote(sys.argv[2]).getOrCreate()
before = dict(row for row in spark.sql("SET").collect())

def refused(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"not refused: {text}")

def content(frame):
    return frame.agg(F.count("*"), F.sum(F.xxhash64("*").cast("decimal(20, 0)"))).collect()

table = zskip.table(spark, f"{root}/t")
rows = content(spark.read.parquet(f"{root}/t"))
result = table.optimize(by=["v", "s"], files=8, seed=3)
assert (result.files_after, result.writer) == (8, "arrow"), result
assert content(spark.read.parquet(f"{root}/t")) == rows

table.record()
new = spark.range(6000, 6600).selectExpr(
    "id", "id % 1000 v", "concat('k', id % 50) s", "cast(id / 100 as decimal(12, 2)) d",
    "timestamp_seconds(id) ts", "if(id % 9 = 0, null, id / 7) x",
)
new.createOrReplaceTempView("new")
new = spark.table("new")  # A view, which a copy of the session has to have.
assert table.append(new, batch=("w", 7)).rows == 600
assert table.append(new, batch=("w", 7)).rows == 0
assert zskip.table(spark, f"{root}/t").df("id >= 6000").count() == 600

parted = new.withColumn("p", F.col("id") % 3)
assert zskip.write(parted, f"{root}/parted", by=["v", "s"], partition_by=["p"], files=2).rows == 600
assert zskip.table(spark, f"{root}/parted").optimize(by=["id"], curve="linear", where="p = 1").rows == 200
as_read = spark.read.parquet(f"{root}/parted").select(*parted.columns)
assert content(as_read) == content(parted.withColumn("p", F.col("p").cast("int")))
assert zskip.write(new, f"{root}/new", by=["v", "s"]).rows == 600
assert zskip.write(new, f"{root}/new", by=["v", "s"], mode="overwrite").rows == 600
assert content(spark.read.parquet(f"{root}/new")) == content(new)

# Keys that Spark computes, sketches, and all the rest of the verbs.
table.optimize(by=["v % 10", "lower(s)"], files=6)
table.index(sketches=["bloom:s", "values:v % 10"])
assert len(table.files("s = 'nothing'")) == 0 < len(table.files("s = 'k7'")) < 7
assert table.index(collect="scan").files == 6
assert not table.verify(queries=6).mismatches
assert "predicates" in str(table.advise(workload=["v < 20", "s = 'k7'"])), table.advise(workload=["v < 20"])
assert table.compact(target_file_size="1MB").rows == 6600
assert table.maintain(by=["v", "s"], target_file_size="20KB").files_added > 1
assert table.optimize(by=["id"], curve="linear", into=f"{root}/into", files=3).rows == 6600
assert not table.clean().leftovers
assert sorted(table.df("id >= 6000").drop("x").collect()) == sorted(new.drop("x").collect())

delta = f"{root}/delta"
assert zskip.write(new, delta, by=["v", "s"], format="delta", files=2).rows == 600
assert zskip.table(spark, delta).append(new).rows == 600
assert zskip.table(spark, delta).optimize(by=["id"], curve="linear", files=3).rows == 1200
load_catalog("local").create_namespace("db")
assert zskip.write(new, "local.db.ice", by=["v", "s"], format="iceberg", files=2).rows == 600
ice = zskip.table(spark, "local.db.ice")
assert ice.append(new).rows == 600
assert ice.optimize(by=["id"], curve="linear", files=3).rows == 1200
ice.index(sketches=["bloom:s"])
assert len(ice.files("id < 6010")) == 1 and not ice.files("s = 'nothing'")

# SQL.
(row,) = zskip.sql(spark, f"OPTIMIZE '{root}/into' ZORDER BY (v, s)").collect()
zskip.sql(spark, f"INSERT INTO '{root}/into' SELECT * FROM new")
zskip.sql(spark, f"CREATE TABLE '{root}/made' CLUSTER BY (id) AS SELECT * FROM new WHERE v < 100")
assert spark.read.parquet(f"{root}/made").count() == 100
assert spark.read.parquet(f"{root}/into").count() == 7200
assert zskip.sql(spark, f"VERIFY '{root}/into' WHERE v < 7").collect()[0].ok
query = f"EXPLAIN SKIPPING SELECT * FROM parquet.`{root}/t`"
refused(UnsupportedError, "EXPLAIN SKIPPING", lambda: zskip.sql(spark, query))

# Bad input.
refused(ColumnError, "nothing", lambda: table.optimize(by=["nothing", "v"]))
refused(ColumnError, '"v" is of type string', lambda: table.append(new.withColumn("v", F.lit("x"))))
itself = spark.read.parquet(f"{root}/new")
refused(InputError, "reads", lambda: zskip.write(itself, f"{root}/new", by=["v", "s"], mode="overwrite"))
nowhere = zskip.table(spark, f"{root}/nowhere")
refused(TableNotFoundError, "Under Spark Connect", lambda: nowhere.optimize(by=["v", "s"]))
refused(InputError, "stream", lambda: table.append(spark.readStream.format("rate").load()))
refused(InputError, "not a Spark DataFrame", lambda: table.append([1]))
refused(UnsupportedError, "catalog of Spark Connect", lambda: zskip.write(new, "default.made", by=["v", "s"]))
refused(InputError, "need a classic session", lambda: zskip.lake(spark, "sales.*"))
named = "CREATE TABLE made CLUSTER BY (id) AS SELECT * FROM new"
refused(UnsupportedError, '"default.made" in the catalog of Spark Connect', lambda: zskip.sql(spark, named))
assert dict(row for row in spark.sql("SET").collect()) == before, "the user's settings are as they were"
spark.stop()
print("done")
"""


def _rows_of_files(directory: Path) -> Counter[Any]:
    """The content of each file, rows in their order."""
    return Counter(str(pq.read_table(path, partitioning=None).to_pylist()) for path in directory.glob("*.parquet"))


def _write_table(directory: Path) -> None:
    rng, rows = np.random.default_rng(0), 1000
    directory.mkdir()
    for i in range(6):
        cents = [None if n % 11 == 0 else n for n in range(rows)]
        table = pa.table(
            {
                "id": np.arange(i * rows, (i + 1) * rows),
                "v": rng.integers(0, 1000, rows),
                "s": [f"k{n}" for n in rng.integers(0, 50, rows)],
                "d": pa.array(cents, pa.int64()).cast(pa.decimal128(19, 0)).cast(pa.decimal128(12, 2)),
                "ts": pa.array(rng.integers(0, 10**15, rows), pa.timestamp("us", "UTC")),
                "x": pa.array([float("nan") if n % 13 == 0 else n / 3 for n in range(rows)]),
            }
        )
        pq.write_table(table, directory / f"{i}.parquet")


@pytest.mark.slow  # A server in a JVM of its own.
def test_verbs_that_write(tmp_path: Path, spark: Any) -> None:
    if pytest.importorskip("pyspark").__version__ < "4.1":
        pytest.skip("only later servers limit the bytes of batches")
    for name in ("t", "classic"):
        _write_table(tmp_path / name)
    zskip.table(spark, str(tmp_path / "classic")).optimize(by=["v", "s"], files=8, seed=3)
    catalog = {
        "PYICEBERG_CATALOG__LOCAL__TYPE": "sql",
        "PYICEBERG_CATALOG__LOCAL__URI": f"sqlite:///{tmp_path}/catalog.db",
        "PYICEBERG_CATALOG__LOCAL__WAREHOUSE": f"file://{tmp_path}/warehouse",
    }
    script = SCRIPT.replace("\ntable.record()", '\nos.system(f"cp -r {root}/t {root}/optimized")\ntable.record()', 1)
    with connect_server(tmp_path / "server") as server:
        command = [sys.executable, "-c", script, str(tmp_path), server.url()]
        environment = {**os.environ, **catalog}
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr[-6000:]
    assert done.stdout.strip().endswith("done")
    assert _rows_of_files(tmp_path / "optimized") == _rows_of_files(tmp_path / "classic")
