"""Random histories of Hudi tables: the same answers with zskip and without, and no row lost.

`ZSKIP_HISTORY_STEPS` and `ZSKIP_HISTORY_SEEDS` (1,2,3) try more.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest
import random_queries
from query_fuzz import difference, rows_of
from random_rows import Table

import zskip

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

STEPS = int(os.environ.get("ZSKIP_HISTORY_STEPS", "7"))
SEEDS = [int(seed) for seed in os.environ.get("ZSKIP_HISTORY_SEEDS", "1").split(",")]
QUERIES = 3
COLUMNS = (("id", "bigint"), ("ts", "bigint"), ("i0", "int"), ("s3", "string"), ("d4", "date"), ("p", "int"))
TABLE = Table("t", COLUMNS, (), None)
SETTINGS = {
    "hoodie.metadata.enable": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.compact.inline": "false",
    "spark.zskip.joins": "always",
}


class History:
    """A table, and the rows that it must have."""

    def __init__(self, spark: SparkSession, kind: str, seed: int) -> None:
        self.spark, self.rng = spark, random.Random(seed)
        self.written = 0
        self.rows: dict[int, int] = {}
        """From the key to the column `i0`."""
        spark.sql("DROP TABLE IF EXISTS t")
        properties = f"type='{kind}', primaryKey='id', preCombineField='ts'"
        spark.sql(f"CREATE TABLE t ({TABLE.ddl}) USING hudi PARTITIONED BY (p) TBLPROPERTIES ({properties})")
        self.insert()
        root = spark.sql("DESCRIBE EXTENDED t").where("col_name = 'Location'").collect()[0][1]
        self.table = zskip.table(spark, root.removeprefix("file:"))
        self.steps: list[Callable[[], object]] = [
            self.insert, self.update, self.update, self.delete, self.merge,
            lambda: self.table.index(sketches=["values:i0"]),
            lambda: self.table.optimize(by=["i0", "id"], files=3),
            self.table.compact,
            lambda: self.table.maintain(by=["i0", "id"], target_file_size="1kB"),
        ]  # fmt: skip
        if kind == "mor":
            self.steps.append(
                lambda: spark.sql("CALL run_compaction(op => 'scheduleandexecute', table => 't')").collect()
            )

    def row(self, key: int) -> str:
        """A row of SQL, whose partition goes with its key."""
        value = self.rows[key] = self.rng.randrange(-2, 11)
        text, day = (random_queries.literal(self.rng, kind) for kind in ("string", "date"))
        self.written += 1  # Of two rows of a key Hudi keeps the one with the greater `ts`.
        return f"({key}L, {self.written}L, {value}, {text}, {day}, {key % 2})"

    def insert(self) -> None:
        """Add some rows."""
        first = max(self.rows, default=-1) + 1
        self.spark.sql(f"INSERT INTO t VALUES {', '.join(self.row(first + i) for i in range(8))}")

    def update(self) -> None:
        """Change rows of some keys."""
        divisor, value = self.rng.choice([3, 5, 7]), self.rng.randrange(-2, 11)
        self.spark.sql(f"UPDATE t SET i0 = {value} WHERE id % {divisor} = 1")
        self.rows = {key: value if key % divisor == 1 else old for key, old in self.rows.items()}

    def delete(self) -> None:
        """Delete the rows of some keys."""
        divisor = self.rng.choice([5, 7, 11])
        self.spark.sql(f"DELETE FROM t WHERE id % {divisor} = 2")
        self.rows = {key: value for key, value in self.rows.items() if key % divisor != 2}

    def merge(self) -> None:
        """Change some rows and add others."""
        last = max(self.rows, default=-1)
        keys = sorted({*self.rng.sample(sorted(self.rows), min(2, len(self.rows))), last + 1, last + 2})
        source = f"VALUES {', '.join(map(self.row, keys))} AS s(id, ts, i0, s3, d4, p)"
        matched = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        self.spark.sql(f"MERGE INTO t USING (SELECT * FROM {source}) s ON t.id = s.id AND t.p = s.p {matched}")

    def check(self) -> None:
        """Compare the rows with those that must be there, and random queries in both sessions."""
        keys = "SELECT id, i0 FROM t"
        assert sorted(self.spark.sql(keys).collect()) == sorted(self.rows.items())
        with zskip.enabled(self.spark):
            assert sorted(self.spark.sql(keys).collect()) == sorted(self.rows.items())
        for _ in range(QUERIES):
            query = random_queries.query(self.rng, [TABLE])
            try:
                whole = rows_of(self.spark.sql(query.unlimited().sql()))
            except Exception:
                continue  # Spark refuses the query.
            with zskip.enabled(self.spark):
                pruned = rows_of(self.spark.sql(query.sql()))
            assert difference(query, pruned, whole) is None, query.sql()


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_random_history_has_the_same_answers(kind: str, seed: int, engine_spark: SparkSession) -> None:
    spark = engine_spark.newSession()
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    history = History(spark, kind, seed)
    history.table.index()
    for _ in range(STEPS):
        step = history.rng.choice(history.steps)
        step()
        history.check()
