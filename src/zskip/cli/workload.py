"""Commands of a table's workload, and of advice by it."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from zskip.cli.app import app
from zskip.cli.options import (
    AsJson,
    Curve,
    Files,
    FormatName,
    IndexPath,
    TablePath,
    TargetFileSize,
    Unseen,
    WorkloadFile,
)
from zskip.cli.tables import column_names, open_table, show

if TYPE_CHECKING:
    from zskip.advisor.workload.workload import Workload


class Switch(str, Enum):
    """On or off."""

    on = "on"
    off = "off"


@app.command()
def advise(
    path: TablePath,
    workload: WorkloadFile = None,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Columns that may be clustered by; else the filtered.")
    ] = None,
    files: Files = None,
    target_file_size: TargetFileSize = None,
    unseen: Unseen = 0.2,
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed gives the same advice.")] = 0,
    index_path: IndexPath = None,
    format_name: FormatName = None,
    as_json: AsJson = False,
) -> None:
    """Advise by which columns to cluster, what that would save, and which queries would get slower; write nothing.

    Example: zskip advise events --workload queries.sql
    """
    advice = open_table(path, index_path, format_name, spark=True).advise(
        workload,
        columns=None if columns is None else column_names(columns),
        files=files,
        target_file_size=target_file_size,
        unseen=unseen,
        seed=seed,
    )
    show(advice, as_json)


@app.command(name="what-if")
def what_if(
    path: TablePath,
    by: Annotated[str, typer.Option(metavar="A,B,C", help="Columns, with commas between.")],
    curve: Annotated[Curve, typer.Option(help="The order of the rows.")] = Curve.auto,
    workload: WorkloadFile = None,
    files: Files = None,
    target_file_size: TargetFileSize = None,
    unseen: Unseen = 0.2,
    index_path: IndexPath = None,
    format_name: FormatName = None,
    as_json: AsJson = False,
) -> None:
    """Predict what queries would read if the table were clustered so; write nothing.

    Example: zskip what-if events --by user_id,day --files 64
    """
    candidate = open_table(path, index_path, format_name, spark=True).what_if(
        column_names(by),
        curve=curve.value,
        files=files,
        target_file_size=target_file_size,
        workload=workload,
        unseen=unseen,
    )
    show(candidate, as_json)


@app.command()
def record(
    path: TablePath,
    switch: Annotated[Switch, typer.Argument(metavar="on|off", help="Whether to record scans.")],
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
    _print_workload(open_table(path, index_path, format_name).workload(), as_json)


@workload_app.command(name="clear")
def clear_workload(path: TablePath, index_path: IndexPath = None, format_name: FormatName = None) -> None:
    """Forget the recorded workload; recording goes on if it is on.

    Example: zskip workload clear events
    """
    workload = open_table(path, index_path, format_name).workload(clear=True)
    print(f"forgot {workload.scans:,} scans")


@workload_app.command(name="import")
def import_workload(
    path: TablePath,
    event_logs: Annotated[str, typer.Option(metavar="DIR", help="A log of Spark, or a directory of logs.")],
    index_path: IndexPath = None,
    format_name: FormatName = None,
    as_json: AsJson = False,
) -> None:
    """Add the scans of a table in Spark's event logs: plain, zstd or rolling, of Spark 3.5 or later.

    Example: zskip workload import events --event-logs /var/log/spark-events
    """
    _print_workload(open_table(path, index_path, format_name).import_workload(event_logs), as_json)


def _print_workload(workload: Workload, as_json: bool) -> None:
    show(workload, as_json, shapes=workload.shapes())
