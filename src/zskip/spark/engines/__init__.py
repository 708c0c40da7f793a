"""The table formats' own writers, as the session has them loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zskip.formats import DeltaFormat, TableFormat
from zskip.formats.hudi import HudiFormat
from zskip.formats.iceberg import check_installed
from zskip.spark.engines import delta
from zskip.spark.engines.base import Committed, Engine, RoutedRows
from zskip.spark.engines.hudi import HudiEngine, reads_hudi

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zskip.spark.engines.iceberg import SessionCatalog

__all__ = ["Committed", "Engine", "RoutedRows", "engine_for", "has_own_reader", "reads_hudi", "session_catalog"]


def engine_for(spark: SparkSession, table: TableFormat, root: str) -> Engine | None:
    """The engine that has to write to a table; None where zskip writes the files and the format commits them.

    root: absolute path or URI of the table.
    """
    if isinstance(table, DeltaFormat) and delta.is_loaded(spark) and table.foreign() is not None:
        return delta.DeltaEngine(spark, root)
    if isinstance(table, HudiFormat):
        return HudiEngine(spark, table)
    return None


def session_catalog(spark: SparkSession, table: str) -> SessionCatalog | None:
    """The Iceberg table of a name whose first part is a catalog of the session; None for other names.

    Raises MissingDependencyError where pyiceberg is not installed.
    """
    setting = f"spark.sql.catalog.{table.partition('.')[0]}"
    if not str(spark.conf.get(setting, "")).startswith("org.apache.iceberg.spark."):
        return None
    check_installed(table)
    from zskip.spark.engines.iceberg import SessionCatalog

    return SessionCatalog(spark, table)


def has_own_reader(spark: SparkSession | None, name: str) -> bool:
    """Whether the session can read tables of a format by the format's own code."""
    return name == "delta" and spark is not None and delta.is_loaded(spark)
