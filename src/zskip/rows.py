"""Results as people see them: short sentences and tables, the same in a terminal and in a notebook.

`blocks` gives them; a room above registers what its own results look like. Nothing is drawn here: a command prints the
blocks with rich, and `to_html` writes them as HTML for the `_repr_html_` of results.
"""

from __future__ import annotations

import datetime as dt
import html
from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from zskip.records import (
    Cleaning,
    ClusteringInfo,
    CompactResult,
    Explanation,
    IndexInfo,
    LayoutInfo,
    Maintenance,
    Operation,
    OptimizeResult,
    ScanReport,
    SketchInfo,
    TableInfo,
    Verification,
)
from zskip.units import show_size


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a whole, from 0 to 1, which is drawn as a small bar with a text beside it."""

    value: float
    text: str

    def __str__(self) -> str:
        return self.text


Pairs = list[tuple[str, str | Share]]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table with names of columns; cells are text, numbers, shares, or None."""

    names: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


Block = str | Pairs | Grid
"""A sentence, pairs of a name and what it stands for, or a table."""


@singledispatch
def blocks(result: object) -> list[Block]:
    """What is shown of a result, from top to bottom."""
    raise TypeError(f"nothing is known of how a {type(result).__name__} is shown")


def to_html(result: object) -> str:
    """The blocks of a result as HTML, everything escaped.

    >>> from zskip.records import Regret, ScanReport
    >>> scan = ScanReport(files=1, files_total=4, bytes=10, bytes_total=40, rows=None, rows_total=None, seconds=0.0)
    >>> to_html(scan)
    '<div><p>read 1 of 4 files, 10 B of 40 B</p></div>'
    """
    return f"<div>{''.join(_html(block) for block in blocks(result))}</div>"


def _html(block: Block) -> str:
    if isinstance(block, str):
        return f"<p>{html.escape(block)}</p>"
    if isinstance(block, Grid):
        head = "".join(f'<th style="text-align: left">{html.escape(name)}</th>' for name in block.names)
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in block.rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    body = "".join(
        f'<tr><th style="text-align: left">{html.escape(name)}</th>{_cell(value)}</tr>' for name, value in block
    )
    return f"<table><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if isinstance(value, Share):
        meter = f'<meter min="0" max="1" value="{min(max(value.value, 0.0), 1.0):.4f}"></meter>'
        return f'<td style="text-align: left">{meter} {html.escape(value.text)}</td>'
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f'<td style="text-align: right">{number(value)}</td>'
    return f'<td style="text-align: left">{html.escape("" if value is None else str(value))}</td>'


def number(value: float) -> str:
    """A number for people.

    >>> number(12345), number(1.25)
    ('12,345', '1.2')
    """
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


@blocks.register
def _(result: OptimizeResult) -> list[Block]:
    return [
        [
            ("table", result.path),
            ("clustered by", f"{', '.join(result.by)} ({result.curve}, {result.build})"),
            ("rows", f"{result.rows:,}"),
            ("files", f"{result.files_before:,} -> {result.files_after:,}"),
            ("bytes", f"{show_size(result.bytes_before)} -> {show_size(result.bytes_after)} ({result.compression})"),
            (
                "rows a query reads",
                f"{_share(result.predicted_share_before)} -> {_share(result.predicted_share_after)} (predicted)",
            ),
            *([("batches", _batches(result))] if result.batches > 1 or result.batches_before else []),
            ("seconds", _seconds(result.seconds)),
        ]
    ]


def _batches(result: OptimizeResult) -> str:
    before = f", after {result.batches_before:,} of a call that was cut short" if result.batches_before else ""
    return f"{result.batches:,}{before}"


@blocks.register
def _(result: CompactResult) -> list[Block]:
    return [
        [
            ("table", result.path),
            (
                "merged",
                f"{result.removed.files:,} -> {result.added.files:,} files in {result.partitions:,} partitions",
            ),
            ("rows", f"{result.rows:,}"),
            ("files", f"{result.files_before:,} -> {result.files_after:,}"),
            ("bytes", f"{show_size(result.bytes_before)} -> {show_size(result.bytes_after)}"),
            ("seconds", _seconds(result.seconds)),
        ]
    ]


@blocks.register
def _(result: Maintenance) -> list[Block]:
    return [
        [
            ("table", result.path),
            ("batches", f"{result.batches:,}{' (not done: a dry run)' * result.dry_run}"),
            ("files", f"{result.files_removed:,} -> {result.files_added:,}"),
            ("bytes written", show_size(result.bytes_written)),
            ("rows a query reads", f"{_share(result.kept_before)} -> {_share(result.kept_after)} (predicted)"),
            ("stopped", result.stopped),
            ("seconds", f"{result.seconds:.1f}"),
        ]
    ]


def operations(found: Sequence[Operation]) -> Grid:
    """What was done to a table."""
    names = ("when", "version", "operation", "by", "rows", "files", "bytes", "predicted", "measured", "seconds")
    rows = [
        (
            moment(of.time_ms),
            of.version,
            of.operation,
            ", ".join(of.by) or None,
            of.rows,
            f"{of.files_removed:,} -> {of.files_added:,}",
            f"{show_size(of.bytes_removed)} -> {show_size(of.bytes_added)}",
            f"{_share(of.share_before)} -> {_share(of.share_after)}" if of.by else None,
            None if of.share_measured is None else f"{_share(of.share_measured)} ({of.scans:,} scans)",
            of.seconds,
        )
        for of in found
    ]
    return Grid(names, tuple(rows))


@blocks.register
def _(result: Operation) -> list[Block]:
    grid = operations([result])
    return [[(name, "" if cell is None else str(cell)) for name, cell in zip(grid.names, grid.rows[0], strict=True)]]


@blocks.register
def _(found: IndexInfo) -> list[Block]:
    return [
        [
            ("index version", str(found.version)),
            ("files", f"{found.files:,} of {found.files_total:,}"),
            ("columns", str(found.columns)),
            ("granularity", found.granularity),
            ("size", show_size(found.bytes)),
            *((sketch.spec, _sketched(sketch)) for sketch in found.sketches),
        ]
    ]


def _sketched(found: SketchInfo) -> str:
    left_out = f"; {found.left_out:,} have none: {found.reason}" if found.left_out else ""
    return f"{found.files:,} files, {show_size(found.bytes)}{left_out}"


@blocks.register
def _(found: TableInfo) -> list[Block]:
    layout = found.layout
    partitions = f"{found.partitions:,} by {', '.join(found.partition_columns)}" if found.partition_columns else "none"
    pairs: Pairs = [
        ("table", f"{found.path} ({found.format}, version {found.version})"),
        ("files", f"{found.files:,} ({show_size(found.bytes)})"),
        ("rows", "unknown: no index, or one that is behind" if found.rows is None else f"{found.rows:,}"),
        ("columns", ", ".join(f"{name} {kind}" for name, kind in found.columns.items())),
        ("partitions", partitions),
        ("index", "none" if found.index is None else _covered(found.index)),
        ("clustered by", "nothing" if layout is None else f"{', '.join(layout.by)} ({layout.curve}, {layout.build})"),
        *([] if layout is None or layout.files is None else _inside(layout)),
    ]
    return [[*pairs, *((f"depth of {column.column}", _clustered(column)) for column in found.clustering)]]


def _inside(layout: LayoutInfo) -> Pairs:
    since = "" if layout.since_ms is None else f", since {moment(layout.since_ms)}"
    return [
        ("in that layout", f"{layout.files:,} files ({show_size(layout.bytes or 0)}){since}"),
        ("beside it", f"{layout.files_since:,} files ({show_size(layout.bytes_since or 0)})"),
    ]


def _covered(found: IndexInfo) -> str:
    more = " and their row groups" if found.granularity == "row_group" else ""
    return f"{found.files:,} of {found.files_total:,} files{more}"


def _clustered(found: ClusteringInfo) -> Share:
    unknown = f", {found.files_unknown:,} without bounds" if found.files_unknown else ""
    text = (
        f"{found.average_depth:.1f} of {found.files:,} files on average, meeting {found.average_overlap:.1f} others, "
        f"{found.constant_files:,} with one value{unknown}"
    )
    return Share(found.average_depth / max(found.files, 1), text)


@blocks.register
def _(found: Explanation) -> list[Block]:
    steps = [
        (f"after {step.step}" if i else "the table", step.files, show_size(step.bytes), step.rows)
        for i, step in enumerate(found.steps)
    ]
    shown: list[Block] = [Grid(("step", "files", "bytes", "rows"), tuple(steps))]
    if found.leaves:
        leaves = tuple((leaf.sql, leaf.skipped, leaf.reason) for leaf in found.leaves)
        shown.append(Grid(("part", "skips", "why none"), leaves))
    if found.reader is not None:
        shown.append(f"read, and pruned further, by the format itself, since the table uses {found.reader}")
    regret = found.regret
    if regret is not None:
        shown.append(
            f"{regret.matching_rows:,} rows match; {regret.files:,} of the files read held none of them "
            f"({show_size(regret.bytes)})"
        )
    return shown


@blocks.register
def _(found: Verification) -> list[Block]:
    counts = f"{found.files:,} files, {found.columns:,} columns with statistics, {found.queries:,} queries"
    shown: list[Block] = [f"{counts}: {'nothing is lost' if found.ok else 'WRONG'}"]
    if not found.ok:
        wrong = tuple((m.what, m.file, m.expected, m.found) for m in found.mismatches)
        shown.append(Grid(("what", "file", "expected", "found"), wrong))
    return shown


@blocks.register
def _(found: Cleaning) -> list[Block]:
    shown: list[Block] = []
    if found.leftovers:
        rows = tuple((left.path, left.files, show_size(left.bytes), left.reason) for left in found.leftovers)
        shown.append(Grid(("left", "files", "bytes", "why"), rows))
    done = "deleted" if found.deleted else "may go: see --delete"
    shown.append(f"{len(found.leftovers):,} leftovers, {show_size(found.bytes)}" + f", {done}" * bool(found.leftovers))
    if found.unfinished:
        said = "finished" if found.deleted else "are finished by the next call on the table, or by --delete"
        shown.append(f"{found.unfinished:,} rewrites that are committed but were cut short {said}")
    return shown


@blocks.register
def _(scan: ScanReport) -> list[Block]:
    leaves = tuple((leaf.sql, leaf.kind, leaf.skipped, leaf.reason) for leaf in scan.leaves)
    return [scanned(scan), *([Grid(("part", "kind", "skips", "why none"), leaves)] if leaves else [])]


def scanned(scan: ScanReport) -> str:
    """What a scan read, in a line."""
    rows = "" if scan.rows is None or scan.rows_total is None else f", {scan.rows:,} of {scan.rows_total:,} rows"
    return (
        f"read {scan.files:,} of {scan.files_total:,} files{rows}, "
        f"{show_size(scan.bytes)} of {show_size(scan.bytes_total)}"
    )


def moment(ms: int) -> str:
    """A time in UTC."""
    return dt.datetime.fromtimestamp(ms // 1000, dt.timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def _share(share: float | None) -> str:
    return "unknown" if share is None else f"{100 * share:.1f} %"


def _seconds(steps: dict[str, float]) -> str:
    return ", ".join(f"{name} {took:.1f}" for name, took in steps.items())
