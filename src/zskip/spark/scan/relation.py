"""DataFrames over files that zskip chooses and Spark reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zskip.errors import UnsupportedError
from zskip.records import Bools, PruneResult
from zskip.spark.jvm.compat import check_session, private_session
from zskip.spark.jvm.gateway import Jvm
from zskip.spark.scan.rule.file_index import PrunedFileIndex, Pruning
from zskip.spark.scan.rule.plans import planned_index
from zskip.spark.schema import TableSchema, partition_by_ordinal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORDINAL = "__zskip_partition"
"""Column of `scan_with_ordinals`: the place of the row's Hive partition in the snapshot."""
_WHOLE = {
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    # The bytes as they are: what depends on the calendar is not used.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
}
_SOURCES = "org.apache.spark.sql.execution.datasources"


def scan(spark: SparkSession, schema: TableSchema, pruning: Pruning | None = None) -> DataFrame:
    """Read the files of a snapshot, each query only those that its filters leave.

    Rows, columns and their order are those of `spark.read.parquet` on the same files. Raises UnsupportedError for
    sessions that give no access to their JVM.
    """
    from pyspark.java_gateway import ensure_callback_server_started
    from pyspark.sql import DataFrame

    check_session(spark)
    if schema.snapshot.reader is not None:
        raise UnsupportedError(
            f'the files of "{schema.snapshot.root}" are not its rows: it uses {schema.snapshot.reader}'
        )
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
    if schema.snapshot.reader is not None:
        from zskip.spark.engines.delta import read_files

        return read_files(spark, schema, ORDINAL)
    return scan(spark, partition_by_ordinal(spark, schema, ORDINAL))


def scan_whole(spark: SparkSession, schema: TableSchema, files: Bools, settings: Mapping[str, str]) -> DataFrame:
    """Read all rows of some files of a snapshot as they are, in a private session; what cannot be read is an error.

    files: (files of the snapshot,); settings: of that session.
    """
    result = PruneResult(kept=files, full=files)
    return scan(private_session(spark, {**_WHOLE, **settings}), schema, Pruning(prune=lambda _: result))
