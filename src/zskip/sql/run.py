"""Each statement as calls of `Table`."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from zskip.errors import InputError, PredicateError
from zskip.spark.jvm.compat import check_session
from zskip.sql import results
from zskip.sql.queries.visible import OnScan, visible
from zskip.sql.statements.skipping_index import CreateIndex, DescribeIndex, DropIndex, IndexStatement
from zskip.sql.statements.statement import (
    OPTIONS,
    DescribeClustering,
    DescribeHistory,
    ExplainSkipping,
    Maintain,
    Optimize,
    Query,
    Verify,
    read_statement,
)
from zskip.sql.statements.text import marked_error
from zskip.sql.statements.workload import Advise, RecordWorkload, ShowWorkload, WorkloadStatement
from zskip.sql.targets import Found, find_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zskip.records import CompactResult, OptimizeResult

_COMPACT = frozenset({"target_file_size", "min_file_size"})
_CLUSTER = frozenset(OPTIONS) - {"min_file_size"}
_PLACE = re.compile(r"\(line (\d+), pos (\d+)\)")


def run(spark: SparkSession, text: str, on_scan: OnScan | None = None) -> DataFrame:
    """Run one statement; raises what `zskip.sql` says.

    on_scan: told of each scan of a query through zskip.
    """
    check_session(spark)
    statement = read_statement(text)
    if isinstance(statement, Query):
        return visible(spark, spark.sql(text), on_scan).frame
    if isinstance(statement, Optimize | Verify) and statement.where is not None:
        _check_where(spark, text, statement.where, statement.where_at)
    if isinstance(statement, Optimize):
        return _optimize(spark, statement)
    if isinstance(statement, Maintain):
        return _maintain(spark, statement)
    if isinstance(statement, Verify):
        return results.verified(spark, find_table(spark, statement.target).table.verify(statement.where))
    if isinstance(statement, DescribeClustering):
        return _describe(spark, statement)
    if isinstance(statement, DescribeHistory):
        return results.history(spark, find_table(spark, statement.target).table.history())
    if isinstance(statement, ExplainSkipping):
        return _explain(spark, statement)
    if isinstance(statement, Advise | RecordWorkload | ShowWorkload):
        return _workload(spark, statement)
    return _index(spark, statement)


def _index(spark: SparkSession, statement: IndexStatement) -> DataFrame:
    """Change the sketches of a table's index, or not; what there is then."""
    table = find_table(spark, statement.target).table
    if isinstance(statement, CreateIndex):
        return results.indexed(spark, table.index(sketches=statement.sketches).sketches)
    found = table.info().index
    if found is None:
        raise InputError(f'"{statement.target}" has no index; build it with Table.index() or CREATE SKIPPING INDEX')
    if isinstance(statement, DropIndex):
        drop = statement.sketches or [sketch.spec for sketch in found.sketches]
        return results.indexed(spark, table.index(drop=drop).sketches)
    if isinstance(statement, DescribeIndex):
        return results.described(spark, table.describe_index(), found)
    return results.indexed(spark, found.sketches)


def _workload(spark: SparkSession, statement: WorkloadStatement) -> DataFrame:
    table = find_table(spark, statement.target).table
    if isinstance(statement, Advise):
        options: dict[str, Any] = dict(statement.options)
        if "columns" in options:
            options["columns"] = [name.strip() for name in options["columns"].split(",")]
        return results.advised(spark, table.advise(**options))
    if isinstance(statement, RecordWorkload):
        table.record(statement.on)
    return results.workload(spark, table.workload(clear=isinstance(statement, ShowWorkload) and statement.clear))


def _check_where(spark: SparkSession, text: str, where: str, at: int) -> None:
    """Let Spark's parser look at a predicate, for its error with the place in the whole statement."""
    from pyspark.errors import ParseException

    # Blanks in front, so that lines and positions are those of the statement.
    padded = re.sub(r"\S", " ", text[:at]) + where
    try:
        spark._jsparkSession.sessionState().sqlParser().parseExpression(padded)
    except ParseException as error:
        said = str(error).strip().splitlines()[0]
        place = _PLACE.search(said) or _PLACE.search(str(error))
        if place is None:
            raise PredicateError(said) from error
        said = _PLACE.sub("", said).strip()
        raise marked_error(text, said, int(place[1]), int(place[2])) from error


def _optimize(spark: SparkSession, statement: Optimize) -> DataFrame:
    found = find_table(spark, statement.target)
    layout = _latest(found) if statement.by == () else _asked(statement)
    arguments: dict[str, Any] = {**(layout or {}), **dict(statement.options), "where": statement.where}
    run = found.table.compact if layout is None else found.table.optimize
    _check_options(statement, _COMPACT if layout is None else _CLUSTER)
    started = time.time()
    try:
        result: OptimizeResult | CompactResult = run(**arguments)
    finally:
        found.refresh(spark)
    times = (int(1000 * started), int(1000 * time.time()))
    return results.optimized(spark, result, found.table.info(), times)


def _maintain(spark: SparkSession, statement: Maintain) -> DataFrame:
    found = find_table(spark, statement.target)
    arguments: dict[str, Any] = dict(statement.options)
    try:
        return results.maintained(spark, found.table.maintain(by=statement.by or None, **arguments))
    finally:
        found.refresh(spark)


def _check_options(statement: Optimize, known: frozenset[str]) -> None:
    for name, _ in statement.options:
        if name not in known and known is _COMPACT:
            raise InputError(
                f'"{statement.target}" was never clustered, so that OPTIMIZE without columns merges small '
                f'files, for which there is no option "{name}"; add ZORDER BY (a, b), or leave it out'
            )
        if name not in known:
            raise InputError(
                f'the option "{name}" is for merging small files, and this OPTIMIZE clusters; leave it out'
            )


def _asked(statement: Optimize) -> dict[str, Any]:
    if statement.by is None:
        return {"by": "auto", "curve": "auto"}
    # Of one column every curve is the same order, and Delta's Z-order takes one, too.
    return {"by": statement.by, "curve": statement.curve if len(statement.by) > 1 else "linear"}


def _latest(found: Found) -> dict[str, Any] | None:
    layout = found.table.info().layout
    return None if layout is None else {"by": layout.by, "curve": layout.curve, "build": layout.build}


def _describe(spark: SparkSession, statement: DescribeClustering) -> DataFrame:
    table = find_table(spark, statement.target).table
    info = table.info(by=statement.columns or None)
    if info.index is None:
        raise InputError(f'"{statement.target}" has no index; build it with Table.index() or OPTIMIZE')
    if not info.clustering and not statement.columns:
        raise InputError(
            f'"{statement.target}" was never clustered; name columns: DESCRIBE CLUSTERING t COLUMNS (a, b)'
        )
    return results.clustered(spark, info.clustering)


def _explain(spark: SparkSession, statement: ExplainSkipping) -> DataFrame:
    from zskip.sql.queries.skipping import explain_query

    return results.skipped(spark, explain_query(spark, statement.query))
