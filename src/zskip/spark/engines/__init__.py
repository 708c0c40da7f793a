"""The table formats' own writers, as the session has them loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zskip.formats import TableFormat
from zskip.formats.hudi import HudiFormat
from zskip.spark.engines.base import Committed, Engine, RoutedRows
from zskip.spark.engines.hudi import HudiEngine, reads_hudi

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Committed", "Engine", "RoutedRows", "engine_for", "reads_hudi"]


def engine_for(spark: SparkSession, table: TableFormat, root: str) -> Engine | None:
    """The engine that has to write to a table; None where zskip writes the files and the format commits them.

    root: absolute path or URI of the table.
    """
    if isinstance(table, HudiFormat):
        return HudiEngine(spark, table)
    return None
