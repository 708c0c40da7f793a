"""Whether two answers of Spark to a query are the same: as multisets of rows, with a tolerance for sums of floats."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import sqlglot
from sqlglot import exp

Rows = Sequence[Sequence[Any]]
TOLERANCE = 1e-9
"""Relative; the order in which floats are added up changes their last digits."""


def same(expected: Rows, found: Rows) -> bool:
    """Whether two answers hold the same rows, in any order."""
    if len(expected) != len(found):
        return False
    pairs = zip(sorted(expected, key=order), sorted(found, key=order), strict=True)
    return all(same_row(a, b) for a, b in pairs)


def order(row: Sequence[Any]) -> tuple[str, ...]:
    """What rows are sorted by: floats without the digits that may differ come last."""
    return (*(repr(v) for v in row if not isinstance(v, float)), *(f"{v:.6e}" for v in row if isinstance(v, float)))


def same_row(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two rows are equal but for the last digits of floats."""
    return all(same_value(a, b) for a, b in zip(one, other, strict=True))


def same_value(one: Any, other: Any) -> bool:
    """Whether two values are equal but for the last digits of floats; NaN is equal to NaN."""
    if isinstance(one, float) and isinstance(other, float):
        close = math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        return close or (math.isnan(one) and math.isnan(other))
    return one == other


def difference(sql: str, expected: Rows, found: Rows, run: Callable[[str], tuple[Rows, Rows]]) -> str | None:
    """What is wrong with an answer; None where it is a possible one.

    Where a LIMIT cuts rows that its order leaves tied, both must be as many rows of the same answer without it, and
    of the same values where they are ordered by columns of the answer.
    run: the answers of both sides to another query.
    """
    if same(expected, found):
        return None
    tree = sqlglot.parse_one(sql, read="spark")
    if tree.args.get("limit") is None or len(expected) != len(found):
        return f"{len(found)} rows {list(found)[:3]}... instead of {len(expected)} rows {list(expected)[:3]}..."
    ordered = positions(tree)
    if any(not same_value(a[i], b[i]) for a, b in zip(expected, found, strict=True) for i in ordered):
        return "the rows of a LIMIT are not the first ones"
    tree.set("limit", None)
    whole, other = run(tree.sql("spark"))
    if not same(whole, other):
        return f"without its LIMIT {len(other)} rows, instead of {len(whole)}, or other ones"
    return None if among(found, other) else "a LIMIT gives rows that are not in the whole answer"


def positions(tree: exp.Expression) -> list[int]:
    """Which columns of the answer it is ordered by."""
    names = [column.lower() for column in tree.named_selects]
    by = tree.args.get("order")
    keys = [key.this for key in by.expressions] if by else []
    return [names.index(key.name.lower()) for key in keys if isinstance(key, exp.Column) and key.name.lower() in names]


def among(some: Rows, rows: Rows) -> bool:
    """Whether each row of some is one of the others, as often."""
    left = sorted(rows, key=order)
    for row in sorted(some, key=order):
        at = next((i for i, other in enumerate(left) if same_row(row, other)), None)
        if at is None:
            return False
        del left[at]
    return True
