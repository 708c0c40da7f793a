"""Commands of the index and of queries that skip files."""

from __future__ import annotations

import warnings
from typing import Annotated

import typer

import zskip
from zskip.cli.app import app
from zskip.cli.options import AsJson, Collect, FormatName, Granularity, IndexPath, TablePath
from zskip.cli.tables import explain_spark_errors, open_table, show, start_session
from zskip.errors import InputError, ZskipWarning


@app.command()
def index(
    path: TablePath,
    collect: Annotated[
        Collect,
        typer.Option(help="Read footers only, let Spark also count what they do not tell, or count everything."),
    ] = Collect.footers,
    sketch: Annotated[
        list[str] | None,
        typer.Option(metavar="SPEC", help="A sketch to keep, such as bloom(0.01):key; may be repeated."),
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(metavar="SPEC", help="A sketch to drop; may be repeated.")] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="SIZE", help="The most that one sketch may take for a file.")
    ] = None,
    total_budget: Annotated[
        str | None, typer.Option(metavar="SIZE", help="The most that all sketches may take for all files.")
    ] = None,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Start Spark, so that the sketches of new files are built as well.")
    ] = False,
    granularity: Annotated[
        Granularity | None, typer.Option(help="Keep entries for files only, or for row groups as well.")
    ] = None,
    index_path: IndexPath = None,
    format_name: FormatName = None,
    as_json: AsJson = False,
) -> None:
    """Bring the index up to date: read the footers of files that are not in it yet, and build sketches.

    Example: zskip index events --sketch 'bloom(0.01):user_id'
    """
    spark = refresh or bool(sketch) or collect is not Collect.footers
    result = open_table(path, index_path, format_name, spark=spark).index(
        collect=collect.value,
        sketches=sketch or (),
        drop=drop or (),
        budget=budget,
        total_budget=total_budget,
        granularity=None if granularity is None else granularity.value,
    )
    show(result, as_json)


@app.command()
def files(
    path: TablePath,
    where: Annotated[str | None, typer.Option(metavar="SQL", help="A predicate in Spark SQL.")] = None,
    index_path: IndexPath = None,
    format_name: FormatName = None,
    as_json: AsJson = False,
) -> None:
    """List the files that might hold a matching row.

    Example: zskip files events --where "day = DATE '2024-03-01' AND user_id < 100"
    """
    table = open_table(path, index_path, format_name)
    names = table.files(where)
    if not as_json:
        for name in names:
            print(name)
        return
    from zskip.cli.show import print_json

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZskipWarning)
        scan = table.prune(where)
    row_groups = [name.row_groups for name in names]
    print_json({"path": table.path, "where": where, "files": names, "row_groups": row_groups, "scan": scan})


@app.command()
def explain(
    path: TablePath,
    where: Annotated[str | None, typer.Option(metavar="SQL", help="A predicate in Spark SQL.")] = None,
    analyze: Annotated[
        bool, typer.Option("--analyze", help="Run the query with Spark, and say which files were read for nothing.")
    ] = False,
    index_path: IndexPath = None,
    format_name: FormatName = None,
    as_json: AsJson = False,
) -> None:
    """Say why files are read or skipped: what is left after each part of a predicate, and what each part skips.

    Example: zskip explain events --where "day = DATE '2024-03-01' AND lower(name) = 'x'"
    """
    table = open_table(path, index_path, format_name, spark=analyze)
    result = table.explain(where, analyze=analyze)
    show(result, as_json)


@app.command()
def verify(
    path: TablePath,
    where: Annotated[str | None, typer.Option(metavar="SQL", help="The query to run; by default random ones.")] = None,
    queries: Annotated[int, typer.Option(metavar="N", min=0, help="How many random queries.")] = 20,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="The same seed draws the same queries.")] = 0,
    index_path: IndexPath = None,
    format_name: FormatName = None,
    as_json: AsJson = False,
) -> None:
    """Prove that no row is lost: compare all statistics with the data, and run queries with the index and without.

    Exit code 1 if something is wrong. Example: zskip verify events --queries 100
    """
    with explain_spark_errors():
        result = open_table(path, index_path, format_name, spark=True).verify(where, queries=queries, seed=seed)
    show(result, as_json, ok=result.ok)
    if not result.ok:
        raise typer.Exit(1)


@app.command()
def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="A query in Spark SQL.")],
    table: Annotated[list[str], typer.Option(metavar="NAME=PATH", help="A table of the query; may be repeated.")],
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="Print at most this many rows.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Answer a query, reading only the files it needs.

    Example: zskip query "SELECT count(*) FROM e WHERE user_id = 7" --table e=events
    """
    from zskip.cli.show import print_json, print_rows
    from zskip.rows import scan_summary

    paths = dict(_parse_table(text) for text in table)
    spark = start_session()
    tables = {name: zskip.table(spark, path) for name, path in paths.items()}
    for name, opened in tables.items():
        opened.df().createOrReplaceTempView(name)
    with explain_spark_errors():
        frame = spark.sql(sql)
        rows = frame.limit(limit + 1).collect()
    scans = {name: opened.last_scan for name, opened in tables.items() if opened.last_scan is not None}
    printed = [list(row) for row in rows[:limit]]
    if as_json:
        print_json({"columns": frame.columns, "rows": printed, "truncated": len(rows) > limit, "scans": scans})
        return
    print_rows(frame.columns, printed)
    if len(rows) > limit:
        print(f"only the first {limit} rows; see --limit")
    for name, scan in scans.items():
        print(f"{name}: {scan_summary(scan)}")


@app.command(name="sql")
def run_sql(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="One statement.")],
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="Print at most this many rows.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Run a statement: OPTIMIZE, EXPLAIN SKIPPING, VERIFY, CREATE SKIPPING INDEX, or any query over indexed tables.

    Example: zskip sql "OPTIMIZE 'events' ZORDER BY (user_id, day)"
    """
    from zskip.cli.show import flat, print_json, print_pairs, print_rows
    from zskip.rows import scan_summary
    from zskip.sql.queries.pruned_query import run_query
    from zskip.sql.run import run
    from zskip.sql.statements.statement import Optimize, Query, Verify, read_statement

    statement = read_statement(text)
    spark = start_session()
    with explain_spark_errors():
        query = run_query(spark, text) if isinstance(statement, Query) else None
        frame = run(spark, text) if query is None else query.frame
        rows = frame.limit(limit + 1).collect()
    scans = {} if query is None else query.scans()
    printed = [list(row) for row in rows[:limit]]
    if as_json:
        print_json({"columns": frame.columns, "rows": printed, "truncated": len(rows) > limit, "scans": scans})
    elif isinstance(statement, Optimize | Verify):
        print_pairs(flat(rows[0]))
    else:
        print_rows(frame.columns, printed)
        if len(rows) > limit:
            print(f"only the first {limit} rows; see --limit")
        for name, scan in scans.items():
            print(f"{name}: {scan_summary(scan)}")
    if isinstance(statement, Verify) and not rows[0]["ok"]:
        raise typer.Exit(1)


def _parse_table(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not equals or not name.isidentifier() or not path:
        raise InputError(f'--table "{text}" is not of the form NAME=PATH, such as e=/data/events')
    return name, path
