"""Run each statement as calls of `Table`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zskip.errors import InputError, PredicateError, UnsupportedError
from zskip.layout.curves import default_curve
from zskip.options import Option
from zskip.spark.jvm.compat import check_session
from zskip.sql import results
from zskip.sql.queries.pruned_query import run_query
from zskip.sql.statements.skipping_index import CreateIndex, DropIndex, IndexStatement
from zskip.sql.statements.statement import (
    CLUSTER_OPTIONS,
    COMPACT_OPTIONS,
    ExplainSkipping,
    Maintain,
    Optimize,
    Query,
    Verify,
    read_statement,
)
from zskip.sql.statements.text import marked_error
from zskip.sql.statements.write import CreateTable, Insert
from zskip.sql.targets import find_table, refresh
from zskip.sql.write import run_write
from zskip.table import Table
from zskip.table.handle import classic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zskip.records import RewriteResult

_POSITION = re.compile(r"\(line (\d+), pos (\d+)\)")


def run(spark: SparkSession, text: str) -> DataFrame:
    """Run one statement; raises what `zskip.sql` says."""
    is_classic = classic(spark) is not None
    if is_classic:
        check_session(spark)
    statement = read_statement(text)
    if isinstance(statement, Query):
        return run_query(spark, text).frame
    if isinstance(statement, Optimize | Verify) and statement.where is not None and is_classic:
        _check_where(spark, text, statement.where, statement.where_at)
    if isinstance(statement, Optimize):
        return _optimize(spark, statement)
    if isinstance(statement, Maintain):
        return _maintain(spark, statement)
    if isinstance(statement, Verify):
        return results.verification_frame(spark, _open(spark, statement).verify(statement.where))
    if isinstance(statement, ExplainSkipping):
        return _explain(spark, statement)
    if isinstance(statement, CreateTable | Insert):
        return run_write(spark, text, statement)
    return _index(spark, statement)


def _index(spark: SparkSession, statement: IndexStatement) -> DataFrame:
    """Change or describe the sketches of a table's index."""
    table = _open(spark, statement)
    if isinstance(statement, CreateIndex):
        index = table.index(sketches=statement.sketches)
        if index.choices is not None:
            return results.choices_frame(spark, index.choices)
        return results.sketches_frame(spark, index.sketches)
    info = table.info().index
    if info is None:
        raise InputError(f'"{statement.target}" has no index; build it with Table.index() or CREATE SKIPPING INDEX')
    if isinstance(statement, DropIndex):
        drop = statement.sketches or [sketch.spec for sketch in info.sketches]
        return results.sketches_frame(spark, table.index(drop=drop).sketches)
    return results.index_frame(spark, table.describe_index(), info)


def _check_where(spark: SparkSession, text: str, where: str, at: int) -> None:
    """Let Spark's parser check a predicate, for an error with its position in the whole statement."""
    from pyspark.errors import ParseException

    # Blanks in front keep the lines and positions of the statement.
    padded = re.sub(r"\S", " ", text[:at]) + where
    try:
        spark._jsparkSession.sessionState().sqlParser().parseExpression(padded)
    except ParseException as error:
        message = str(error).strip().splitlines()[0]
        position = _POSITION.search(message) or _POSITION.search(str(error))
        if position is None:
            raise PredicateError(message) from error
        message = _POSITION.sub("", message).strip()
        raise marked_error(text, message, int(position[1]), int(position[2])) from error


def _open(spark: SparkSession, statement: Verify | IndexStatement) -> Table:
    return Table(find_table(spark, statement.target))


def _optimize(spark: SparkSession, statement: Optimize) -> DataFrame:
    handle = find_table(spark, statement.target)
    table = Table(handle)
    layout = _latest_layout(table) if statement.by == () else _arguments(statement)
    arguments: dict[str, Any] = {**(layout or {}), **dict(statement.options), "where": statement.where}
    _check_options(statement, COMPACT_OPTIONS if layout is None else CLUSTER_OPTIONS)
    try:
        result: RewriteResult = (table.compact if layout is None else table.optimize)(**arguments)
    finally:
        refresh(handle)
    return results.optimize_frame(spark, result)


def _maintain(spark: SparkSession, statement: Maintain) -> DataFrame:
    handle = find_table(spark, statement.target)
    arguments: dict[str, Any] = dict(statement.options)
    try:
        return results.maintenance_frame(spark, Table(handle).maintain(by=statement.by or None, **arguments))
    finally:
        refresh(handle)


def _check_options(statement: Optimize, known: Mapping[str, Option]) -> None:
    for name, _ in statement.options:
        if name not in known and known is COMPACT_OPTIONS:
            raise InputError(
                f'"{statement.target}" was never clustered, so OPTIMIZE without columns merges small '
                f'files, which has no option "{name}"; add ZORDER BY (a, b), or leave it out'
            )
        if name not in known:
            raise InputError(
                f'the option "{name}" is for merging small files, and this OPTIMIZE clusters; leave it out'
            )


def _arguments(statement: Optimize) -> dict[str, Any]:
    if statement.by is None:
        return {"by": "auto", "curve": "auto"}
    # With one column every curve is the same order, and Delta's Z-order takes one column too.
    return {"by": statement.by, "curve": statement.curve if len(statement.by) > 1 else default_curve(1)}


def _latest_layout(table: Table) -> dict[str, Any] | None:
    layout = table.info().layout
    return None if layout is None else {"by": layout.by, "curve": layout.curve, "build": layout.build}


def _explain(spark: SparkSession, statement: ExplainSkipping) -> DataFrame:
    from zskip.sql.queries.explain_query import explain_query

    if classic(spark) is None:
        raise UnsupportedError(
            "EXPLAIN SKIPPING asks the JVM in which Spark plans, and Spark Connect gives no access to it; use "
            "Table.explain(where), or zskip.scans(spark) after the query"
        )
    return results.skipping_frame(spark, explain_query(spark, statement.query))
