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
from typing import Any

from rich.bar import Bar
from rich.console import Console
from rich.table import Table
from rich.text import Text

from zskip.rows import Grid, Pairs, Share, blocks

_WIDE = 10_000
"""Columns of a page that is no terminal: nothing is folded or cut for a file or a pipe."""

_BAR = 16
"""Columns of a share's bar."""


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


def print_result(result: object) -> None:
    """Print what a call gave, for people."""
    for block in blocks(result):
        if isinstance(block, str):
            print(block)
        elif isinstance(block, Grid):
            print_rows(block.names, block.rows)
        else:
            print_pairs(block)


def print_pairs(pairs: Pairs) -> None:
    """Print names and what they stand for, one on each line."""
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        if isinstance(value, Share) and sys.stdout.isatty():
            line = Table.grid(padding=(0, 2, 0, 0))
            line.add_row(Text(f"{name:<{width}}"), _bar(value), Text(value.text))
            Console().print(line)
        else:
            print(f"{name:<{width}}  {value}")


def flat(row: Any, prefix: str = "") -> Pairs:
    """Flatten a row of Spark's and the rows in it into names and values, without nulls."""
    pairs: Pairs = []
    for name, value in row.asDict().items():
        if hasattr(value, "asDict"):
            pairs += flat(value, f"{prefix}{name}.")
        elif value is not None:
            pairs.append((prefix + name, _cell(value)))
    return pairs


def print_rows(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print the rows of a query as a table, numbers to the right."""
    rows = list(rows)
    grid = Table()
    for i, name in enumerate(names):
        numbers = all(_is_number(row[i]) for row in rows if row[i] is not None)
        grid.add_column(Text(name), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        grid.add_row(*[_drawn(value) for value in row])
    _page().print(grid)


def _drawn(value: Any) -> Text | Table:
    if isinstance(value, Share) and sys.stdout.isatty():
        cell = Table.grid(padding=(0, 1, 0, 0))
        cell.add_row(_bar(value), Text(value.text))
        return cell
    return Text("NULL", style="dim") if value is None else Text(_cell(value))


def _bar(share: Share) -> Bar:
    return Bar(1.0, 0.0, min(max(share.value, 0.0), 1.0), width=_BAR, color="blue", bgcolor="bright_black")


def _page() -> Console:
    return Console() if sys.stdout.isatty() else Console(width=_WIDE)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool)


def _cell(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        return "0x" + value.hex()
    return str(value) if not isinstance(value, dict | list | tuple) else json.dumps(plain(value))
