"""What one session holds after more and more queries, and one process after more and more sessions.

python bench/growth/session.py --queries 50000 --tables 20
python bench/growth/session.py --restarts 50

The formats are those whose jars are there (`python3 dev.py test-engines`).
"""

from __future__ import annotations

import gc
import random
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import zskip
from shared import data, measure, session

RUNS = [
    {"name": "growth-session", "title": "Thousands of queries in one session", "case": "hard",
     "text": "Eight threads under `enable`, on tables that are appended to, rewritten and dropped meanwhile: what "
     "the process and its JVM hold after a collection. Or sessions that are started, enabled, queried and stopped in "
     "one process.",
     "options": "--queries 10000 --tables 20", "hours": True, "goals": {"*_slope": ("<=", 0.1)},
     "shown": ["heap_mb", "metaspace_mb", "java_objects", "sockets", "python_mb"]},
    {"name": "growth-restarts", "title": "Sessions started and stopped in one process", "case": "usual",
     "options": "--restarts 50", "hours": False},
]  # fmt: skip

THREADS, ROWS, FILES, PARTS = 8, 500, 4, 10
HOME = data.HOME / "growth-session"


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
        rows = rows_of(self._spark, self._random.randrange(1 << 30))
        if kind == "iceberg":
            rows.writeTo(name).using("iceberg").create()
        else:
            rows.write.format(kind).save(str(path))
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


def rows_of(spark: Any, seed: int) -> Any:
    """The rows of a new table."""
    return spark.range(0, FILES * ROWS, 1, FILES).selectExpr(f"bigint(pmod(hash(id, {seed}), 1000000)) AS a", "id AS b")


def state(spark: Any) -> dict[str, Any]:
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
        "sockets": sum("socket" in str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()),
        "python_mb": measure.resident(),
    }


def restarts(count: int) -> list[dict[str, Any]]:
    """Sessions started and stopped in this process."""
    rows = []
    path = str(HOME / "restarts")
    for number in range(1, count + 1):
        spark = session.start()
        if number == 1:
            rows_of(spark, 1).write.parquet(path)
        zskip.enable(spark)
        spark.read.parquet(path).where("a < 1000").collect()
        if number in {max(1, round(count * i / PARTS)) for i in range(1, PARTS + 1)}:
            rows.append({"sessions": number, **state(spark)})
            measure.log(str(rows[-1]))
        spark.stop()
    return rows


def main() -> None:
    """Measure, and print the figures."""
    options = measure.arguments(__doc__ or "", queries=50_000, tables=20, restarts=0, formats="")
    shutil.rmtree(HOME, ignore_errors=True)
    rows = restarts(options.restarts) if options.restarts else queries(options)
    measure.emit_series(rows, options.json)


def queries(options: Any) -> list[dict[str, Any]]:
    """Queries in one session, and what it holds after each tenth."""
    formats = options.formats.split(",") if options.formats else session.formats_with_jars()
    spark = session.start(**session.readers_conf(formats, HOME / "warehouse"))
    zskip.enable(spark)
    tables, rows = Tables(spark, options.tables, formats, options.seed), []
    each = options.queries // PARTS
    with ThreadPoolExecutor(THREADS) as pool:
        for part in range(PARTS):
            list(pool.map(tables.query, range(part * each, (part + 1) * each)))
            rows.append({"queries": (part + 1) * each, **state(spark)})
            measure.log(str(rows[-1]))
    tables.check()
    spark.stop()
    return rows


if __name__ == "__main__":
    main()
