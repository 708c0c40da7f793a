"""`zskip.sql` and the switch of a session, which import what they need when called: `import zskip` takes no time."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from zskip.errors import public

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zskip.records import ScanReport


def sql(spark: SparkSession, text: str) -> DataFrame:
    """Run a statement of zskip's, or any other of Spark's with skipping in the tables that zskip has indexed.

    `OPTIMIZE t [WHERE ...] [ZORDER BY (a, b)]`, `CREATE TABLE t CLUSTER BY (a, b) AS SELECT ...`, `INSERT INTO t`,
    `EXPLAIN SKIPPING SELECT ...`, `VERIFY t [WHERE ...]`, and `CREATE`, `REFRESH`, `DROP` and `DESCRIBE SKIPPING INDEX
    ON t` are zskip's; t is the name of a table, 'path' or parquet.`path`. Queries give the rows that `spark.sql(text)`
    gives, from fewer files; commands run as they do there, once.

    Raises PredicateError for statements of zskip's that do not parse, TableNotFoundError and UnsupportedError for
    what is no Parquet table, what the methods of `Table` raise, and for any other SQL what Spark raises.
    """
    from zskip.sql.run import run

    return run(spark, text)


@public
def enable(spark: SparkSession) -> None:
    """Let every query of a session read only the files that it needs of each table that zskip has indexed.

    Queries stay as they are: `spark.read.parquet`, `spark.table`, `spark.sql`, views, sub-queries. The session setting
    `spark.zskip.enabled` becomes true; set it to false, or to true again, in Python or SQL. It is read when Spark plans
    a query. Sessions are told apart: `spark.newSession()` needs a call of its own.

    Raises UnsupportedError for Spark Connect and Spark before 3.5, InputError for what is no running session.
    """
    from zskip.spark.scan.enable import switch_on

    switch_on(spark, lambda: _record(spark))


@public
def disable(spark: SparkSession) -> None:
    """Let a session plan its queries as Spark alone does; `Table.df()` goes on to skip files.

    Raises what `enable` raises.
    """
    from zskip.spark.scan.enable import switch_off

    switch_off(spark)


def enabled(spark: SparkSession) -> AbstractContextManager[SparkSession]:
    """Let the queries that are planned inside a `with` read only the files that they need.

    Spark plans when rows are asked for: `collect`, `count`, `write`. What the session had set before comes back. Raises
    what `enable` raises.
    """
    from zskip.spark.scan.enable import switched_on

    return switched_on(spark, lambda: _record(spark))


def _record(spark: SparkSession) -> None:
    from zskip.table.workload.recording import record_session

    record_session(spark)


@public
def scans(spark: SparkSession) -> tuple[ScanReport, ...]:
    """What the latest query of a session's Spark read of each table of zskip's, one report a scan.

    Empty where no scan of such a table has run. Raises what `enable` raises.
    """
    import zskip.rows  # noqa: F401 (lets notebooks show reports as tables)
    from zskip.spark.jvm.compat import check_session
    from zskip.spark.scan.rule.reports import latest

    check_session(spark)
    return latest(spark)
