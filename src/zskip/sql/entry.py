"""`zskip.sql` and the switch of a session, which import what they need when called: `import zskip` takes no time."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import ModuleType
from typing import TYPE_CHECKING

from zskip.errors import public

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zskip.records import ScanReport


def sql(spark: SparkSession, text: str) -> DataFrame:
    """Run a statement of zskip's, or any other of Spark's, in which tables that zskip has indexed skip files.

    zskip's own are `OPTIMIZE t [WHERE ...] [ZORDER BY (a, b)]`, `CREATE TABLE t CLUSTER BY (a, b) AS SELECT ...`,
    `INSERT INTO t`, `EXPLAIN SKIPPING SELECT ...`, `VERIFY t [WHERE ...]`, and `CREATE`, `REFRESH`, `DROP` and
    `DESCRIBE SKIPPING INDEX ON t`. Here t is the name of a table, 'path' or parquet.`path`. A query gives the rows that
    `spark.sql(text)` gives, from fewer files. Commands run as they do there, once.

    Raises:
        PredicateError: A statement of zskip's does not parse.
        TableNotFoundError: There is no such table.
        UnsupportedError: zskip cannot open the table.

    It also raises what the methods of `Table` raise, and for any other SQL what Spark raises.
    """
    from zskip.sql.run import run

    return run(spark, text)


@public
def enable(spark: SparkSession) -> None:
    """Let every query of a session read only the files that it needs of each table that zskip has indexed.

    Queries stay as they are: `spark.read.parquet`, `spark.table`, `spark.sql`, views, subqueries. This sets
    `spark.zskip.enabled` to true; set it to false, and to true again, in Python or SQL. Spark reads it when it plans a
    query. Each session, also one from `spark.newSession()` or `spark.cloneSession()`, needs a call of its own.

    Under Spark Connect, the client changes queries before it sends them: conditions of DataFrames, and of texts since
    Spark 4.0, skip files of tables that are read by their paths, and that this process reaches as `zskip.open` does.

    Raises:
        UnsupportedError: Spark before 3.5.
        InputError: The session is not running.
    """
    _switch_of(spark).switch_on(spark, lambda: _record(spark))


@public
def disable(spark: SparkSession) -> None:
    """Let a session plan its queries as Spark alone does; `Table.df()` still skips files.

    It raises what `enable` raises.
    """
    _switch_of(spark).switch_off(spark)


def enabled(spark: SparkSession) -> AbstractContextManager[SparkSession]:
    """Let the queries that are planned inside a `with` block read only the files that they need.

    Spark plans a query when you ask for its rows: `collect`, `count`, `write`. Afterwards the old setting is back. It
    raises what `enable` raises.
    """
    switched_on: AbstractContextManager[SparkSession] = _switch_of(spark).switched_on(spark, lambda: _record(spark))
    return switched_on


def _switch_of(spark: SparkSession) -> ModuleType:
    """What switches a session's queries: a rule in its optimizer, or under Spark Connect in its client."""
    from zskip.spark.jvm.compat import is_connected

    if is_connected(spark):
        from zskip.table.read import connected

        return connected
    from zskip.spark.scan import enable

    return enable


def _record(spark: SparkSession) -> None:
    from zskip.table.workload.recording import record_session

    record_session(spark)


@public
def scans(spark: SparkSession) -> tuple[ScanReport, ...]:
    """Report what the latest query of a session read of each table that zskip knows, one report for each scan.

    It is empty if no such scan has run. It raises what `enable` raises.
    """
    import zskip.rows  # noqa: F401 (lets notebooks show reports as tables)
    from zskip.spark.jvm.compat import is_connected

    if is_connected(spark):
        from zskip.table.read import connected

        return connected.latest(spark)
    from zskip.spark.jvm.compat import check_session
    from zskip.spark.scan.rule.reports import latest

    check_session(spark)
    return latest(spark)
