"""DataFrames over files that zskip chooses and Spark reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zskip.spark.compat import check_session
from zskip.spark.file_index import PrunedFileIndex, Pruning
from zskip.spark.jvm import Jvm
from zskip.spark.plans import planned_index
from zskip.spark.schema import TableSchema, with_ordinals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORDINAL = "__zskip_partition"
"""Column of `scan_with_ordinals`: the place of the row's Hive partition in the snapshot."""
_SOURCES = "org.apache.spark.sql.execution.datasources"


def scan(spark: SparkSession, schema: TableSchema, pruning: Pruning | None = None) -> DataFrame:
    """Read the files of a snapshot, each query only those that its filters leave.

    Rows, columns and their order are those of `spark.read.parquet` on the same files. Raises UnsupportedError for
    sessions that give no access to their JVM.
    """
    from pyspark.java_gateway import ensure_callback_server_started
    from pyspark.sql import DataFrame

    check_session(spark)
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    jvm = Jvm.of(spark)
    relation = jvm.find(f"{_SOURCES}.HadoopFsRelation")(
        planned_index(spark, PrunedFileIndex(spark, schema, pruning or Pruning())),
        schema.partition,
        schema.data,
        jvm.none,
        jvm.find(f"{_SOURCES}.parquet.ParquetFileFormat")(),
        jvm.empty_map,
        spark._jsparkSession,
    )
    return DataFrame(spark._jsparkSession.baseRelationToDataFrame(relation), spark)


def scan_with_ordinals(spark: SparkSession, schema: TableSchema) -> DataFrame:
    """Read all files of a snapshot; the one partition column `__zskip_partition` numbers the Hive partitions.

    Columns that the files hold under the name of a partition column keep what the files say.
    """
    return scan(spark, with_ordinals(spark, schema, ORDINAL))
