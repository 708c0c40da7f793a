"""Write a lake's report: a page on all tables, and beside it one for each of the most read."""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from zskip.errors import StorageError, ZskipError
from zskip.lake.examine import survey
from zskip.lake.find import FoundTable
from zskip.lake.results import COLUMNS, OPEN_COST, Survey, survey_row
from zskip.records import Operation
from zskip.report import LakeFacts, TableBar, lake_to_html, need_libraries
from zskip.rows import moment
from zskip.table.journal import read_history
from zskip.table.show.report import check_target, write_page
from zskip.table.show.report import report as report_table
from zskip.units import show_size
from zskip.version import __version__

_MOST_PAGES = 100
"""Tables with a page of their own, which has the chart library in it: 1.5 MB."""
_MOST_OPERATIONS = 100


def report(tables: Sequence[FoundTable], patterns: Sequence[str], path: str | os.PathLike[str] | None) -> Path:
    """Write the report of tables; see `Lake.report`."""
    need_libraries("jinja2", "plotly")
    target = check_target("lake-report.html" if path is None else path)
    lines = survey(tables)
    notes: list[str] = []
    links = _write_tables(tables, lines, target, notes)
    now = dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    operations = _read_operations(tables)
    facts = LakeFacts(
        title=", ".join(patterns),
        created=f"zskip {__version__} report, {now}",
        summary=lines.summary,
        names=COLUMNS[1:],
        tables=[
            TableBar(
                name=line.table,
                link=links.get(line.table, ""),
                cells=survey_row(line)[1:],
                read=line.bytes_read_a_day + OPEN_COST * line.files_read_a_day,
                saved=min(line.saved_bytes_a_day, line.bytes_read_a_day + OPEN_COST * line.files_read_a_day),
            )
            for line in lines.tables
        ],
        operations=[
            (
                moment(operation.time_ms),
                name,
                operation.operation + (f" by {', '.join(operation.by)}" if operation.by else ""),
                f"{operation.files_removed:,} -> {operation.files_added:,}",
                show_size(operation.bytes_added),
            )
            for name, operation in operations[:_MOST_OPERATIONS]
        ],
        notes=notes,
    )
    write_page(target, lake_to_html(facts))
    return target


def _write_tables(tables: Sequence[FoundTable], lines: Survey, target: Path, notes: list[str]) -> dict[str, str]:
    """Write the pages of the most read tables; returns their links by table."""
    by_name = {table.name: table for table in tables}
    readable = sorted((t for t in lines.tables if not t.error), key=lambda table: -table.bytes_read_a_day)
    directory = target.with_name(f"{target.stem}-tables")
    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        raise StorageError(
            f'cannot make the directory "{directory}" for the pages of tables: {error.strerror}; name another place'
        ) from error
    links = {}
    for i, line in enumerate(readable[:_MOST_PAGES]):
        handle = by_name[line.table].handle
        assert handle is not None
        name = re.sub(r"[^\w.-]+", "-", line.table).strip("-.")[-60:]
        page = directory / f"{i:03d}-{name or 'table'}.html"
        try:
            report_table(replace(handle, spark=None, connected=None), page, None, None)
            links[line.table] = f"{quote(directory.name)}/{quote(page.name)}"
        except ZskipError as error:
            notes.append(f"There is no page of {line.table}: {error}")
    if len(readable) > _MOST_PAGES:
        notes.append(f"The {_MOST_PAGES} most read tables have pages of their own; Table.report() writes the others.")
    return links


def _read_operations(tables: Sequence[FoundTable]) -> list[tuple[str, Operation]]:
    """What zskip did to the tables, by their journals, the latest first."""
    operations: list[tuple[str, Operation]] = []
    for table in tables:
        try:
            if table.handle is not None:
                operations += ((table.name, record.operation) for record in read_history(table.handle.home))
        except (ZskipError, OSError):
            continue  # its line has the error
    return sorted(operations, key=lambda pair: -pair[1].time_ms)
