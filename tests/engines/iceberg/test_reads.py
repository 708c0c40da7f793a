"""Iceberg tables that Iceberg itself has written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import zskip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_table_of_a_hadoop_catalog(engine_spark: SparkSession) -> None:
    engine_spark.sql("CREATE TABLE local.db.plain (id BIGINT, region STRING) USING iceberg PARTITIONED BY (region)")
    for start in (0, 100):
        rows = engine_spark.range(start, start + 100).selectExpr("id", "concat('r', id % 2) AS region")
        rows.writeTo("local.db.plain").append()
    warehouse = engine_spark.conf.get("spark.sql.catalog.local.warehouse")
    table = zskip.table(engine_spark, f"{warehouse}/db/plain")
    assert table.df().exceptAll(engine_spark.table("local.db.plain")).count() == 0
    assert table.df().count() == 200
    assert 1 <= len(table.files("id >= 100 AND region = 'r1'")) < len(table.files("true"))


def test_files_with_deletes_lack_different_sketches(engine_spark: SparkSession) -> None:
    name = "local.db.sketched"
    spark = engine_spark
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    modes = "'write.delete.mode' = 'merge-on-read'"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, k BIGINT) USING iceberg TBLPROPERTIES ({modes})")
    table = zskip.table(spark, name)
    spark.sql(f"INSERT INTO {name} SELECT id, id * 7 FROM range(0, 100, 1, 1)")
    spark.sql(f"DELETE FROM {name} WHERE id = 3")
    table.index(sketches=["values:id"])
    spark.sql(f"INSERT INTO {name} SELECT id, id * 7 FROM range(100, 200, 1, 1)")
    table.index(sketches=["values:id", "values:k"])
    assert table.df().where("k = 70").count() == 1
    assert table.prune("k = 70").files == 1
