"""Queries of Delta tables in an enabled session, whose files come from the entries of the log that are at hand."""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import tiers

import zskip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VECTORS = {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"}


def write(spark: SparkSession, path: Path, **options: str) -> str:
    """An indexed table, and its name in SQL."""
    rows = spark.range(0, 1200, 1, 6)
    rows = rows.selectExpr("id", "id * 7919 % 1200 AS u", "concat('n', id) AS s", "id DIV 600 AS p")
    rows.write.format("delta").partitionBy("p").options(**options).save(str(path))
    zskip.table(spark, str(path)).index(sketches=["values:u"])
    return f"delta.`{path}`"


def jobs(spark: SparkSession, sql: str) -> int:
    """The number of jobs that a query in an enabled session runs, after it gave the rows of a plain one."""
    plain = sorted(map(str, spark.sql(sql).collect()))
    context, group = spark.sparkContext, uuid.uuid4().hex
    with zskip.enabled(spark):
        context.setJobGroup(group, group)
        try:
            assert sorted(map(str, spark.sql(sql).collect())) == plain, sql
        finally:
            context._jsc.clearJobGroup()
    return len(context.statusTracker().getJobIdsForGroup(group))


def test_a_query_runs_no_job_beside_its_own(engine_spark: SparkSession, tmp_path: Path) -> None:
    table = write(engine_spark, tmp_path / "t ü", **VECTORS)
    query = f"SELECT * FROM {table} WHERE u = 77"
    jobs(engine_spark, query)
    assert jobs(engine_spark, query) == 1
    engine_spark.sql(f"DELETE FROM {table} WHERE id = 300")  # A deletion vector, whose file the index knows.
    assert jobs(engine_spark, query) == 1, "the version before and one commit tell the files"
    assert jobs(engine_spark, f"SELECT * FROM {table} WHERE id = 300") == 1
    engine_spark.sql(f"INSERT INTO {table} VALUES (5000, 77, 'new', 1)")
    assert jobs(engine_spark, query) > 1, "Delta chooses among files that the index does not know"
    zskip.table(engine_spark, str(tmp_path / "t ü")).index()
    assert jobs(engine_spark, query) == 1
    assert jobs(engine_spark, f"SELECT count(*) FROM {table}") > 0


def test_a_table_without_an_index_is_left_alone(engine_spark: SparkSession, tmp_path: Path) -> None:
    table = write(engine_spark, tmp_path / "t")
    shutil.rmtree(tmp_path / "t" / "_zskip")
    query = f"SELECT * FROM {table} WHERE u = 77"
    jobs(engine_spark, query)
    assert jobs(engine_spark, query) > 1


def test_a_table_made_anew_at_the_same_path(engine_spark: SparkSession, tmp_path: Path) -> None:
    for rows in (1200, 600):
        table = write(engine_spark, tmp_path / "t")
        engine_spark.sql(f"DELETE FROM {table} WHERE id >= {rows}")
        for _ in range(2):
            jobs(engine_spark, f"SELECT p, count(*) FROM {table} WHERE u < 1100 GROUP BY p")
        shutil.rmtree(tmp_path / "t")


class Pause:
    """A Python function of SQL that waits for this process while a transaction runs."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self._started, self._go = path / "started", path / "go"
        started, go = str(self._started), str(self._go)

        def pause(value: Any) -> Any:
            import pathlib
            import time

            pathlib.Path(started).touch()
            until = time.monotonic() + 120
            while not pathlib.Path(go).exists() and time.monotonic() < until:
                time.sleep(0.05)
            return value

        spark.udf.register("pause", pause, "string")

    def during(self, transaction: Callable[[], object], other: Callable[[], object]) -> str:
        """The kind of error of a transaction during which another one commits; empty if it commits, too."""
        for path in (self._started, self._go):
            path.unlink(missing_ok=True)
        errors: list[str] = []

        def run() -> None:
            try:
                transaction()
            except Exception as error:
                errors.append(str(error).partition(" ")[0].partition("]")[0])

        thread = threading.Thread(target=run)
        thread.start()
        while not self._started.exists() and thread.is_alive():
            time.sleep(0.05)
        assert thread.is_alive(), errors
        other()
        self._go.touch()
        thread.join()
        return errors[0] if errors else ""


WRITES = {
    "merge": "MERGE INTO {t} t USING (SELECT id, pause(s) AS s FROM {t} WHERE u = 77) o ON t.id = o.id + 1 "
    "WHEN MATCHED THEN UPDATE SET s = o.s",
    "insert": "INSERT INTO {t} SELECT id + 1, u, pause(s), p FROM {t} WHERE u = 77",
    "update": "UPDATE {t} SET s = pause(s) WHERE u = 77",
    "replace": "INSERT INTO {t} REPLACE WHERE p = 0 SELECT id, u, pause(s), 0L FROM {t} WHERE u = 77",
}


@pytest.mark.parametrize("kind", tiers.nightly(WRITES))
def test_writers_conflict_as_without_zskip(engine_spark: SparkSession, tmp_path: Path, kind: str) -> None:
    outcomes = []
    for enabled in (False, True):
        table = write(engine_spark, tmp_path / f"{enabled}", **{"delta.isolationLevel": "Serializable"})
        jobs(engine_spark, f"SELECT * FROM {table} WHERE u = 77")
        pause = Pause(engine_spark, tmp_path)
        engine_spark.conf.set("spark.zskip.enabled", str(enabled).lower())
        try:
            # One row waits at a time, since the session has two cores.
            others = ["UPDATE {t} SET s = 'x' WHERE u = 77", "INSERT INTO {t} VALUES (5000, 77, 'new', 1)"]
            outcomes.append(
                [
                    pause.during(
                        lambda table=table: engine_spark.sql(WRITES[kind].format(t=table)),
                        lambda table=table, other=other: engine_spark.sql(other.format(t=table)),
                    )
                    for other in others
                ]
            )
        finally:
            engine_spark.conf.unset("spark.zskip.enabled")
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] != ""
