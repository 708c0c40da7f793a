"""Sums and products of a term and a literal, and sums with an interval, typed as Spark types them."""

from __future__ import annotations

import decimal
import math
from typing import cast

from sqlglot import exp

from zskip.predicate import functions
from zskip.predicate.casts import WHOLE_DIGITS
from zskip.predicate.functions.numbers import sum_type
from zskip.predicate.literals import INTEGER_TYPES, Literal, digits
from zskip.predicate.sql.intervals import interval_micros
from zskip.predicate.sql.literals import Node, type_name
from zskip.predicate.tree import Term
from zskip.types import INTEGERS, DataType

_DAY = 86_400 * 10**6


def plus(term: Term, literal: Literal, node: Node, sign: int) -> Term | None:
    """`term + literal`, or minus where `sign` is -1; None where the sum's type is not sure, or it may be rounded."""
    held, number = term.type, literal.value
    if isinstance(number, bool) or not isinstance(number, int | float | decimal.Decimal):
        return None
    if held.name == "date":
        return functions.call("date_add", term, sign * int(number)) if literal.kind == "int" else None
    if held.is_integer and literal.kind == "int":
        widened = _widened(term, node, cast(int, number))
        return None if widened is None else functions.call("add", widened, sign * int(number))
    if held.name in ("float", "double") or literal.kind in ("double", "float"):
        return _plus_float(term, literal, sign)
    if literal.kind not in ("int", "decimal") or not (held.is_integer or held.is_decimal):
        return None
    return _plus_decimal(term, decimal.Decimal(cast("int | decimal.Decimal", number)) * sign)


def times(term: Term, literal: Literal, node: Node) -> Term | None:
    """`term * literal` of an integer and a positive one; None for any other."""
    number = literal.value
    if literal.kind != "int" or not isinstance(number, int) or not term.type.is_integer:
        return None
    widened = _widened(term, node, number)
    return None if widened is None else functions.call("multiply", widened, number)


def _widened(term: Term, node: Node, number: int) -> Term | None:
    """An integer as the wider of its type and a literal's."""
    return _as(term, DataType(max(term.type.name, _int_type(node, number), key=INTEGERS.__getitem__)))


def _plus_float(term: Term, literal: Literal, sign: int) -> Term | None:
    """A float and an integer make a float or a double, as the session is in ANSI mode or not."""
    held, amount = term.type, float(cast(float, literal.value)) * sign
    if not math.isfinite(amount) or held.is_decimal:
        return None
    if held.name != "float" or literal.kind in ("decimal", "double"):
        widened = _as(term, DataType("double")) if literal.kind != "float" or held.name == "double" else None
    else:
        widened = term if literal.kind == "float" else None
    return None if widened is None else functions.call("add", widened, repr(amount))


def _plus_decimal(term: Term, amount: decimal.Decimal) -> Term | None:
    held = term.type
    widened = _as(term, DataType(f"decimal({WHOLE_DIGITS[held.name]},0)")) if held.is_integer else term
    whole, scale = digits(amount)
    wanted = None if widened is None else sum_type(widened.type, whole, scale)
    if widened is None or wanted is None:
        return None
    with decimal.localcontext(decimal.Context(prec=80)):
        unscaled = int(amount.scaleb(wanted.scale))
    return functions.call("add", widened, unscaled, wanted.name)


def _as(term: Term, wanted: DataType) -> Term | None:
    return term if term.type == wanted else functions.cast(term, wanted, "UTC")


def _int_type(node: Node, number: int) -> str:
    """The type of an integer literal: as its suffix says, else by its size."""
    node = node.unnest()
    while isinstance(node, exp.Neg):
        node = node.this.unnest()
    if isinstance(node, exp.Cast):
        return INTEGER_TYPES[type_name(node.to)]
    return "integer" if -(2**31) <= number < 2**31 else "long"


def interval(term: Term, node: Node, sign: int, timezone: str) -> Term | None:
    """`term + INTERVAL '...'` of days or a fixed time; None for months and for what is not sure."""
    found = interval_micros(node)
    if found is None:
        return None
    micros, only_days = found
    if term.type.name == "date":
        return functions.call("date_add", term, sign * micros // _DAY) if only_days else None
    days = abs(micros) // _DAY * (1 if micros > 0 else -1)
    return functions.call("shift", term, sign * days, sign * (micros - days * _DAY), timezone)
