"""Comparisons of a term with a literal of pyarrow, settled as Arrow compares them or given up.

Arrow compares the values themselves: where the types of both sides differ it casts one, and fails where the cast loses
anything. It compares floats as IEEE 754 says, so that NaN is neither equal to nor above anything.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pyarrow as pa

from zskip.predicate.literals import always, exact, never
from zskip.predicate.tree import And, Compare, Constant, Not, Predicate, Term
from zskip.types import Form

_EXACT_DOUBLE = 2**53
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_PER_MICROSECOND = {"s": Fraction(1_000_000), "ms": Fraction(1000), "us": Fraction(1), "ns": Fraction(1, 1000)}
NAN = math.nan


def compare(op: str, term: Term, scalar: Any) -> Predicate | None:
    """`term op scalar` in Arrow's sense, op one of `=`, `!=`, `<`, `<=`, `>`, `>=`; None where it is not settled."""
    if not scalar.is_valid:
        return Constant(None)
    if _is_nan(scalar):
        numeric = term.type.is_integer or term.type.form is Form.FLOAT
        return None if not numeric else always(term) if op == "!=" else never(term)
    if op == "!=":
        equal = compare("=", term, scalar)
        return None if equal is None else Not(equal)
    found = _settled(op, term, scalar)
    if term.type.form is Form.FLOAT and op in (">", ">=") and found is not None:
        return And((found, Compare("<", term, NAN)))
    return found


def _is_nan(scalar: Any) -> bool:
    return pa.types.is_floating(scalar.type) and math.isnan(scalar.as_py())


def _settled(op: str, term: Term, scalar: Any) -> Predicate | None:
    name, held = term.type.name, scalar.type
    if term.type.is_integer or term.type.is_decimal:
        return _with_number(op, term, scalar)
    if term.type.form is Form.FLOAT:
        value = _float(scalar, single=name == "float")
        return None if value is None else Compare(op, term, value)
    if name == "boolean":
        return Compare(op, term, int(scalar.as_py())) if pa.types.is_boolean(held) else None
    if name in ("string", "binary"):
        value = scalar.as_py() if _is_text(held) else None
        return None if value is None else Compare(op, term, value.encode() if isinstance(value, str) else bytes(value))
    if name in ("date", "timestamp", "timestamp_ntz"):
        time = _time(scalar, name)
        return None if time is None else exact(op, term, time)
    return None


def _with_number(op: str, term: Term, scalar: Any) -> Predicate | None:
    held, value = scalar.type, scalar.as_py()
    if pa.types.is_integer(held) or pa.types.is_decimal(held):
        return exact(op, term, Fraction(value))
    if not pa.types.is_floating(held) or term.type.is_decimal:
        return None
    if math.isinf(value):
        return always(term) if op != "=" and (op in ("<", "<=")) == (value > 0) else never(term)
    return exact(op, term, Fraction(float(value))) if abs(value) < _EXACT_DOUBLE else None


def _float(scalar: Any, *, single: bool) -> float | None:
    """The value as a float; None where Arrow would not cast it, or round it."""
    value = scalar.as_py()
    if pa.types.is_floating(scalar.type):
        return float(value)
    if not pa.types.is_integer(scalar.type) or abs(value) > (2**24 if single else _EXACT_DOUBLE):
        return None
    return float(value)


def _is_text(held: pa.DataType) -> bool:
    return any(held == kind for kind in _TEXTS)


_TEXTS = (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view())


def _time(scalar: Any, name: str) -> Fraction | None:
    """Days for a date, microseconds for a timestamp; None where Arrow does not compare the two."""
    held = scalar.type
    if held == pa.date32():
        days = Fraction(scalar.value)
        return days if name == "date" else days * _PER_DAY["us"]
    if not pa.types.is_timestamp(held) or (name == "timestamp_ntz" and held.tz is not None):
        return None
    if name == "date":
        return Fraction(scalar.value, _PER_DAY[held.unit])
    return int(scalar.value) * _PER_MICROSECOND[held.unit]
