"""Comparisons of a term with a pyarrow literal, with the exact meaning that they have in Arrow.

If the types differ, Arrow casts one side, and fails if the cast loses anything. It compares floats by IEEE 754, so NaN
is neither equal to nor above anything.
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
    """Compare as Arrow does, with op one of `=`, `!=`, `<`, `<=`, `>`, `>=`; None if the meaning is uncertain."""
    if not scalar.is_valid:
        return Constant(None)
    if _is_nan(scalar):
        numeric = term.type.is_integer or term.type.form is Form.FLOAT
        return None if not numeric else always(term) if op == "!=" else never(term)
    if op == "!=":
        equal = compare("=", term, scalar)
        return None if equal is None else Not(equal)
    comparison = _compare_as_arrow(op, term, scalar)
    if term.type.form is Form.FLOAT and op in (">", ">=") and comparison is not None:
        return And((comparison, Compare("<", term, NAN)))
    return comparison


def _is_nan(scalar: Any) -> bool:
    return pa.types.is_floating(scalar.type) and math.isnan(scalar.as_py())


def _compare_as_arrow(op: str, term: Term, scalar: Any) -> Predicate | None:
    name, scalar_type = term.type.name, scalar.type
    if term.type.is_integer or term.type.is_decimal:
        return _compare_with_number(op, term, scalar)
    if term.type.form is Form.FLOAT:
        value = _float(scalar, single=name == "float")
        return None if value is None else Compare(op, term, value)
    if name == "boolean":
        return Compare(op, term, int(scalar.as_py())) if pa.types.is_boolean(scalar_type) else None
    if name in ("string", "binary"):
        value = scalar.as_py() if _is_text(scalar_type) else None
        return None if value is None else Compare(op, term, value.encode() if isinstance(value, str) else bytes(value))
    if term.type.is_time:
        return Compare(op, term, int(scalar.value)) if scalar_type == pa.time64("us") else None
    if name in ("date", "timestamp", "timestamp_ntz"):
        time = _time(scalar, name)
        return None if time is None else exact(op, term, time)
    return None


def _compare_with_number(op: str, term: Term, scalar: Any) -> Predicate | None:
    scalar_type, value = scalar.type, scalar.as_py()
    if pa.types.is_integer(scalar_type) or pa.types.is_decimal(scalar_type):
        return exact(op, term, Fraction(value))
    if not pa.types.is_floating(scalar_type) or term.type.is_decimal:
        return None
    if math.isinf(value):
        return always(term) if op != "=" and (op in ("<", "<=")) == (value > 0) else never(term)
    return exact(op, term, Fraction(float(value))) if abs(value) < _EXACT_DOUBLE else None


def _float(scalar: Any, *, single: bool) -> float | None:
    """Return the value as a float; None if Arrow would refuse the cast or round."""
    value = scalar.as_py()
    if pa.types.is_floating(scalar.type):
        return float(value)
    if not pa.types.is_integer(scalar.type) or abs(value) > (2**24 if single else _EXACT_DOUBLE):
        return None
    return float(value)


def _is_text(scalar_type: pa.DataType) -> bool:
    return any(scalar_type == kind for kind in _TEXTS)


_TEXTS = (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view())


def _time(scalar: Any, name: str) -> Fraction | None:
    """Return days for a date, microseconds for a timestamp; None if Arrow does not compare the two."""
    scalar_type = scalar.type
    if scalar_type == pa.date32():
        days = Fraction(scalar.value)
        return days if name == "date" else days * _PER_DAY["us"]
    if not pa.types.is_timestamp(scalar_type) or (name == "timestamp_ntz" and scalar_type.tz is not None):
        return None
    if name == "date":
        return Fraction(scalar.value, _PER_DAY[scalar_type.unit])
    return int(scalar.value) * _PER_MICROSECOND[scalar_type.unit]
