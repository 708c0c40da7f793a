"""The settings of a table's session that decide how columns and predicates are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zskip.records import Snapshot
from zskip.table.handle import Handle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_case_sensitive(handle: Handle) -> bool:
    """Whether the session tells column names apart by case."""
    spark = handle.spark or handle.connected
    return spark is not None and is_session_case_sensitive(spark)


def is_session_case_sensitive(spark: SparkSession) -> bool:
    """Whether a session tells column names apart by case."""
    return str(spark.conf.get("spark.sql.caseSensitive")).lower() == "true"


def merges_schemas(handle: Handle, snapshot: Snapshot) -> bool:
    """Whether the columns of all files count: the table declares them, or the session unifies the files' schemas."""
    if snapshot.reading.declared is not None:
        return True
    spark = handle.spark
    return spark is not None and str(spark.conf.get("spark.sql.parquet.mergeSchema")).lower() == "true"


def time_zone(handle: Handle) -> str:
    """The session's time zone, UTC without a session."""
    spark = handle.spark or handle.connected
    return "UTC" if spark is None else session_time_zone(spark)


def session_time_zone(spark: SparkSession) -> str:
    """The time zone of a session."""
    return str(spark.conf.get("spark.sql.session.timeZone"))
