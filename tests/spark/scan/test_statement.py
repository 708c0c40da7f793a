"""Conditions on partitions that only Spark can evaluate select the files that Spark reads."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import zskip
from zskip.table.rewrite.file_selection import select_partitions
from zskip.table.version import open_version

ROWS = """
    SELECT id, IF(id % 5 = 0, NULL, DATE'2024-02-28' + CAST(id % 3 AS INT)) AS d, concat('é', id % 2) AS s,
        id % 4 - 1 AS n, TIMESTAMP'2024-03-30 21:30:00' + make_interval(0, 0, 0, 0, id % 2) AS t
    FROM range(0, 60, 1, 1)
"""
CONDITIONS = [
    "date_format(d, 'yyyy-MM') = '2024-02'",
    "weekday(d) IS NULL OR dayofweek(d) = 5",
    "reverse(s) = '1é' AND n = n",
    "CAST(n AS STRING) LIKE '-1%' AND length(s) = 2",
    "date_format(t, 'HH') = '21' AND (n > 0 OR n <= 0 OR s = 'x')",
    "CASE WHEN n > 0 THEN n > 1 ELSE translate(s, 'é', 'e') = 'e1' END",
    "concat(s, '!') = 'none'",
]


def test_partitions_are_those_that_spark_reads(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.sql(ROWS).write.partitionBy("d", "s", "n", "t").parquet(path)
    plain = spark.read.parquet(path).withColumn("file", F.input_file_name())
    handle = zskip.table(spark, path)._handle
    for where in CONDITIONS:
        expected = {
            unquote(unquote(row.file)).partition(f"{path}/")[2] for row in plain.where(where).select("file").collect()
        }
        assert {unquote(name) for name in select_partitions(open_version(handle), where).paths} == expected, where
