"""Results as people see them: short sentences and tables, the same in a terminal and in a notebook.

`blocks` returns the blocks of a result, which a command prints with rich and a notebook shows as HTML. The rooms above
register functions for their own results with `shows`.
"""

from __future__ import annotations

import datetime as dt
import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, TypeVar

from zskip.records import (
    Cleaning,
    ClusteringInfo,
    Explanation,
    IndexInfo,
    LayoutInfo,
    Maintenance,
    Operation,
    RewriteResult,
    ScanReport,
    SketchChoice,
    SketchInfo,
    TableInfo,
    TreeInfo,
    Verification,
    WriteResult,
)
from zskip.units import show_size


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a whole, from 0 to 1: a small bar with a text beside it."""

    value: float
    text: str

    def __str__(self) -> str:
        return self.text


Pairs = list[tuple[str, str | Share]]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table with named columns; cells are text, numbers, shares, or None."""

    names: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


Block = str | Pairs | Grid
"""A sentence, pairs of names and values, or a table."""

_Result = TypeVar("_Result")


@singledispatch
def blocks(result: object) -> list[Block]:
    """The blocks of a result, from top to bottom."""
    raise TypeError(f"no function is registered that shows a {type(result).__name__}")


def shows(kind: type[_Result]) -> Callable[[Callable[[_Result], list[Block]]], Callable[[_Result], list[Block]]]:
    """Register a function that returns the blocks of a kind of results, and let notebooks show these as HTML."""

    def register(function: Callable[[_Result], list[Block]]) -> Callable[[_Result], list[Block]]:
        kind._repr_html_ = to_html  # type: ignore[attr-defined]
        return blocks.register(kind, function)

    return register


def to_html(result: object) -> str:
    """The blocks of a result as HTML, everything escaped.

    >>> from zskip.records import ScanReport
    >>> scan = ScanReport(files=1, files_total=4, bytes=10, bytes_total=40, rows=None, rows_total=None, seconds=0.0)
    >>> to_html(scan)
    '<div><p>read 1 of 4 files, 10 B of 40 B</p></div>'
    """
    return f"<div>{''.join(_html(block) for block in blocks(result))}</div>"


def to_text(parts: Sequence[Block]) -> str:
    """Blocks as plain text.

    >>> print(to_text(["two files", Grid(("file", "rows"), (("a", 10), ("b", None)))]))
    two files
    file  rows
    a     10
    b
    """
    lines: list[str] = []
    for block in parts:
        if isinstance(block, str):
            lines.append(block)
            continue
        head, cells = ((block.names,), block.rows) if isinstance(block, Grid) else ((), block)
        texts = [
            ["" if cell is None else number(cell) if isinstance(cell, int) else str(cell) for cell in row]
            for row in (*head, *cells)
        ]
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
        lines += ["  ".join(t.ljust(w) for t, w in zip(row, widths, strict=True)).rstrip() for row in texts]
    return "\n".join(lines)


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
    """A number with thousands separators, floats with one decimal.

    >>> number(12345), number(1.25)
    ('12,345', '1.2')
    """
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


@shows(RewriteResult)
def _(result: RewriteResult) -> list[Block]:
    merged = f"{result.removed.files:,} -> {result.added.files:,} files in {result.partitions:,} partitions"
    layout = f"{', '.join(result.by)} ({result.curve}, {result.build})"
    codec = f" ({result.compression})" if result.compression else ""
    pairs: Pairs = [
        ("table", result.path),
        ("clustered by", layout) if result.curve else ("merged", merged),
        ("rows", f"{result.rows:,}"),
        ("files", f"{result.files_before:,} -> {result.files_after:,}"),
        ("bytes", f"{show_size(result.bytes_before)} -> {show_size(result.bytes_after)}{codec}"),
    ]
    if result.curve:
        shares = f"{_share(result.predicted_share_before)} -> {_share(result.predicted_share_after)}"
        pairs.append(("rows a query reads", f"{shares} (predicted)"))
    if result.batches > 1 or result.batches_before:
        before = f", after {result.batches_before:,} of a call that was cut short" if result.batches_before else ""
        pairs.append(("batches", f"{result.batches:,}{before}"))
    if result.writer:
        pairs.append(("written by", result.writer + (f" ({result.writer_reason})" if result.writer_reason else "")))
    if result.notes:
        pairs.append(("lost", "; ".join(result.notes)))
    return [[*pairs, ("seconds", _seconds(result.seconds))]]


@shows(WriteResult)
def _(result: WriteResult) -> list[Block]:
    return [
        [
            ("table", result.path),
            ("placed by", f"{', '.join(result.by)} ({result.curve})" if result.by else result.curve),
            ("rows", f"{result.rows:,}"),
            ("files", f"{result.files:,}"),
            ("bytes", show_size(result.bytes)),
            ("new rows a query reads", f"{_share(result.predicted_share)} (predicted)"),
            ("seconds", _seconds(result.seconds)),
        ]
    ]


@shows(Maintenance)
def _(result: Maintenance) -> list[Block]:
    return [
        [
            ("table", result.path),
            ("batches", f"{result.batches:,}{' (not done: a dry run)' * result.dry_run}"),
            ("files", f"{result.files_removed:,} -> {result.files_added:,}"),
            ("bytes written", show_size(result.bytes_written)),
            *([("deleted rows dropped", f"{result.deleted_rows:,}")] if result.deleted_rows else []),
            ("rows a query reads", f"{_share(result.kept_before)} -> {_share(result.kept_after)} (predicted)"),
            ("stopped", result.stopped),
            *([("refit", result.refit)] if result.refit else []),
            ("seconds", f"{result.seconds:.1f}"),
        ],
        *_choices(result.sketches),
    ]


def operations(history: Sequence[Operation]) -> Grid:
    """The operations on a table, one per row."""
    names = ("when", "version", "operation", "by", "rows", "files", "bytes", "predicted", "measured", "seconds")
    rows = [
        (
            moment(op.time_ms),
            op.version,
            op.operation,
            ", ".join(op.by) or None,
            op.rows,
            f"{op.files_removed:,} -> {op.files_added:,}",
            f"{show_size(op.bytes_removed)} -> {show_size(op.bytes_added)}",
            f"{_share(op.share_before)} -> {_share(op.share_after)}" if op.by else None,
            None if op.share_measured is None else f"{_share(op.share_measured)} ({op.scans:,} scans)",
            op.seconds,
        )
        for op in history
    ]
    return Grid(names, tuple(rows))


@shows(Operation)
def _(result: Operation) -> list[Block]:
    grid = operations([result])
    return [[(name, "" if cell is None else str(cell)) for name, cell in zip(grid.names, grid.rows[0], strict=True)]]


@shows(IndexInfo)
def _(index: IndexInfo) -> list[Block]:
    return [
        [
            ("index version", str(index.version)),
            ("files", f"{index.files:,} of {index.files_total:,}"),
            ("columns", str(index.columns)),
            ("granularity", index.granularity),
            ("size", show_size(index.bytes)),
            *((sketch.spec, _sketch_summary(sketch)) for sketch in index.sketches),
        ],
        *_choices(index.choices),
    ]


def _choices(choices: Sequence[SketchChoice] | None) -> list[Block]:
    """What `sketches="auto"` has decided."""
    if not choices:
        return [] if choices is None else ["no sketch is worth its bytes for this workload"]
    names = ("sketch", "action", "size", "saves a query", "of its bytes", "saved so far")
    rows = tuple(
        (
            choice.spec,
            choice.action,
            show_size(choice.bytes),
            show_size(choice.saves),
            _share(choice.share),
            None if choice.saved is None else show_size(choice.saved),
        )
        for choice in choices
    )
    return [Grid(names, rows)]


def _sketch_summary(sketch: SketchInfo) -> str:
    left_out = f"; {sketch.left_out:,} have none: {sketch.reason}" if sketch.left_out else ""
    chosen = ", chosen by the workload" if sketch.automatic else ""
    return f"{sketch.files:,} files, {show_size(sketch.bytes)}{chosen}{left_out}"


@shows(TableInfo)
def _(info: TableInfo) -> list[Block]:
    layout = info.layout
    partitions = f"{info.partitions:,} by {', '.join(info.partition_columns)}" if info.partition_columns else "none"
    pairs: Pairs = [
        ("table", f"{info.path} ({info.format}, version {info.version})"),
        ("files", f"{info.files:,} ({show_size(info.bytes)})"),
        ("rows", "unknown: no index, or one that is behind" if info.rows is None else f"{info.rows:,}"),
        ("columns", ", ".join(f"{name} {kind}" for name, kind in info.columns.items())),
        ("partitions", partitions),
        ("index", "none" if info.index is None else _coverage(info.index)),
        ("clustered by", "nothing" if layout is None else f"{', '.join(layout.by)} ({layout.curve}, {layout.build})"),
        *([] if layout is None or layout.files is None else _layout_pairs(layout)),
        *(_tree_pairs(layout.tree) if layout and layout.tree else ()),
    ]
    return [[*pairs, *((f"depth of {column.column}", _depth(column)) for column in info.clustering)]]


def _tree_pairs(tree: TreeInfo) -> Pairs:
    """A tree in words: where it cuts each column, and its first levels."""
    columns = [
        (f"cuts of {of.column}", f"{of.cuts:,}, from {of.lowest} to {of.highest}" if of.lowest else f"{of.cuts:,}")
        for of in tree.columns
    ]
    sides = {"L": "where true", "R": "else"}
    first = [(f"{'  ' * len(cut.way)}{sides[cut.way[-1]] if cut.way else 'first cut'}", str(cut)) for cut in tree.first]
    return [("tree of cuts", f"{tree.leaves:,} leaves in up to {tree.levels} levels"), *columns, *first]


def _layout_pairs(layout: LayoutInfo) -> Pairs:
    since = "" if layout.since_ms is None else f", since {moment(layout.since_ms)}"
    return [
        ("in that layout", f"{layout.files:,} files ({show_size(layout.bytes or 0)}){since}"),
        ("beside it", f"{layout.files_since:,} files ({show_size(layout.bytes_since or 0)})"),
    ]


def _coverage(index: IndexInfo) -> str:
    more = " and their row groups" if index.granularity == "row_group" else ""
    return f"{index.files:,} of {index.files_total:,} files{more}"


def _depth(column: ClusteringInfo) -> Share:
    unknown = f", {column.files_unknown:,} without bounds" if column.files_unknown else ""
    text = (
        f"{column.average_depth:.1f} of {column.files:,} files on average, "
        f"meeting {column.average_overlap:.1f} others, {column.constant_files:,} with one value{unknown}"
    )
    return Share(column.average_depth / max(column.files, 1), text)


@shows(Explanation)
def _(explanation: Explanation) -> list[Block]:
    steps = [
        (f"after {step.step}" if i else "the table", step.files, show_size(step.bytes), step.rows)
        for i, step in enumerate(explanation.steps)
    ]
    parts: list[Block] = [Grid(("step", "files", "bytes", "rows"), tuple(steps))]
    if explanation.leaves:
        leaves = tuple((leaf.sql, leaf.skipped, leaf.reason) for leaf in explanation.leaves)
        parts.append(Grid(("part", "skips", "why none"), leaves))
    if explanation.tree:
        parts.append(explanation.tree)
    if explanation.reader is not None:
        parts.append(f"read, and pruned further, by the format itself, since the table uses {explanation.reader}")
    regret = explanation.regret
    if regret is not None:
        parts.append(
            f"{regret.matching_rows:,} rows match; {regret.files:,} of the files read contain none of them "
            f"({show_size(regret.bytes)})"
        )
    return parts


@shows(Verification)
def _(audit: Verification) -> list[Block]:
    counts = f"{audit.files:,} files, {audit.columns:,} columns with statistics, {audit.queries:,} queries"
    parts: list[Block] = [f"{counts}: {'nothing is lost' if audit.ok else 'WRONG'}"]
    if not audit.ok:
        wrong = tuple((m.what, m.file, m.expected, m.found) for m in audit.mismatches)
        parts.append(Grid(("what", "file", "expected", "found"), wrong))
    return parts


@shows(Cleaning)
def _(cleaning: Cleaning) -> list[Block]:
    parts: list[Block] = []
    leftovers = cleaning.leftovers
    if leftovers:
        rows = tuple((item.path, item.files, show_size(item.bytes), item.reason) for item in leftovers)
        parts.append(Grid(("left", "files", "bytes", "why"), rows))
    state = "deleted" if cleaning.deleted else "may go: see --delete"
    parts.append(f"{len(leftovers):,} leftovers, {show_size(cleaning.bytes)}" + f", {state}" * bool(leftovers))
    if cleaning.unfinished:
        end = "finished" if cleaning.deleted else "are finished by the next call on the table, or by --delete"
        parts.append(f"{cleaning.unfinished:,} rewrites that are committed but were cut short {end}")
    return parts


@shows(ScanReport)
def _(scan: ScanReport) -> list[Block]:
    leaves = tuple((leaf.sql, leaf.kind, leaf.skipped, leaf.reason) for leaf in scan.leaves)
    return [scan_summary(scan), *([Grid(("part", "kind", "skips", "why none"), leaves)] if leaves else [])]


def scan_summary(scan: ScanReport) -> str:
    """One line on what a scan read."""
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
    return ", ".join(f"{name} {duration:.1f}" for name, duration in steps.items())
