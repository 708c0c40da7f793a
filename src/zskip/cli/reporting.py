"""Commands that describe a table, clean it up, or give a demonstration."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import zskip
from zskip.cli.app import app, show_page
from zskip.cli.options import AsJson, FormatName, IndexPath, TablePath, takes_options_of
from zskip.cli.tables import open_table, table_command

table_command(zskip.Table.info, "events --by user_id,day")


@app.command()
@takes_options_of(zskip.Table.report, without=("path",))
def report(
    path: TablePath,
    *,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="File to write; by default PATH's name and -report.html."),
    ] = None,
    advice: Annotated[bool, typer.Option("--advice", help="Start Spark, and add advice for the workload.")] = False,
    open_it: Annotated[bool, typer.Option("--open", help="Show the report in the browser.")] = False,
    index_path: IndexPath = None,
    format_name: FormatName = None,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Write a report of a table as one HTML file, from metadata alone, and print its path.

    Example: zskip report events -o events.html --open
    """
    from zskip.cli.show import print_json

    page = open_table(path, index_path, format_name, spark=advice).report(output, **options)
    print_json({"report": str(page)}) if as_json else print(page)
    if open_it:
        show_page(page)


table_command(
    zskip.Table.clean,
    "events --delete",
    more="With --delete it removes them. Live files, files of earlier versions, and files of running processes are "
    "never listed.",
    adds=("bytes",),
)


@app.command()
def demo(
    scale: Annotated[float, typer.Option(metavar="F", help="TPC-H scale factor; 1 is 6 million rows.")] = 0.5,
    keep: Annotated[str | None, typer.Option(metavar="DIR", help="Keep the tables in this directory.")] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Show the report in the browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Cluster TPC-H tables, answer the same queries before and after, and write a report on lineitem.

    Example: zskip demo --scale 0.1 --open
    """
    from zskip.demo import run_demo

    same = run_demo(scale, keep, as_json=as_json, show=show_page if open_it else None)
    raise typer.Exit(0 if same else 1)
