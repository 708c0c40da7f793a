"""Run the statements about all tables of a database or a directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zskip.lake import Lake, lake
from zskip.sql import results
from zskip.sql.statements.lake import MaintainTables, ShowHealth
from zskip.sql.statements.options import Value
from zskip.sql.statements.parser import Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run_lake(spark: SparkSession, statement: ShowHealth | MaintainTables) -> DataFrame:
    """Run one of the statements; raises what the methods of `Lake` raise."""
    options: dict[str, Value] = dict(statement.options)
    tables = _open(spark, statement.target, options.pop("exclude", None))
    arguments: dict[str, Any] = {**options}
    if isinstance(statement, ShowHealth):
        return results.health_frame(spark, tables.survey(**arguments))
    return results.lake_frame(spark, tables.maintain(statement.budget, **arguments))


def _open(spark: SparkSession, target: Target, exclude: Value | None) -> Lake:
    patterns = exclude if isinstance(exclude, tuple) else ()
    if target.path is not None:
        return lake(spark, target.path, exclude=patterns)
    from zskip.spark.jvm.catalog import quote_name

    return lake(spark, f"{quote_name(target.parts)}.*", exclude=patterns)
