"""One query that prunes, in whatever session: its tables are marked for the rule that `zskip.enable` installs."""

from __future__ import annotations

import json
import logging
import traceback
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zskip.errors import StorageError, ZskipWarning
from zskip.formats.parquet.log import finish, list_pending
from zskip.records import ScanReport
from zskip.spark.jvm.compat import frame_of
from zskip.spark.jvm.compiled.janino import invoke
from zskip.spark.jvm.gateway import Jvm
from zskip.spark.jvm.hadoop import storage_for
from zskip.spark.scan.logical import is_command
from zskip.spark.scan.rule.install import install
from zskip.spark.scan.rule.reports import latest
from zskip.table.handle import classic
from zskip.table.workload.recording import record_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger("zskip.sql")


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryTable:
    """A table of a query."""

    label: str
    """How a user calls it."""
    root: str = ""
    """Where its index lies; empty where it is read in full."""
    reason: str = ""
    """Why it is read in full; empty where it is not."""
    is_indexed: bool = True
    others: int = 0
    """Files that the index does not describe as they are."""
    files: int | None = None
    """None where listing them takes time; so are bytes and rows."""
    bytes: int | None = None
    rows: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PrunedQuery:
    """A query that reads only the files it needs, and its tables."""

    frame: DataFrame
    tables: tuple[QueryTable, ...] = ()

    def scans(self) -> dict[str, ScanReport]:
        """What the latest scan of each table read, by what a user calls it; the query has just run."""
        spark = self.frame.sparkSession
        labels = {storage_for(spark, table.root).root: table.label for table in self.tables if table.root}
        return {labels[scan.table]: scan for scan in latest(spark) if scan.table in labels}


def prune_query(spark: SparkSession, frame: DataFrame, *, explain: bool = False) -> PrunedQuery:
    """Let a query read only the files it needs of each table that zskip has indexed.

    What was a command has run, and stays as it is. explain: count the files of every table.
    """
    try:
        rule = install(spark)
        execution = frame._jdf.queryExecution()
        # Commands in it have run, and are no more than their results here.
        plan = execution.commandExecuted()
        caches_nothing = spark._jsparkSession.sharedState().cacheManager().isEmpty()
        marked, described = invoke(
            Jvm.of(spark),
            rule,
            "mark",
            plan,
            None if caches_nothing else execution.withCachedData(),
            explain,
        )
        tables = tuple(QueryTable(**table) for table in json.loads(described))
    except Exception as error:
        _log.warning("the query is left to Spark\n%s", traceback.format_exc())
        first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        _warn(f"zskip could not look into this query, so Spark reads every file ({first_line})")
        return PrunedQuery(frame=frame)
    for table in tables:
        if table.reason and table.is_indexed:
            _warn(f"{table.label} is read in full: {table.reason}")
        elif table.others and not explain:
            _warn(
                f"{table.label}: the index knows nothing of {table.others} of the {table.files} files, which every "
                "query therefore reads; bring the index up to date with Table.index()"
            )
    return PrunedQuery(frame=frame_of(spark, marked) if any(t.root for t in tables) else frame, tables=tables)


def finish_rewrites(spark: SparkSession, query: PrunedQuery) -> bool:
    """Finish rewrites of a query's tables that a crash interrupted; returns whether there were any.

    Spark's own listing of a plain directory does not follow zskip's commit log.
    """
    finished = False
    for table in [table for table in query.tables if table.root]:
        storage = storage_for(spark, table.root)
        for entry in list_pending(storage):
            try:
                finish(storage, entry)
            except StorageError as error:
                _warn(f"{table.label} has an unfinished rewrite; read it with df() ({error})")
                continue
            spark.catalog.refreshByPath(table.root)
            finished = True
    return finished


def _warn(text: str) -> None:
    warnings.warn(text, ZskipWarning, stacklevel=3)


def run_query(spark: SparkSession, text: str) -> PrunedQuery:
    """A query of Spark's, or a command, with its tables read through zskip; raises what Spark raises."""
    if classic(spark) is None:
        from zskip.table.read.connected import pruner_of

        pruner_of(spark).remember_text(text)
        return PrunedQuery(frame=spark.sql(text))
    record_session(spark)
    frame = spark.sql(text)
    query = prune_query(spark, frame)
    if finish_rewrites(spark, query) and not is_command(Jvm.of(spark), frame._jdf.queryExecution().analyzed()):
        return prune_query(spark, spark.sql(text))
    return query
