"""Commands of the index and of queries that skip files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

import zskip
from zskip.cli.app import app
from zskip.cli.options import AsJson, FormatName, IndexPath, TablePath, takes_options_of
from zskip.cli.tables import explain_spark_errors, open_table, show, start_session, table_command
from zskip.errors import InputError

if TYPE_CHECKING:
    from zskip.records import ScanReport


@app.command()
@takes_options_of(zskip.Table.index, collect="footers")
def index(
    path: TablePath,
    *,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Start Spark, to build the sketches of new files, too.")
    ] = False,
    index_path: IndexPath = None,
    format_name: FormatName = None,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Bring the index up to date: read the footers of new files, and build sketches.

    Example: zskip index events --sketch 'bloom(0.01):user_id'
    """
    spark = refresh or bool(options.get("sketches")) or options["collect"] != "footers"
    show(open_table(path, index_path, format_name, spark=spark).index(**options), as_json)


@app.command()
@takes_options_of(zskip.Table.files, without=("deletes",))
def files(
    path: TablePath,
    *,
    index_path: IndexPath = None,
    format_name: FormatName = None,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """List the files that might hold a matching row.

    The JSON document also has the row groups to read of each file, or null for all.

    Example: zskip files events --where "day = DATE '2024-03-01' AND user_id < 100"
    """
    table = open_table(path, index_path, format_name)
    names = table.files(**options)
    if not as_json:
        for name in names:
            print(name)
        return
    from zskip.cli.show import print_json

    row_groups = [name.row_groups for name in names]
    where, scan = options.get("where"), table.last_scan
    print_json({"path": table.path, "where": where, "files": names, "row_groups": row_groups, "scan": scan})


table_command(
    zskip.Table.explain,
    """events --where "day = DATE '2024-03-01' AND lower(name) = 'x'\"""",
    starts_spark=lambda options: options["analyze"],
)
table_command(
    zskip.Table.verify,
    "events --queries 100",
    starts_spark=lambda options: True,
    more="If anything is wrong, it prints the smallest part of a query that fails and a skipped file that holds "
    "matching rows, and exits with 1. It reads the whole table twice.",
    adds=("ok",),
)


@app.command()
def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="Query in Spark SQL.")],
    table: Annotated[
        list[str],
        typer.Option(metavar="NAME=PATH", help="Name of a table in the query, and its path; may be repeated."),
    ],
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="Most rows to print.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Answer a query, and report what it read.

    Example: zskip query "SELECT count(*) FROM e WHERE user_id = 7" --table e=events
    """
    paths = dict(_parse_table(text) for text in table)
    spark = start_session()
    tables = {name: zskip.table(spark, path) for name, path in paths.items()}
    for name, opened in tables.items():
        opened.df().createOrReplaceTempView(name)
    with explain_spark_errors():
        frame = spark.sql(sql)
        rows = frame.limit(limit + 1).collect()
    scans = {name: opened.last_scan for name, opened in tables.items() if opened.last_scan is not None}
    _print_answer(frame.columns, rows, limit, scans, as_json)


def _print_answer(columns: list[str], rows: list[Any], limit: int, scans: dict[str, ScanReport], as_json: bool) -> None:
    """Print at most `limit` rows, and what was read of each table."""
    from zskip.cli.show import print_json, print_rows
    from zskip.rows import scan_summary

    printed = [list(row) for row in rows[:limit]]
    if as_json:
        print_json({"columns": columns, "rows": printed, "truncated": len(rows) > limit, "scans": scans})
        return
    print_rows(columns, printed)
    if len(rows) > limit:
        print(f"only the first {limit} rows; see --limit")
    for name, scan in scans.items():
        print(f"{name}: {scan_summary(scan)}")


@app.command(name="sql")
def run_sql(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="One statement.")],
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="Most rows to print.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Run a statement: OPTIMIZE, EXPLAIN SKIPPING, VERIFY, CREATE SKIPPING INDEX, or any query over indexed tables.

    Name tables by path: 'events' in zskip's statements, parquet.`events` in all. It exits with 1 if VERIFY finds
    anything wrong.

    Example: zskip sql "OPTIMIZE 'events' ZORDER BY (user_id, day)"
    """
    from zskip.cli.show import flat, print_pairs
    from zskip.sql.queries.pruned_query import run_query
    from zskip.sql.run import run
    from zskip.sql.statements.statement import Optimize, Query, Verify, read_statement

    statement = read_statement(text)
    spark = start_session()
    with explain_spark_errors():
        query = run_query(spark, text) if isinstance(statement, Query) else None
        frame = run(spark, text) if query is None else query.frame
        rows = frame.limit(limit + 1).collect()
    if isinstance(statement, Optimize | Verify) and not as_json:
        print_pairs(flat(rows[0]))
    else:
        _print_answer(frame.columns, rows, limit, {} if query is None else query.scans(), as_json)
    if isinstance(statement, Verify) and not rows[0]["ok"]:
        raise typer.Exit(1)


def _parse_table(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not equals or not name.isidentifier() or not path:
        raise InputError(f'--table "{text}" is not of the form NAME=PATH, such as e=/data/events')
    return name, path
