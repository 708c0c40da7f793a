"""Sums and products of a term and a literal, and sums with an interval, with the types that Spark gives them."""

from __future__ import annotations

import decimal
import math
from typing import cast

from sqlglot import exp

from zskip.predicate import functions
from zskip.predicate.functions.numbers import sum_type
from zskip.predicate.literals import INTEGER_TYPES, WHOLE_DIGITS, Literal, digits
from zskip.predicate.sql.intervals import interval_micros
from zskip.predicate.sql.literals import Node, type_name
from zskip.predicate.tree import Term
from zskip.types import INTEGERS, DataType

_DAY = 86_400 * 10**6


def add_literal(term: Term, literal: Literal, node: Node, sign: int) -> Term | None:
    """Build `term + literal`, or `-` if `sign` is -1; None if the type is uncertain or Spark may round."""
    data_type, number = term.type, literal.value
    if isinstance(number, bool) or not isinstance(number, int | float | decimal.Decimal):
        return None
    if data_type.name == "date":
        return functions.call("date_add", term, sign * int(number)) if literal.kind == "int" else None
    if data_type.is_integer and literal.kind == "int":
        widened = widen(term, node, cast(int, number))
        return None if widened is None else functions.call("add", widened, sign * int(number))
    if data_type.name in ("float", "double") or literal.kind in ("double", "float"):
        return _add_float(term, literal, sign)
    if literal.kind not in ("int", "decimal") or not (data_type.is_integer or data_type.is_decimal):
        return None
    return _add_decimal(term, decimal.Decimal(cast("int | decimal.Decimal", number)) * sign)


def multiply_literal(term: Term, literal: Literal, node: Node) -> Term | None:
    """Build `term * literal` for integers and a positive literal; None for others."""
    number = literal.value
    if literal.kind != "int" or not isinstance(number, int) or not term.type.is_integer:
        return None
    widened = widen(term, node, number)
    return None if widened is None else functions.call("multiply", widened, number)


def widen(term: Term, node: Node, number: int) -> Term | None:
    """Cast an integer to the wider of its type and a literal's."""
    return _cast(term, DataType(max(term.type.name, _int_type(node, number), key=INTEGERS.__getitem__)))


def _add_float(term: Term, literal: Literal, sign: int) -> Term | None:
    """Add floats; a float and an integer give a float or a double, depending on ANSI mode, so None."""
    data_type, amount = term.type, float(cast(float, literal.value)) * sign
    if not math.isfinite(amount) or data_type.is_decimal:
        return None
    if data_type.name != "float" or literal.kind in ("decimal", "double"):
        widened = _cast(term, DataType("double")) if literal.kind != "float" or data_type.name == "double" else None
    else:
        widened = term if literal.kind == "float" else None
    return None if widened is None else functions.call("add", widened, repr(amount))


def _add_decimal(term: Term, amount: decimal.Decimal) -> Term | None:
    data_type = term.type
    widened = _cast(term, DataType(f"decimal({WHOLE_DIGITS[data_type.name]},0)")) if data_type.is_integer else term
    whole, scale = digits(amount)
    result = None if widened is None else sum_type(widened.type, whole, scale)
    if widened is None or result is None:
        return None
    with decimal.localcontext(decimal.Context(prec=80)):
        unscaled = int(amount.scaleb(result.scale))
    return functions.call("add", widened, unscaled, result.name)


def _cast(term: Term, target: DataType) -> Term | None:
    return term if term.type == target else functions.cast(term, target, "UTC")


def _int_type(node: Node, number: int) -> str:
    """Return the type of an integer literal, by its suffix or else its size."""
    node = node.unnest()
    while isinstance(node, exp.Neg):
        node = node.this.unnest()
    if isinstance(node, exp.Cast):
        return INTEGER_TYPES[type_name(node.to)]
    return "integer" if -(2**31) <= number < 2**31 else "long"


def add_interval(term: Term, node: Node, sign: int, timezone: str) -> Term | None:
    """Build `term + INTERVAL '...'` for days or a fixed time; None for months and if Spark's meaning is uncertain."""
    parsed = interval_micros(node)
    if parsed is None:
        return None
    micros, has_only_days = parsed
    if term.type.name == "date":
        return functions.call("date_add", term, sign * micros // _DAY) if has_only_days else None
    days = abs(micros) // _DAY * (1 if micros > 0 else -1)
    return functions.call("shift", term, sign * days, sign * (micros - days * _DAY), timezone)
