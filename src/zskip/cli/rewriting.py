"""Commands that rewrite a table, and the history of what they did."""

from __future__ import annotations

from typing import Any

import zskip
from zskip.cli.app import app
from zskip.cli.options import AsJson, FormatName, TablePath, takes_options_of
from zskip.cli.tables import open_table, show, start_session


@app.command()
@takes_options_of(zskip.Table.optimize)
def optimize(path: TablePath, *, format_name: FormatName = None, as_json: AsJson = False, **options: Any) -> None:
    """Rewrite a table so that rows with similar values lie in the same files, and index it.

    Example: zskip optimize events --by user_id,day --target-file-size 256MB
    """
    show(zskip.table(start_session(), path, format=format_name).optimize(**options), as_json)


@app.command()
@takes_options_of(zskip.Table.compact)
def compact(path: TablePath, *, format_name: FormatName = None, as_json: AsJson = False, **options: Any) -> None:
    """Merge small files of each partition into larger ones, in the order in which they were written.

    A large table takes several commits, each complete by itself.

    Example: zskip compact events --target-file-size 256MB
    """
    show(zskip.table(start_session(), path, format=format_name).compact(**options), as_json)


@app.command()
@takes_options_of(zskip.Table.maintain)
def maintain(path: TablePath, *, format_name: FormatName = None, as_json: AsJson = False, **options: Any) -> None:
    """Keep a table clustered while others write to it: rewrite only the files that are worth the bytes.

    Example: zskip maintain events --budget 10GB --seconds 600
    """
    show(open_table(path, None, format_name, spark=not options["dry_run"]).maintain(**options), as_json)


@app.command()
def history(path: TablePath, format_name: FormatName = None, as_json: AsJson = False) -> None:
    """List what zskip did to a table, the latest first.

    For each operation: its time, rows, files and bytes, the predicted share of those rows that a query reads before and
    after, and the share of the table's rows that recorded scans read until the next operation.

    Example: zskip history events
    """
    from zskip.cli.show import print_json, print_rows
    from zskip.rows import operations as operations_grid

    operations = open_table(path, None, format_name).history()
    if as_json:
        print_json({"operations": operations})
        return
    grid = operations_grid(operations)
    print_rows(grid.names, grid.rows)
