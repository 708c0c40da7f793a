"""Tables of the session's own Iceberg catalog, and rows for them."""

from __future__ import annotations

import itertools
from collections import Counter

from pyspark.sql import DataFrame, SparkSession

ROWS = "id BIGINT, k BIGINT, name STRING, x DOUBLE, n STRUCT<q: BIGINT, r: STRING>, day DATE"
COUNTER = itertools.count()


def create(spark: SparkSession, *, partitioned: str = "", columns: str = ROWS, version: int = 2) -> str:
    """An empty table of the session's catalog."""
    name = f"local.db.t{next(COUNTER)}"
    by = f"PARTITIONED BY ({partitioned})" if partitioned else ""
    spark.sql(f"CREATE TABLE {name} ({columns}) USING iceberg {by} TBLPROPERTIES ('format-version' = '{version}')")
    return name


def rows(spark: SparkSession, start: int = 0, count: int = 2000) -> DataFrame:
    return spark.range(start, start + count, 1, 4).selectExpr(
        "id",
        "id * 7919 % 2003 AS k",
        "IF(id % 11 = 0, NULL, concat(repeat('é', id % 30), id)) AS name",
        "CASE WHEN id % 13 = 0 THEN NULL WHEN id % 17 = 0 THEN double('NaN') ELSE id / 8 END AS x",
        "named_struct('q', id * 31 % 97, 'r', string(id)) AS n",
        "date_add(DATE'2024-01-01', int(id % 3)) AS day",
    )


def same(one: DataFrame, other: DataFrame) -> bool:
    return Counter(map(str, one.collect())) == Counter(map(str, other.collect()))
