"""What `test_enabled.py` and `test_engine.py` try at length on the newest Spark, in short on an older one."""

from __future__ import annotations

import uuid
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

import zskip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("error::zskip.errors.ZskipWarning")

FILES = 12


def create(spark: SparkSession, version: int) -> str:
    """A table of 1,200 rows in 12 files by `id`."""
    name = f"local.db.t{uuid.uuid4().hex[:12]}"
    properties = f"'format-version' = '{version}', 'write.delete.mode' = 'merge-on-read'"
    properties += ", 'write.distribution-mode' = 'none'"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, u INT, s STRING) USING iceberg TBLPROPERTIES ({properties})")
    rows = spark.range(0, 1200, 1, FILES).selectExpr("id", "int(id * 7919 % 1200) AS u", "concat('n', id) AS s")
    rows.writeTo(name).append()
    return name


def check(spark: SparkSession, sql: str, files: int) -> None:
    """The same rows with zskip and without, and with it so many files of the first table."""
    plain = sorted(map(str, spark.sql(sql).collect()))
    with zskip.enabled(spark):
        assert sorted(map(str, spark.sql(sql).collect())) == plain, sql
    scans = [scan for scan in zskip.scans(spark) if not scan.for_keys]
    assert files in {scan.files for scan in scans}, (sql, scans)


@pytest.mark.parametrize("version", [2, 3])
def test_a_table_with_deletes_and_renamed_columns(engine_spark: SparkSession, version: int) -> None:
    spark, name = engine_spark, create(engine_spark, version)
    table, ids = zskip.table(spark, name), "_row_id, _last_updated_sequence_number" if version > 2 else "1"
    first = spark.sql(f"SELECT snapshot_id FROM {name}.snapshots").collect()[0].snapshot_id
    spark.sql(f"DELETE FROM {name} WHERE id < 20 OR id BETWEEN 500 AND 549")
    assert table.index(sketches=["values:u", "ranges(1):lower(s)"]).files == FILES
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN u TO w")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN u INT")
    check(spark, f"SELECT * FROM {name} WHERE id + 1 > 1110", 1)
    check(spark, f"SELECT * FROM {name} WHERE u IS NULL AND id + 1 > 1110", 1)
    check(spark, f"SELECT s FROM {name}.snapshot_id_{first} WHERE u = 77", 1)
    check(spark, f"SELECT s FROM {name} ORDER BY id LIMIT 12", 2)
    try:
        for threshold in ("10m", "-1"):
            spark.conf.set("spark.sql.autoBroadcastJoinThreshold", threshold)
            spark.conf.set("spark.zskip.joins", "always")
            keys = f"(SELECT id FROM {name} WHERE s IN ('n701', 'n710')) d"
            check(spark, f"SELECT f.s FROM {name} f JOIN {keys} ON f.id = d.id", 1)
            texts = f"(SELECT s FROM {name} WHERE id IN (701, 710)) d"
            check(spark, f"SELECT f.id FROM {name} f JOIN {texts} ON lower(f.s) = lower(d.s)", 1)
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
        spark.conf.unset("spark.zskip.joins")
    rows = sorted(map(str, spark.sql(f"SELECT *, {ids} FROM {name}").collect()))
    assert table.df().count() == len(rows)
    assert table.optimize(["id", "w"]).writer == "arrow"
    assert sorted(map(str, spark.sql(f"SELECT *, {ids} FROM {name}").collect())) == rows
    assert spark.sql(f"SELECT * FROM {name}.delete_files").count() == 0
    assert table.verify(queries=4).mismatches == ()


@pytest.mark.parametrize(("mode", "files"), [("merge-on-read", 1), ("copy-on-write", 0)])
def test_merge_reads_the_files_that_it_changes(engine_spark: SparkSession, mode: str, files: int) -> None:
    """Copy-on-write reads all files: before Spark 4 a subquery inside that for the files' names may never end."""
    spark, names = engine_spark, [create(engine_spark, 2) for _ in range(2)]
    source = "(SELECT id * 3 + 110 AS id FROM range(3)) o"
    merge = "MERGE INTO {} t USING {} ON t.id = o.id WHEN MATCHED THEN UPDATE SET s = 'x' "
    merge += "WHEN NOT MATCHED THEN INSERT (id, u, s) VALUES (o.id, 0, 'new')"
    spark.conf.set("spark.zskip.joins", "always")
    try:
        for name, is_enabled in zip(names, (False, True), strict=True):
            spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.merge.mode' = '{mode}')")
            zskip.table(spark, name).index()
            with zskip.enabled(spark) if is_enabled else nullcontext():
                spark.sql(merge.format(name, source))
        (scan,) = (scan for scan in zskip.scans(spark) if not scan.for_keys)
    finally:
        spark.conf.unset("spark.zskip.joins")
    assert scan.files == (files or scan.files_total)
    plain, enabled = (sorted(map(str, spark.table(name).collect())) for name in names)
    assert enabled == plain
