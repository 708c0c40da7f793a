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
