"""Commands of a table's workload, and of advice by it."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

import zskip
from zskip.cli.app import app
from zskip.cli.options import AsJson, FormatName, IndexPath, TablePath
from zskip.cli.tables import open_table, show, table_command


class Switch(str, Enum):
    """On or off."""

    on = "on"
    off = "off"


table_command(zskip.Table.advise, "events --workload queries.sql", starts_spark=lambda options: True)
table_command(
    zskip.Table.what_if, "events --by user_id,day --files 64", name="what-if", starts_spark=lambda options: True
)


@app.command()
def record(
    path: TablePath,
    switch: Annotated[Switch, typer.Argument(metavar="on|off", help="Whether to record.")],
    index_path: IndexPath = None,
    format_name: FormatName = None,
) -> None:
    """Record the predicates of all scans of a table through zskip, including their literals, or stop recording.

    Example: zskip record events on
    """
    open_table(path, index_path, format_name).record(switch is Switch.on)
    print(f"scans are {'' if switch is Switch.on else 'not '}recorded")


workload_app = typer.Typer(
    help="The recorded predicates of a table. Example: zskip workload show events", no_args_is_help=True
)
app.add_typer(workload_app, name="workload")


@workload_app.command(name="show")
def show_workload(
    path: TablePath, index_path: IndexPath = None, format_name: FormatName = None, as_json: AsJson = False
) -> None:
    """Show the recorded workload: the number of scans, since when, and the shapes of their predicates.

    Example: zskip workload show events
    """
    workload = open_table(path, index_path, format_name).workload()
    show(workload, as_json, shapes=workload.shapes())


@workload_app.command(name="clear")
def clear_workload(path: TablePath, index_path: IndexPath = None, format_name: FormatName = None) -> None:
    """Forget the recorded workload; recording goes on if it is on.

    Example: zskip workload clear events
    """
    workload = open_table(path, index_path, format_name).workload(clear=True)
    print(f"forgot {workload.scans:,} scans")
