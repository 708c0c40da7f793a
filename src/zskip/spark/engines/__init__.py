"""The table formats' own writers, as the session has them loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zskip.formats import TableFormat
from zskip.spark.engines.base import Committed, Engine, RoutedRows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Committed", "Engine", "RoutedRows", "engine_for"]


def engine_for(spark: SparkSession, table: TableFormat, root: str) -> Engine | None:
    """The engine that has to write to a table; None where zskip writes the files and the format commits them.

    root: absolute path or URI of the table. Raises UnsupportedError where the session lacks an engine that it needs.
    """
    return None
