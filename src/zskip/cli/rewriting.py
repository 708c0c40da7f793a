"""Commands that rewrite a table, and the history of what they did."""

from __future__ import annotations

import zskip
from zskip.cli.app import app
from zskip.cli.options import AsJson, FormatName, TablePath
from zskip.cli.tables import open_table, table_command

table_command(
    zskip.Table.optimize,
    "events --by user_id,day --target-file-size 256MB",
    starts_spark=lambda options: True,
)
table_command(zskip.Table.compact, "events --target-file-size 256MB", starts_spark=lambda options: True)
table_command(
    zskip.Table.maintain,
    "events --budget 10GB --seconds 600",
    starts_spark=lambda options: not options["dry_run"],
)


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
