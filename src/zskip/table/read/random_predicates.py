"""Random predicates drawn from the values of a table, the same for a seed."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from zskip.predicate import And, Column, Compare, Contains, In, IsNull, Like, Not, Or, Predicate, StartsWith, to_sql
from zskip.types import DataType, Encoded, Form, decode_decimal, encode_decimal, value_range

_OPERATORS = ("=", "<", "<=", ">", ">=")
_UNWRITABLE = "'...'"
"""What `to_sql` writes for a date or a timestamp outside its range."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """A column and some of its values."""

    column: Column
    values: Sequence[Encoded]
    """In the form of the column's type; neither null nor NaN."""


def draw(probes: Sequence[Probe], count: int, seed: int) -> list[Predicate]:
    """Draw predicates of one to about four leaves over existing values and their neighbors."""
    rng = random.Random(seed)
    predicates: list[Predicate] = []
    while probes and len(predicates) < count:
        predicate = _tree(rng, probes, 2)
        if _UNWRITABLE not in to_sql(predicate):
            predicates.append(predicate)
    return predicates


def _tree(rng: random.Random, probes: Sequence[Probe], depth: int) -> Predicate:
    kind = rng.random()
    if depth and kind < 0.5:
        children = tuple(_tree(rng, probes, depth - 1) for _ in range(2))
        return And(children) if kind < 0.3 else Or(children)
    if depth and kind < 0.6:
        return Not(_tree(rng, probes, depth - 1))
    return _leaf(rng, rng.choice(probes))


def _leaf(rng: random.Random, probe: Probe) -> Predicate:
    column, kind = probe.column, rng.random()
    if not probe.values or kind < 0.1:
        return IsNull(column)
    if column.type.form is Form.FLOAT and kind < 0.2:
        return Compare(rng.choice(_OPERATORS), column, math.nan)
    value = rng.choice(probe.values)
    if kind < 0.3:
        return In(column, tuple(sorted({_near(rng, rng.choice(probe.values), column.type) for _ in range(4)})))
    if kind < 0.45:
        low, high = sorted([value, rng.choice(probe.values)])
        return And((Compare(">=", column, low), Compare("<=", column, high)))
    if column.type.name == "string" and kind < 0.7:
        return _text_leaf(rng, column, cast(bytes, value).decode())
    return Compare(rng.choice(_OPERATORS), column, _near(rng, value, column.type))


def _text_leaf(rng: random.Random, column: Column, text: str) -> Predicate:
    part = text[: rng.randint(1, 4)]
    kind = rng.randrange(3)
    if kind == 0:
        return StartsWith(column, part.encode())
    if kind == 1:
        return Contains(column, part.encode())
    return Like(column, "".join(f"\\{c}" if c in "\\%_" else c for c in part) + "_%")


def _near(rng: random.Random, value: Encoded, data_type: DataType) -> Encoded:
    """The value or a direct neighbor."""
    step = rng.choice([-1, 0, 0, 0, 1])
    if not step or data_type.name == "boolean":
        return value
    if data_type.is_decimal:
        unscaled = decode_decimal(value, data_type) + step
        least, most = value_range(data_type)
        return encode_decimal(unscaled, data_type) if least <= unscaled <= most else value
    if data_type.form is Form.FLOAT:
        width: Any = np.float32 if data_type.name == "float" else np.float64
        return float(np.nextafter(width(value), width(math.copysign(math.inf, step))))
    if isinstance(value, bytes):
        return value + b"\x01" if step > 0 else value.decode(errors="ignore")[:-1].encode()
    least, most = value_range(data_type)
    return value + step if least <= value + step <= most else value
