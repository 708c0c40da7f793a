"""The function `zskip.sql`, which imports what it needs when it is called, so that `import zskip` takes no time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def sql(spark: SparkSession, text: str) -> DataFrame:
    """Run a statement of zskip's, or any other of Spark's with skipping in the tables that zskip has indexed.

    `OPTIMIZE t [WHERE ...] [ZORDER BY (a, b)]`, `EXPLAIN SKIPPING SELECT ...`, `VERIFY t [WHERE ...]`,
    `DESCRIBE CLUSTERING t` and `CREATE`, `REFRESH`, `DROP`, `SHOW` and `DESCRIBE SKIPPING INDEX ON t` are zskip's; t is
    the name of a table, 'path' or parquet.`path`. Queries give the rows that `spark.sql(text)` gives, from fewer files;
    commands run as they do there, once.

    Raises PredicateError for statements of zskip's that do not parse, TableNotFoundError and UnsupportedError for
    what is no Parquet table, what the methods of `Table` raise, and for any other SQL what Spark raises.
    """
    from zskip.sql.run import run

    return run(spark, text)
