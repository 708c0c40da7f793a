"""Many queries in one session under `enable`, on tables that are appended to, rewritten and dropped meanwhile.

python bench/growth/session.py --queries 50000 --tables 20 --restarts 50

Eight threads query tables of the formats whose jars are there (`python3 dev.py test-engines`). Now and then one of them
appends to a table, rewrites it, or drops it and makes it anew. At each tenth: heap after a collection, metaspace,
loaded classes, threads, Java objects that Python holds, callbacks, sockets, and the memory of Python. `over_first` is
what the last has over the first, in %. `--restarts`: in another process, sessions that are started, enabled, queried
and stopped.
"""

from __future__ import annotations

import gc
import json
import os
import random
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import zskip
from shared import common, growth

THREADS, ROWS, FILES, PARTS = 8, 500, 4, 10
HOME = common.HOME / "growth-session"


class Tables:
    """The tables, each with the lock of its writers."""

    def __init__(self, spark: Any, count: int, formats: list[str], seed: int) -> None:
        self._spark = spark
        self._random = random.Random(seed)
        self._formats = [formats[i % len(formats)] for i in range(count)]
        self._locks = [threading.Lock() for _ in range(count)]
        self._rows = [0] * count
        for number in range(count):
            self._make(number)

    def query(self, number: int) -> None:
        """One query of a thread; each fiftieth changes a table instead."""
        table = self._random.randrange(len(self._rows))
        if number % 50 == 49:
            with self._locks[table]:
                (self._append, self._append, self._rewrite, self._make)[self._random.randrange(4)](table)
            return
        low = self._random.randrange(10**6)
        with self._locks[table]:  # A plain table that is dropped meanwhile would fail without zskip, too.
            where = f"a BETWEEN {low} AND {low + 10**5} AND hash(b, {number}) <> 7"
            self._spark.sql(f"SELECT count(*), max(b) FROM {self._name(table)} WHERE {where}").collect()

    def check(self) -> None:
        """Fail unless all rows are there."""
        for table, rows in enumerate(self._rows):
            count = self._spark.table(self._name(table)).count()
            if count != rows:
                raise SystemExit(f"{self._name(table)} has {count} rows instead of {rows}")

    def _name(self, table: int) -> str:
        return f"local.growth.t{table}" if self._formats[table] == "iceberg" else f"growth_{table}"

    def _address(self, table: int) -> str:
        return self._name(table) if self._formats[table] == "iceberg" else str(HOME / f"t{table}")

    def _make(self, table: int) -> None:
        kind, name, path = self._formats[table], self._name(table), HOME / f"t{table}"
        self._spark.sql(f"DROP TABLE IF EXISTS {name}")
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        for i in range(FILES):
            pq.write_table(
                rows_of(self._random),
                (HOME / f"new{table}-{i}.parquet" if kind != "parquet" else path / f"{i}.parquet"),
            )
        if kind == "parquet":
            self._spark.sql(f"CREATE TABLE {name} USING parquet LOCATION '{path}'")
        else:
            frame = self._spark.read.parquet(*(str(HOME / f"new{table}-{i}.parquet") for i in range(FILES)))
            if kind == "iceberg":
                frame.writeTo(name).using("iceberg").create()
            else:
                frame.write.format(kind).save(str(path))
                self._spark.sql(f"CREATE TABLE {name} USING {kind} LOCATION '{path}'")
        self._rows[table] = FILES * ROWS
        zskip.table(self._spark, self._address(table)).index()

    def _append(self, table: int) -> None:
        frame = self._spark.range(ROWS).selectExpr("id * 2000 AS a", "id AS b")
        zskip.table(self._spark, self._address(table)).append(frame)
        self._spark.catalog.refreshTable(self._name(table))
        self._rows[table] += ROWS

    def _rewrite(self, table: int) -> None:
        zskip.table(self._spark, self._address(table)).optimize(["a", "b"], files=FILES)
        self._spark.catalog.refreshTable(self._name(table))


def rows_of(chance: random.Random) -> pa.Table:
    """The rows of one file."""
    values = np.random.default_rng(chance.randrange(1 << 30)).integers(0, 10**6, (2, ROWS))
    return pa.table({"a": np.sort(values[0]), "b": values[1]})


def state(spark: Any) -> growth.Row:
    """What the process and its JVM hold."""
    from py4j.finalizer import ThreadSafeFinalizer

    jvm = spark.sparkContext._jvm
    for _ in range(2):
        gc.collect()
        jvm.System.gc()
    factory, runtime = jvm.java.lang.management.ManagementFactory, jvm.Runtime.getRuntime()
    metaspace = next(pool for pool in factory.getMemoryPoolMXBeans() if pool.getName() == "Metaspace")
    return {
        "heap_mb": (runtime.totalMemory() - runtime.freeMemory()) / 1e6,
        "metaspace_mb": metaspace.getUsage().getUsed() / 1e6,
        "classes": factory.getClassLoadingMXBean().getLoadedClassCount(),
        "jvm_threads": factory.getThreadMXBean().getThreadCount(),
        "python_threads": threading.active_count(),
        "java_objects": len(ThreadSafeFinalizer.finalizers),
        "callbacks": len(spark.sparkContext._gateway.gateway_property.pool.dict),
        "sockets": sum(
            "socket" in os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if linked(fd)
        ),
        "python_mb": common.resident(),
    }


def linked(fd: str) -> bool:
    """Whether a descriptor is still open."""
    return os.path.islink(f"/proc/self/fd/{fd}")


def restarts(count: int) -> list[growth.Row]:
    """Sessions started and stopped in this process."""
    rows = []
    HOME.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows_of(random.Random(1)), HOME / "restarts.parquet")
    for number in range(1, count + 1):
        spark = common.session()
        zskip.enable(spark)
        spark.read.parquet(str(HOME / "restarts.parquet")).where("a < 1000").collect()
        if number in {max(1, round(count * i / PARTS)) for i in range(1, PARTS + 1)}:
            rows.append({"sessions": number, **growth.rounded(state(spark))})
            common.log(str(rows[-1]))
        spark.stop()
    return rows


def main() -> None:
    """Measure, and keep the figures."""
    options = common.arguments(__doc__ or "", queries=50_000, tables=20, restarts=20, formats="", only="")
    if options.only:
        print(json.dumps(restarts(options.restarts)))
        return
    if options.restarts:
        command = [sys.executable, __file__, f"--restarts={options.restarts}", "--only=restarts"]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        growth.keep("restarts", "sessions", json.loads(done.stdout.splitlines()[-1]), options.seed)
    shutil.rmtree(HOME, ignore_errors=True)
    given = [name for name in ("delta", "iceberg") if common.engine_jars(name)]
    formats = options.formats.split(",") if options.formats else ["parquet", *given]
    spark = common.session(**common.readers_conf(formats, HOME / "warehouse"))
    zskip.enable(spark)
    tables, rows = Tables(spark, options.tables, formats, options.seed), []
    with ThreadPoolExecutor(THREADS) as pool:
        for part in range(PARTS):
            each = options.queries // PARTS
            list(pool.map(tables.query, range(part * each, (part + 1) * each)))
            rows.append({"queries": (part + 1) * each, **growth.rounded(state(spark))})
            common.log(str(rows[-1]))
            over = growth.rounded(over_first(rows))
            result = growth.keep("session", "queries", rows, options.seed, formats=formats, over_first=over)
    tables.check()
    spark.stop()
    common.emit({"machine": result["machine"], **over}, options.json)


def over_first(rows: list[growth.Row]) -> growth.Row:
    """What the last tenth has over the first, in %."""
    return {f"{name}_over_first_pct": 100 * (rows[-1][name] / rows[0][name] - 1) for name in rows[0] if rows[0][name]}


if __name__ == "__main__":
    main()
