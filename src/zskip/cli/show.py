"""What commands print: short tables with units for people, one JSON document for scripts."""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import decimal
import json
import math
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from zskip.units import show_size

if TYPE_CHECKING:
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

_WIDE = 10_000
"""Columns of a page that is no terminal: nothing is folded or cut for a file or a pipe."""

Pairs = list[tuple[str, str]]


def print_json(document: Any) -> None:
    """Print one JSON document on stdout."""
    print(json.dumps(plain(document)))


def plain(value: Any) -> Any:
    """A value as JSON has it: decimals and times as text, binary as base64, NaN and infinities as Spark names them.

    >>> plain({"a": [decimal.Decimal("1.50"), dt.date(2024, 1, 2), float("nan"), b"x"]})
    {'a': ['1.50', '2024-01-02', 'NaN', 'eA==']}
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if hasattr(value, "asDict"):
        return plain(value.asDict())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return str(value)


def print_pairs(pairs: Pairs) -> None:
    """Print names and what they stand for, one on each line."""
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        print(f"{name:<{width}}  {value}")


def flat(row: Any, prefix: str = "") -> Pairs:
    """The fields of a row of Spark's and of the rows in it, those without a value left out."""
    found: Pairs = []
    for name, value in row.asDict().items():
        if hasattr(value, "asDict"):
            found += flat(value, f"{prefix}{name}.")
        elif value is not None:
            found.append((prefix + name, _cell(value)))
    return found


def print_rows(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print the rows of a query as a table, numbers to the right."""
    rows = list(rows)
    grid = Grid()
    for i, name in enumerate(names):
        numbers = all(_is_number(row[i]) for row in rows if row[i] is not None)
        grid.add_column(Text(name), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        grid.add_row(*[Text("NULL", style="dim") if value is None else Text(_cell(value)) for value in row])
    _page().print(grid)


def _page() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=_WIDE)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool)


def _cell(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        return "0x" + value.hex()
    return str(value) if not isinstance(value, dict | list | tuple) else json.dumps(plain(value))


def optimized(result: OptimizeResult) -> Pairs:
    """What an optimize did, for people."""
    return [
        ("table", result.path),
        ("clustered by", f"{', '.join(result.by)} ({result.curve}, {result.build})"),
        ("rows", f"{result.rows:,}"),
        ("files", f"{result.files_before:,} -> {result.files_after:,}"),
        ("bytes", f"{show_size(result.bytes_before)} -> {show_size(result.bytes_after)} ({result.compression})"),
        (
            "rows a query reads",
            f"{_share(result.predicted_share_before)} -> {_share(result.predicted_share_after)} (predicted)",
        ),
        ("seconds", ", ".join(f"{name} {took:.1f}" for name, took in result.seconds.items())),
    ]


def compacted(result: CompactResult) -> Pairs:
    """What a compact did, for people."""
    return [
        ("table", result.path),
        ("merged", f"{result.removed.files:,} -> {result.added.files:,} files in {result.partitions:,} partitions"),
        ("rows", f"{result.rows:,}"),
        ("files", f"{result.files_before:,} -> {result.files_after:,}"),
        ("bytes", f"{show_size(result.bytes_before)} -> {show_size(result.bytes_after)}"),
        ("seconds", ", ".join(f"{name} {took:.1f}" for name, took in result.seconds.items())),
    ]


def maintained(result: Maintenance) -> Pairs:
    """What a maintain did or would do, for people."""
    return [
        ("table", result.path),
        ("batches", f"{result.batches:,}{' (not done: a dry run)' * result.dry_run}"),
        ("files", f"{result.files_removed:,} -> {result.files_added:,}"),
        ("bytes written", show_size(result.bytes_written)),
        ("rows a query reads", f"{_share(result.kept_before)} -> {_share(result.kept_after)} (predicted)"),
        ("stopped", result.stopped),
        ("seconds", f"{result.seconds:.1f}"),
    ]


def operations(found: Sequence[Operation]) -> tuple[list[str], list[list[Any]]]:
    """What was done to a table, for people: names of columns, and rows."""
    names = ["when", "version", "operation", "by", "rows", "files", "bytes", "rows a query reads", "seconds"]
    rows = [
        [
            _moment(of.time_ms),
            of.version,
            of.operation,
            ", ".join(of.by) or None,
            of.rows,
            f"{of.files_removed:,} -> {of.files_added:,}",
            f"{show_size(of.bytes_removed)} -> {show_size(of.bytes_added)}",
            f"{_share(of.share_before)} -> {_share(of.share_after)}" if of.by else None,
            of.seconds,
        ]
        for of in found
    ]
    return names, rows


def _share(share: float | None) -> str:
    return "unknown" if share is None else f"{100 * share:.1f} %"


def indexed(found: IndexInfo) -> Pairs:
    """What an index covers, for people."""
    return [
        ("index version", str(found.version)),
        ("files", f"{found.files:,} of {found.files_total:,}"),
        ("columns", str(found.columns)),
        ("granularity", found.granularity),
        ("size", show_size(found.bytes)),
        *((sketch.spec, _sketched(sketch)) for sketch in found.sketches),
    ]


def _sketched(found: SketchInfo) -> str:
    left_out = f"; {found.left_out:,} have none: {found.reason}" if found.left_out else ""
    return f"{found.files:,} files, {show_size(found.bytes)}{left_out}"


def described(found: TableInfo) -> Pairs:
    """What lies at a path, for people."""
    layout = found.layout
    return [
        ("table", f"{found.path} ({found.format}, version {found.version})"),
        ("files", f"{found.files:,} ({show_size(found.bytes)})"),
        ("rows", "unknown: no index, or one that is behind" if found.rows is None else f"{found.rows:,}"),
        ("columns", ", ".join(f"{name} {kind}" for name, kind in found.columns.items())),
        ("partitions", f"{found.partitions:,} by {', '.join(found.partition_columns)}")
        if found.partition_columns
        else ("partitions", "none"),
        ("index", "none" if found.index is None else _covered(found.index)),
        ("clustered by", "nothing" if layout is None else f"{', '.join(layout.by)} ({layout.curve}, {layout.build})"),
        *([] if layout is None or layout.files is None else _inside(layout)),
        *((f"depth of {column.column}", _clustered(column)) for column in found.clustering),
    ]


def _inside(layout: LayoutInfo) -> Pairs:
    since = "" if layout.since_ms is None else f", since {_moment(layout.since_ms)}"
    return [
        ("in that layout", f"{layout.files:,} files ({show_size(layout.bytes or 0)}){since}"),
        ("beside it", f"{layout.files_since:,} files ({show_size(layout.bytes_since or 0)})"),
    ]


def _moment(ms: int) -> str:
    return dt.datetime.fromtimestamp(ms // 1000, dt.timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def _covered(found: IndexInfo) -> str:
    more = " and their row groups" if found.granularity == "row_group" else ""
    return f"{found.files:,} of {found.files_total:,} files{more}"


def _clustered(found: ClusteringInfo) -> str:
    unknown = f", {found.files_unknown:,} without bounds" if found.files_unknown else ""
    return (
        f"{found.average_depth:.1f} of {found.files:,} files on average, meeting {found.average_overlap:.1f} others, "
        f"{found.constant_files:,} with one value{unknown}"
    )


def print_explanation(found: Explanation) -> None:
    """Print what is left after each step, and what each leaf of the predicate did."""
    steps = [
        (f"after {step.step}" if i else "the table", step.files, show_size(step.bytes), step.rows)
        for i, step in enumerate(found.steps)
    ]
    print_rows(["step", "files", "bytes", "rows"], steps)
    if found.leaves:
        print_rows(["part", "skips", "why none"], [(leaf.sql, leaf.skipped, leaf.reason) for leaf in found.leaves])
    if found.reader is not None:
        print(f"read, and pruned further, by the format itself, since the table uses {found.reader}")
    regret = found.regret
    if regret is not None:
        print(
            f"{regret.matching_rows:,} rows match; {regret.files:,} of the files read held none of them "
            f"({show_size(regret.bytes)})"
        )


def print_verification(found: Verification) -> None:
    """Print what an audit looked at, and what is wrong."""
    counts = f"{found.files:,} files, {found.columns:,} columns with statistics, {found.queries:,} queries"
    print(f"{counts}: {'nothing is lost' if found.ok else 'WRONG'}")
    if not found.ok:
        wrong = [(m.what, m.file, m.expected, m.found) for m in found.mismatches]
        print_rows(["what", "file", "expected", "found"], wrong)


def print_cleaning(found: Cleaning) -> None:
    """Print what crashed operations left, and whether it is gone."""
    if found.leftovers:
        rows = [(left.path, left.files, show_size(left.bytes), left.reason) for left in found.leftovers]
        print_rows(["left", "files", "bytes", "why"], rows)
    done = "deleted" if found.deleted else "may go: see --delete"
    print(f"{len(found.leftovers):,} leftovers, {show_size(found.bytes)}" + (f", {done}" if found.leftovers else ""))
    if found.unfinished:
        said = "finished" if found.deleted else "are finished by the next call on the table, or by --delete"
        print(f"{found.unfinished:,} rewrites that are committed but were cut short {said}")


def scanned(scan: ScanReport) -> str:
    """What a scan read, for people."""
    rows = "" if scan.rows is None or scan.rows_total is None else f", {scan.rows:,} of {scan.rows_total:,} rows"
    return (
        f"read {scan.files:,} of {scan.files_total:,} files{rows}, "
        f"{show_size(scan.bytes)} of {show_size(scan.bytes_total)}"
    )
