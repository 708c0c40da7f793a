"""Delta's own reader in a session with `zskip.enable`: its answers, from fewer files than its own skipping leaves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import zskip

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WHERES = ["id < 250", "u = 77", "s = 'n500'", "p = 1 AND u = 77", "id < 250 AND s LIKE 'n23%'", "u IN (5, 6) OR id = 9"]


def write(spark: SparkSession, path: str, **options: str) -> None:
    rows = spark.range(0, 2400, 1, 24)
    rows = rows.selectExpr("id", "id * 7919 % 2400 AS u", "concat('n', id) AS s", "id DIV 1200 AS p")
    rows.write.format("delta").partitionBy("p").options(**options).save(path)


def both(spark: SparkSession, path: str, where: str) -> tuple[list[str], list[str]]:
    """The rows of a query without zskip and with it."""

    def read() -> DataFrame:
        return spark.read.format("delta").load(path).where(where)

    plain = sorted(map(str, read().collect()))
    with zskip.enabled(spark):
        return plain, sorted(map(str, read().collect()))


def test_sketches_skip_more_than_delta_does(engine_spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t ü")
    write(engine_spark, path)
    zskip.table(engine_spark, path).index(sketches=["values:u"])
    for where in WHERES:
        plain, pruned = both(engine_spark, path, where)
        assert pruned == plain, where
    both(engine_spark, path, "u = 77")
    (scan,) = zskip.scans(engine_spark)
    assert scan.files == 1 < scan.files_total, "the total is what Delta's own skipping leaves"
    engine_spark.sql(f"UPDATE delta.`{path}` SET u = 77 WHERE id = 2399")
    engine_spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 0")
    for where in WHERES:
        plain, pruned = both(engine_spark, path, where)
        assert pruned == plain, where


def test_time_travel_and_changes_through_an_enabled_session(engine_spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write(engine_spark, path)
    zskip.table(engine_spark, path).index(sketches=["values:u"])
    with zskip.enabled(engine_spark):
        engine_spark.sql(f"DELETE FROM delta.`{path}` WHERE u = 77")
        engine_spark.sql(f"UPDATE delta.`{path}` SET s = 'x' WHERE u = 78")
        engine_spark.sql(f"MERGE INTO delta.`{path}` t USING (SELECT 79L AS u) o ON t.u = o.u WHEN MATCHED THEN DELETE")
        now = engine_spark.read.format("delta").load(path)
        assert now.where("u = 77").count() == now.where("u = 79").count() == 0
        assert [row.s for row in now.where("u = 78").collect()] == ["x"]
        before = engine_spark.read.format("delta").option("versionAsOf", 0).load(path)
        assert before.where("u = 77").count() == 1


@pytest.mark.parametrize("change", ["deletion vectors", "column mapping"])
def test_what_delta_must_read_itself_is_left_to_it(engine_spark: SparkSession, tmp_path: Path, change: str) -> None:
    path = str(tmp_path / "t")
    write(engine_spark, path)
    zskip.table(engine_spark, path).index(sketches=["values:u"])
    if change == "deletion vectors":
        engine_spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = true)")
        engine_spark.sql(f"DELETE FROM delta.`{path}` WHERE u = 77")
    else:
        engine_spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
        engine_spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN u TO w")
        engine_spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN id TO u")
    for where in ("u = 77", "u < 250", "s = 'n500'"):
        plain, pruned = both(engine_spark, path, where)
        assert pruned == plain, where
