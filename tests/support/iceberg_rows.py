"""Tables of the session's own Iceberg catalog, and rows for them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from zskip.spark.jvm.gateway import Jvm

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


def load(spark: SparkSession, name: str) -> Any:
    """Iceberg's own table."""
    table = Jvm.of(spark).call("org.apache.iceberg.spark.Spark3Util", "loadIcebergTable")(spark._jsparkSession, name)
    table.refresh()
    return table


def delete_equal(spark: SparkSession, name: str, column: str, values: Sequence[int]) -> None:
    """Commit an equality delete for all partitions, which Spark itself never writes, of a `BIGINT` column.

    The table was made without partitions.
    """
    jvm, table = Jvm.of(spark), load(spark, name)
    number = table.schema().findField(column).fieldId()
    path = Path(table.location().removeprefix("file:")) / "data" / f"deletes-{next(COUNTER)}.parquet"
    field = pa.field(column, pa.int64(), metadata={b"PARQUET:field_id": str(number).encode()})
    pq.write_table(pa.table([pa.array(values, pa.int64())], pa.schema([field])), path)
    make = jvm.call("org.apache.iceberg.FileMetadata", "deleteFileBuilder")
    builder = make(table.specs().get(0)).ofEqualityDeletes(jvm.array("int", [number]))
    builder = builder.withPath(str(path)).withFormat("PARQUET").withFileSizeInBytes(path.stat().st_size)
    table.newRowDelta().addDeletes(builder.withRecordCount(len(values)).build()).commit()
    spark.sql(f"REFRESH TABLE {name}")
