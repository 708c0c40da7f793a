"""Intervals of SQL text: `INTERVAL '5' DAY`, `INTERVAL '1 02:03:04.5' DAY TO SECOND`, `INTERVAL '7' MONTH`."""

from __future__ import annotations

import decimal
import re
from typing import Any

from sqlglot import exp

from zskip.predicate.literals import Literal

_FIELDS = {"DAY": 86_400 * 10**6, "HOUR": 3600 * 10**6, "MINUTE": 60 * 10**6, "SECOND": 10**6}
"""Microseconds of each field."""
_MONTHS = {"YEAR": 12, "MONTH": 1}
_FORMS = {
    "YEAR": r"(?P<YEAR>\d+)",
    "MONTH": r"(?P<MONTH>\d+)",
    "DAY": r"(?P<DAY>\d+)",
    "HOUR": r"(?P<HOUR>\d+)",
    "MINUTE": r"(?P<MINUTE>\d+)",
    "SECOND": r"(?P<SECOND>\d+(?:\.\d{1,6})?)",
}
_SEPARATORS = {"MONTH": "-", "HOUR": " "}
"""The separator before a field, if not a colon."""


def read_interval(node: Any) -> Literal | None:
    """Read an interval of days and time, or of years and months; None for others."""
    months, micros = _read(node, _MONTHS), _read(node, _FIELDS)
    if months is not None:
        return Literal("months", months[0])
    return None if micros is None else Literal("micros", micros[0], "day" if micros[1] == ["DAY"] else "")


def _read(node: Any, sizes: dict[str, int]) -> tuple[int, list[str]] | None:
    """Return the size of an interval, and the fields of its type; None if it has other fields than these."""
    unit, written = node.args.get("unit"), node.this
    if unit is None or not isinstance(written, exp.Literal | exp.Neg):
        return None
    if isinstance(unit, exp.IntervalSpan):
        first, last = unit.this.name.upper(), unit.expression.name.upper()
    else:
        first = last = unit.name.upper().removesuffix("S")
    if first not in sizes or last not in sizes:
        return None
    order = list(sizes)
    fields = order[order.index(first) : order.index(last) + 1]
    text = written.name if isinstance(written, exp.Literal) else f"-{written.this.name}"
    form = "".join((_SEPARATORS.get(name, ":") if i else "") + _FORMS[name] for i, name in enumerate(fields))
    match = re.fullmatch(rf"(?P<sign>[+-]?){form}", text.strip(), re.ASCII)
    if not fields or match is None or any(len(match[name].partition(".")[0]) > 9 for name in fields):
        return None
    size = sum(int(decimal.Decimal(match[name]) * sizes[name]) for name in fields)
    return (-size if match["sign"] == "-" else size), fields
