"""The one full pass: key, exact routing, sort inside files, write."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zskip.errors import UnsupportedError, ZskipError
from zskip.formats.compression import Compression
from zskip.layout.layout import Layout
from zskip.spark.forms import free_name
from zskip.spark.jvm.compat import SHORT_SHUFFLES, codec_name, is_connected, private_session
from zskip.spark.write.keys import place
from zskip.spark.write.routing import route

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROW_GROUP_BYTES = 128 << 20
_PART = re.compile(r"part-(\d+)-")
_SETTINGS = {
    # One task must write one file: partitions that Spark joins or splits would be the end of that.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.files.maxRecordsPerFile": "0",
    # Literal arrays are folded into the plan, whatever rules the user has switched off.
    "spark.sql.optimizer.excludedRules": "",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # What was read is what is written: no shift between calendars, and no refusal of dates before 1582.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    # Columns that a table format knows by ids have them in its files.
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    **SHORT_SHUFFLES,
}
_WRITER_OPTIONS = {
    "maxRecordsPerFile": "0",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # In an object store each rename is a copy: once is enough. Who reads the staged files has counted their rows.
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    "parquet.summary.metadata.level": "NONE",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteOptions:
    """How files are written."""

    compression: Compression
    page_rows: int = 20_000
    bloom_filters: tuple[str, ...] = ()
    """The paths of columns that get one."""


def writing_session(spark: SparkSession, *, by_name: bool = False) -> SparkSession:
    """A session like this one, with the settings of the write: the user's own session stays as it is.

    by_name: whether to find columns by name, although new files get column ids.
    """
    return private_session(spark, _SETTINGS | ({"spark.sql.parquet.fieldId.read.enabled": "false"} if by_name else {}))


def check_writable(frame: DataFrame) -> None:
    """Refuse a frame with columns that Spark cannot write to Parquet, before any work is done.

    Raises UnsupportedError that names the column. In a connected session only Arrow writes, which checks for itself.
    """
    if is_connected(frame.sparkSession):
        return
    parquet = frame.sparkSession._jvm.org.apache.spark.sql.execution.datasources.parquet  # type: ignore[union-attr]
    writer = parquet.ParquetFileFormat()
    for field in frame._jdf.schema().fields():
        if not writer.supportDataType(field.dataType()) or not writer.supportFieldName(field.name()):
            raise UnsupportedError(
                f'Spark cannot write column "{field.name()}" of type {field.dataType().sql().lower()} to Parquet; '
                "drop it from the table, or cast or rename it"
            )


def write_rows(rows: DataFrame, target: str, options: WriteOptions) -> None:
    """Write partition i of Spark as `part-<i>-....parquet`, in its order, into `target`.

    All else comes back as it was: columns, their order and types. Spark may add one file without rows.
    """
    writer = rows.write.mode("append").option("compression", codec_name(rows.sparkSession, options.compression.codec))
    writer = writer.options(**options.compression.settings)
    writer = writer.options(**{f"parquet.bloom.filter.enabled#{path}": "true" for path in options.bloom_filters})
    writer = writer.option("parquet.block.size", _ROW_GROUP_BYTES)
    writer.option("parquet.page.row.count.limit", options.page_rows).options(**_WRITER_OPTIONS).parquet(target)


def routed(frame: DataFrame, ordinal: str, layout: Layout) -> DataFrame:
    """Bring every row of a frame to the partition of Spark that has the number of its file in the layout, sorted there.

    ordinal: name of the column with the number of the row's Hive partition, which is dropped. The frame must come from
    a `writing_session`. A row in the wrong place fails the job.
    """
    key = free_name("__zskip_key", frame.columns)
    file_id = free_name("__zskip_file", frame.columns)
    placed = place(frame, layout, ordinal=ordinal, key=key, file_id=file_id).drop(ordinal)
    rows = route(placed, file_id, layout.file_count).drop(file_id)
    return rows.sortWithinPartitions(key).drop(key)


def file_of(name: str) -> int:
    """The file id in the name of a written file.

    >>> file_of("part-00012-4b1f-c000.zstd.parquet")
    12
    """
    match = _PART.match(name)
    if match is None:
        raise ZskipError(f'Spark wrote a file with the unexpected name "{name}"; please report it')
    return int(match[1])
