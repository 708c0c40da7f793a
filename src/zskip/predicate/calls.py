"""Functions by name, whoever has read the call: SQL text, Catalyst's trees, or another source of names and arguments.

Arguments are sides: terms and literals. A function gives a term of the type that Spark gives it, or None where it does
not keep the order, where Spark might round, or where the arguments are others.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from zskip.predicate import functions, opaque
from zskip.predicate.casts import cast_term
from zskip.predicate.functions.numbers import sum_type
from zskip.predicate.functions.times import ADDED_UNITS
from zskip.predicate.literals import WHOLE_DIGITS, Literal, digits, literal_text
from zskip.predicate.tree import Term
from zskip.types import INTEGERS, DataType

Side: TypeAlias = "Term | Literal | None"
"""One side of a comparison, or an argument; None if it is not understood."""
UNIT_ALIASES = {"YYYY": "YEAR", "YY": "YEAR", "MM": "MONTH", "MON": "MONTH", "DD": "DAY"}
_DAY = 86_400 * 10**6
_ADDED_UNITS = {**{unit: (0, micros) for unit, micros in ADDED_UNITS.items()}, "DAY": (1, 0), "WEEK": (7, 0)}
"""Days and microseconds of a unit."""


def call(name: str, sides: Sequence[Side], timezone: str) -> Term | None:
    """Make the term of a call; None if the function is not known, or not of such arguments.

    name: of a function in lower case, or an operator; timezone: the session's.

    >>> from zskip.predicate.tree import Column
    >>> call("+", (Column(("n",), DataType("integer")), Literal("int", 2)), "UTC").arguments
    (2,)
    """
    name = opaque.NAMES.get(name, name)
    count, function = _FUNCTIONS.get(name, (-1, None))
    if function is not None:
        return function(*sides, timezone) if len(sides) == count else None
    arguments: list[Term | str] = []
    for side in sides:
        term = _date(side, timezone) if name in opaque.OF_DATES else _term(side)
        argument = literal_text(side) if isinstance(side, Literal) else term
        if argument is None:
            return None
        arguments.append(argument)
    return opaque.call(name, tuple(arguments), timezone)


def _term(side: Side) -> Term | None:
    return None if isinstance(side, Literal) else side


def _whole(side: Side) -> int | None:
    return side.value if isinstance(side, Literal) and side.kind == "int" and isinstance(side.value, int) else None


def _text(side: Side) -> str:
    return str(side.value) if isinstance(side, Literal) and side.kind == "string" else ""


def _monotone(name: str, term: Term | None, *arguments: int | str) -> Term | None:
    return None if term is None else functions.call(name, term, *arguments)


def _date(side: Side, timezone: str) -> Term | None:
    """Read an argument that Spark takes as a date: dates, and timestamps cut to theirs."""
    term = _term(side)
    return None if term is None or term.type.name == "string" else cast_term(term, "DATE", timezone)


def _time(side: Side, timezone: str) -> Term | None:
    """Read an argument that Spark takes as a timestamp."""
    term = _term(side)
    return cast_term(term, "TIMESTAMP", timezone) if term is not None and term.type.name == "date" else term


def _year(side: Side, timezone: str) -> Term | None:
    return _monotone("year", _date(side, timezone))


def _unit(side: Side) -> str:
    unit = _text(side).upper()
    return UNIT_ALIASES.get(unit, unit)


def _date_trunc(unit: Side, side: Side, timezone: str) -> Term | None:
    return _monotone("date_trunc", _time(side, timezone), _unit(unit), timezone)


def _trunc(side: Side, unit: Side, timezone: str) -> Term | None:
    return _monotone("trunc", _date(side, timezone), _unit(unit))


def _of_one(name: str, side: Side, timezone: str) -> Term | None:
    return _monotone(name, _term(side))


def _round(name: str, side: Side, timezone: str) -> Term | None:
    """Read floor and ceil; a float or a short integer is cast to a double first."""
    term = _term(side)
    if term is not None and term.type.name in ("float", "byte", "short", "integer"):
        term = cast_term(term, "DOUBLE", timezone)
    return _monotone(name, term)


def _substring(side: Side, start: Side, length: Side, timezone: str) -> Term | None:
    return _left(side, length, timezone) if _whole(start) in (0, 1) else None


def _left(side: Side, length: Side, timezone: str) -> Term | None:
    number = _whole(length)
    return None if number is None else _monotone("substring", _term(side), max(number, 0))


def _date_add(sign: int, side: Side, days: Side, timezone: str) -> Term | None:
    number = _whole(days)
    return None if number is None else _monotone("date_add", _date(side, timezone), sign * number)


def _timestamp_add(unit: Side, number: Side, side: Side, timezone: str) -> Term | None:
    count, size = _whole(number), _ADDED_UNITS.get(_text(unit).upper())
    if count is None or size is None:
        return None
    return _monotone("shift", _time(side, timezone), size[0] * count, size[1] * count, timezone)


def _element_at(value: Side, key: Side, timezone: str) -> Term | None:
    term, text = _term(value), literal_text(key) if isinstance(key, Literal) else None
    return None if term is None or text is None else opaque.element_at(term, text)


def _variant_get(value: Side, path: Side, target: Side, timezone: str) -> Term | None:
    term, text = _term(value), literal_text(path) if isinstance(path, Literal) else None
    return None if term is None or text is None else opaque.variant_get(term, text, _text(target), timezone)


def _remainder(name: str, side: Side, number: Side, timezone: str) -> Term | None:
    """Read `pmod` and `mod` of an integer by a positive number, of the wider type of both."""
    widened, divisor = _widen(_term(side), number), _whole(number)
    return None if widened is None or divisor is None else opaque.remainder(name, widened, divisor)


def _widen(term: Term | None, number: Side) -> Term | None:
    """Cast an integer to the wider of its type and a whole literal's; None for other terms and literals."""
    value = _whole(number)
    if term is None or value is None or not term.type.is_integer or not isinstance(number, Literal):
        return None
    literal_type = number.type or ("integer" if -(2**31) <= value < 2**31 else "long")
    return _cast(term, DataType(max(term.type.name, literal_type, key=INTEGERS.__getitem__)))


def _cast(term: Term, target: DataType) -> Term | None:
    return term if term.type == target else functions.cast(term, target, "UTC")


def _product(left: Side, right: Side, timezone: str) -> Term | None:
    """Multiply an integer with a positive literal."""
    side, literal = (right, left) if isinstance(left, Literal) else (left, right)
    factor = _whole(literal)
    return None if factor is None else _monotone("multiply", _widen(_term(side), literal), factor)


def _sum(sign: int, left: Side, right: Side, timezone: str) -> Term | None:
    """Build `left + right`, or `-` if `sign` is -1, of a term and a literal in either order."""
    if isinstance(right, Literal):
        return None if left is None or isinstance(left, Literal) else _add(left, right, sign, timezone)
    if right is None or not isinstance(left, Literal):
        return None
    if sign < 0:
        negative = None if left.kind in ("micros", "months") else functions.call("negative", right)
        return None if negative is None else _add(negative, left, 1, timezone)
    return _add(right, left, 1, timezone)


def _add(term: Term, literal: Literal, sign: int, timezone: str) -> Term | None:
    """Build a sum; None if the type is uncertain or Spark may round, and for intervals of months."""
    data_type, number = term.type, literal.value
    if isinstance(number, bool) or not isinstance(number, int | float | decimal.Decimal):
        return None
    if literal.kind == "micros":
        return _add_interval(term, sign * int(number), literal.type == "day", timezone)
    if literal.kind not in ("int", "decimal", "double", "float"):
        return None
    if data_type.name == "date":
        return functions.call("date_add", term, sign * int(number)) if literal.kind == "int" else None
    if data_type.is_integer and literal.kind == "int":
        return _monotone("add", _widen(term, literal), sign * int(number))
    if data_type.name in ("float", "double") or literal.kind in ("double", "float"):
        return _add_float(term, literal, sign * float(number))
    if not (data_type.is_integer or data_type.is_decimal):
        return None
    return _add_decimal(term, decimal.Decimal(number) * sign)


def _add_float(term: Term, literal: Literal, amount: float) -> Term | None:
    """Add floats; a float and an integer give a float or a double, depending on ANSI mode, so None."""
    data_type = term.type
    if not math.isfinite(amount) or data_type.is_decimal:
        return None
    if data_type.name != "float" or literal.kind in ("decimal", "double"):
        widened = _cast(term, DataType("double")) if literal.kind != "float" or data_type.name == "double" else None
    else:
        widened = term if literal.kind == "float" else None
    return _monotone("add", widened, repr(amount))


def _add_decimal(term: Term, amount: decimal.Decimal) -> Term | None:
    data_type = term.type
    widened = _cast(term, DataType(f"decimal({WHOLE_DIGITS[data_type.name]},0)")) if data_type.is_integer else term
    result = None if widened is None else sum_type(widened.type, *digits(amount))
    if widened is None or result is None:
        return None
    with decimal.localcontext(decimal.Context(prec=80)):
        unscaled = int(amount.scaleb(result.scale))
    return functions.call("add", widened, unscaled, result.name)


def _add_interval(term: Term, micros: int, has_only_days: bool, timezone: str) -> Term | None:
    """Build a sum with days or a fixed time."""
    if term.type.name == "date":
        return functions.call("date_add", term, micros // _DAY) if has_only_days else None
    days = abs(micros) // _DAY * (1 if micros > 0 else -1)
    return functions.call("shift", term, days, micros - days * _DAY, timezone)


_FUNCTIONS: dict[str, tuple[int, Callable[..., Term | None]]] = {
    "year": (1, _year),
    "to_date": (1, _date),
    "date_trunc": (2, _date_trunc),
    "trunc": (2, _trunc),
    **{name: (1, partial(_of_one, name)) for name in ("unix_seconds", "unix_millis", "unix_micros", "unix_date")},
    **{name: (1, partial(_round, name)) for name in ("floor", "ceil")},
    "substring": (3, _substring),
    "left": (2, _left),
    "date_add": (2, partial(_date_add, 1)),
    "date_sub": (2, partial(_date_add, -1)),
    "timestampadd": (3, _timestamp_add),
    "element_at": (2, _element_at),
    "try_variant_get": (3, _variant_get),
    "pmod": (2, partial(_remainder, "pmod")),
    "mod": (2, partial(_remainder, "mod")),
    "negative": (1, partial(_of_one, "negative")),
    "+": (2, partial(_sum, 1)),
    "-": (2, partial(_sum, -1)),
    "*": (2, _product),
}
"""The number of arguments, and the function of them and the time zone; other names are opaque functions."""
