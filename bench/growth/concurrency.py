"""Four writers, maintenance and four readers at once on one table: who is refused how often, and whether a row is lost.

python bench/growth/concurrency.py --minutes 60 --formats parquet,delta,iceberg
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import zskip
from shared import data, measure, session

RUNS = [
    {"name": "growth-concurrency", "title": "Many at once", "case": "hard",
     "text": "Four writers, maintenance and four readers on one table: two append through zskip, two by `INSERT`, "
     "one of each kind deletes its rows, too, where the format can; readers ask for a snapshot of a writer's rows, "
     "by `df()` and by a query under `enable`. Calls that were `done`, and those that were `refused` since another "
     "was first. `own` is the format's own Z-order in place of `Table.maintain`, on a table of its own. The run "
     "fails where a reader sees a part of a commit, or a row is lost or doubled at the end (`whole`). Spark's own "
     "reader of plain Parquet may see a rewrite in the middle of its renames (`query_torn`, see "
     "[commits](parquet-commits.md)).",
     "options": "--minutes 1", "goals": {"*_whole": ("=", True)}},
]  # fmt: skip

HOME = data.HOME / "growth-concurrency"
ROWS, WRITERS, READERS, FILES, TRIES = 1000, 4, 4, 8, 1000
BY = ["a", "writer"]
REFUSED = ("Concurrent", "Conflict", "Commit", "Validation", "conflict", "concurrent")
"""Words by which the formats and zskip say that another writer was first."""


class Table:
    """The table, and what its writers have done."""

    def __init__(self, spark: Any, kind: str, maintenance: str) -> None:
        self._spark, self._kind, self._maintenance = spark, kind, maintenance
        name = f"{kind}_{maintenance}"
        self._name = f"local.growth.{name}" if kind == "iceberg" else name
        self._path = self._name if kind == "iceberg" else str(HOME / name)
        self._numbers: list[list[int]] = [[] for _ in range(WRITERS)]
        self.counts: Counter[str] = Counter()
        self._stop = threading.Event()
        self._failed: list[BaseException] = []
        spark.sql(f"DROP TABLE IF EXISTS {self._name}")
        where = "" if kind == "iceberg" else f"LOCATION '{self._path}'"
        spark.sql(f"CREATE TABLE {self._name} (writer INT, number INT, a BIGINT) USING {kind} {where}")
        if kind == "parquet":
            Path(self._path).mkdir(parents=True, exist_ok=True)
        for writer in range(WRITERS):
            self._insert(writer, 0)
            self._numbers[writer].append(0)
        self._zskip().optimize(BY, files=FILES)
        self._refresh()

    def run(self, minutes: float) -> dict[str, Any]:
        """Everybody at once, for some minutes; then who did what."""
        roles = [(self._write, writer) for writer in range(WRITERS)]
        roles += [(self._read, reader) for reader in range(READERS)]
        roles += [(self._maintain, 0)]
        threads = [threading.Thread(target=self._repeat, args=role) for role in roles]
        for thread in threads:
            thread.start()
        self._stop.wait(60 * minutes)
        self._stop.set()
        for thread in threads:
            thread.join()
        if self._failed:
            raise SystemExit(f"{self._name}: {self._failed[0]!r}")
        self._check()
        names = ("append", "insert", "delete", "maintenance", "df", "query")
        parts = [(f"{name}_{what}", self.counts[f"{name}_{what}"]) for name in names for what in ("done", "refused")]
        found = {name: count for name, count in parts if self.counts[name.rpartition("_")[0] + "_done"]}
        torn = {"query_torn": self.counts["query_torn"]} if self._kind == "parquet" else {}
        return {**found, **torn, "whole": True}

    def _repeat(self, work: Callable[[int, int], None], who: int) -> None:
        try:
            number = 1
            while not self._stop.is_set():
                work(who, number)
                number += 1
        except BaseException as error:
            self._failed.append(error)
            self._stop.set()

    def _write(self, writer: int, number: int) -> None:
        by_zskip = writer < WRITERS // 2
        work = self._append if by_zskip else self._insert
        self._tried("append" if by_zskip else "insert", lambda: work(writer, number))
        self._numbers[writer].append(number)
        if self._kind != "parquet" and writer % 2 and number % 10 == 0:
            self._tried("delete", lambda: self._delete(writer, number))
            self._numbers[writer] = [number]

    def _append(self, writer: int, number: int) -> None:
        self._zskip().append(self._rows(writer, number))

    def _insert(self, writer: int, number: int) -> None:
        rows = self._rows(writer, number)
        if self._kind == "parquet":  # Spark's INSERT removes files that others write at the same time.
            staged = HOME / f"staged-{writer}"
            shutil.rmtree(staged, ignore_errors=True)
            rows.coalesce(1).write.parquet(str(staged))
            for file in staged.glob("*.parquet"):
                file.rename(Path(self._path) / f"insert-{writer}-{number}.parquet")
            return
        rows.createOrReplaceTempView(f"rows_{writer}")
        self._spark.sql(f"INSERT INTO {self._name} SELECT * FROM rows_{writer}")

    def _delete(self, writer: int, number: int) -> None:
        self._spark.sql(f"DELETE FROM {self._name} WHERE writer = {writer} AND number < {number}")

    def _rows(self, writer: int, number: int) -> Any:
        some = f"bigint(pmod(hash(id, {writer}, {number}), 1000000)) AS a"
        return self._spark.range(0, ROWS, 1, 1).selectExpr(f"{writer} AS writer", f"{number} AS number", some)

    def _maintain(self, _: int, number: int) -> None:
        time.sleep(1)
        if self._maintenance == "zskip":
            self._tried("maintenance", lambda: self._zskip().maintain())
        elif self._kind == "delta":
            self._tried("maintenance", lambda: self._collect(f"OPTIMIZE {self._name} ZORDER BY ({', '.join(BY)})"))
        else:
            call = f"table => '{self._name}', strategy => 'sort', sort_order => 'zorder({', '.join(BY)})'"
            self._tried("maintenance", lambda: self._collect(f"CALL local.system.rewrite_data_files({call})"))

    def _read(self, reader: int, number: int) -> None:
        by_df = reader < READERS // 2
        self._tried("df" if by_df else "query", lambda: self._whole(reader % WRITERS, by_df=by_df))

    def _whole(self, writer: int, *, by_df: bool) -> None:
        """A snapshot has all rows of a number, or none, and no number twice."""
        if not by_df:
            self._refresh()
        rows = self._zskip().df() if by_df else self._spark.table(self._name)
        found = rows.where(f"writer = {writer}").groupBy("number").count().collect()
        wrong = [row for row in found if row["count"] != ROWS]
        if wrong and self._kind == "parquet" and not by_df:
            self.counts["query_torn"] += 1
        elif wrong:
            raise AssertionError(f"writer {writer} has {wrong[:3]}")

    def _tried(self, name: str, work: Callable[[], Any]) -> None:
        """Call until nobody was first."""
        for _ in range(TRIES):
            try:
                work()
            except Exception as error:
                if not refused(error, self._kind):
                    raise
                self.counts[f"{name}_refused"] += 1
                if self._stop.is_set() and name in ("maintenance", "df", "query"):
                    return
                time.sleep(0.1)
            else:
                self.counts[f"{name}_done"] += 1
                return
        raise AssertionError(f"{name} was refused {TRIES} times in a row")

    def _check(self) -> None:
        self._refresh()
        expected = {(writer, n): ROWS for writer, numbers in enumerate(self._numbers) for n in numbers}
        for rows in (self._spark.table(self._name), self._zskip().df()):
            found = {(row[0], row[1]): row[2] for row in rows.groupBy("writer", "number").count().collect()}
            if found != expected:
                wrong = {key for key in {*found, *expected} if found.get(key) != expected.get(key)}
                raise SystemExit(f"{self._name}: {len(wrong)} numbers differ, such as {sorted(wrong)[:5]}")

    def _zskip(self) -> Any:
        return zskip.table(self._spark, self._path)

    def _collect(self, sql: str) -> None:
        self._spark.sql(sql).collect()

    def _refresh(self) -> None:
        self._spark.sql(f"REFRESH TABLE {self._name}")


def refused(error: Exception, kind: str) -> bool:
    """Whether another writer was first, or, under plain Parquet's own reader, replaced a file that it had listed."""
    text = f"{type(error).__name__} {error}"
    is_gone = kind == "parquet" and ("FILE_NOT_EXIST" in text or "is gone" in text)
    return is_gone or any(word in text for word in REFUSED)


def main() -> None:
    """Measure, and keep the figures."""
    options = measure.arguments(__doc__ or "", minutes=60.0, formats="parquet,delta,iceberg")
    shutil.rmtree(HOME, ignore_errors=True)
    formats = options.formats.split(",")
    conf = session.readers_conf(formats, HOME / "warehouse")
    spark = session.start(**conf, **{"spark.sql.shuffle.partitions": "2"})
    zskip.enable(spark)
    figures: dict[str, Any] = {}
    for kind in formats:
        for maintenance in ("zskip",) if kind == "parquet" else ("zskip", "own"):
            figures[f"{kind}_{maintenance}"] = Table(spark, kind, maintenance).run(options.minutes)
            measure.log(str(figures))
    measure.emit(figures, options.json)


if __name__ == "__main__":
    main()
