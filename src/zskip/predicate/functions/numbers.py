"""Monotone functions of numbers: casts that keep the order, sums and products with a literal, opposites, rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from zskip.predicate.functions.base import Arguments, Function, Nan, decreasing, everywhere, increasing, objects
from zskip.predicate.tree import Call
from zskip.records import Bools, Values
from zskip.types import INTEGERS, DataType, Encoded, Form, decode_decimal, encode_decimal, value_range

MOST_DIGITS = 38
_EXACT_DIGITS = 34
_LONG = (-(2**63), 2**63 - 1)
_SUFFIXES = {"byte": "Y", "short": "S", "integer": "", "long": "L"}
"""Of literals in SQL."""


def _is_whole(data_type: DataType) -> bool:
    return data_type.is_integer or data_type.is_decimal


def _encoded(number: int, data_type: DataType) -> Encoded | None:
    """A whole number of units of a type; None beyond it."""
    least, most = value_range(data_type)
    if not least <= number <= most:
        return None
    return encode_decimal(number, data_type) if data_type.is_decimal else number


def _whole(value: Encoded, data_type: DataType) -> int:
    return decode_decimal(value, data_type) if data_type.is_decimal else int(value)


def _each(
    value: Callable[[Call, Encoded], Encoded | None], call: Call, values: Values, least: int, most: int
) -> tuple[Values, Bools] | None:
    """Nothing where all values lie between bounds, so that arrays of int64 can do; else one by one."""
    plain = values.dtype == np.int64 and call.type.form is Form.INT
    if plain and (not len(values) or (least <= int(values.min()) and int(values.max()) <= most)):
        return None
    found = [value(call, v) for v in values.tolist()]
    known = np.array([v is not None for v in found], np.bool_)
    if call.type.form is Form.BYTES:
        return objects([b"" if v is None else v for v in found]), known
    return np.array([0 if v is None else v for v in found], np.int64), known


# Casts.


def cast_result(held: DataType, target: DataType) -> bool:
    """Whether a cast of one number type to another keeps the order and gives every value a result.

    Casts to float are not among them: Spark leaves them out where they stand below a cast to double.
    """
    if held.is_integer and target.is_integer:
        return INTEGERS[held.name] <= INTEGERS[target.name]
    if target.name == "double":
        return held.is_integer or held.name == "float"
    if not target.is_decimal or not _is_whole(held):
        return False
    least, most = value_range(held)
    scale = held.scale if held.is_decimal else 0
    return target.scale >= scale and max(-least, most) * 10 ** (target.scale - scale) <= value_range(target)[1]


def cast_value(call: Call, value: Encoded) -> Encoded | None:
    """What Spark makes of one value; a long as a double is rounded to the nearest, ties to even."""
    held, target = call.term.type, call.type
    if target.is_integer:
        return int(value)
    if target.name == "double":
        return float(value)
    return _encoded(_whole(value, held) * _factor(held, target), target)


def _factor(held: DataType, target: DataType) -> int:
    return int(10 ** (target.scale - (held.scale if held.is_decimal else 0)))


def cast_image(call: Call, values: Values) -> tuple[Values, Bools]:
    """The same of an array."""
    held, target = call.term.type, call.type
    if target.is_integer:
        return values, everywhere(values)
    if target.form is Form.FLOAT:
        return cast("Any", values).astype(np.float64), everywhere(values)
    factor = _factor(held, target)
    found = _each(cast_value, call, values, -(_LONG[1] // factor), _LONG[1] // factor)
    return (cast("Any", values) * factor, everywhere(values)) if found is None else found


# Sums with a literal: its argument is a whole number of units of the result, or the text of a double.


def _add_result(held: DataType, arguments: Arguments) -> DataType | None:
    """Integers and floats stay what they are; decimals get one digit more, as Spark gives them."""
    if held.form is Form.FLOAT:
        most = float(np.finfo(np.float32 if held.name == "float" else np.float64).max)
        return held if abs(float(arguments[0])) <= most else None
    if held.is_integer:
        least, most = value_range(held)
        return held if least <= int(arguments[0]) <= most else None
    return DataType(str(arguments[1])) if held.is_decimal else None


def sum_type(held: DataType, whole: int, scale: int) -> DataType | None:
    """The type of a decimal plus a literal of some digits before and after its point.

    None where Spark might round. The literal's own type may have more digits before the point than it shows; they
    would only make the sum's type longer.
    """
    before = max(held.precision - held.scale, whole) + 1
    places = max(held.scale, scale)
    return DataType(f"decimal({min(before + places, MOST_DIGITS)},{places})") if places <= 6 else None


def _add_value(call: Call, value: Encoded) -> Encoded | None:
    held, amount = call.term.type, call.arguments[0]
    if held.name == "float":
        with np.errstate(over="ignore"):
            return float(np.float32(value) + np.float32(float(amount)))
    if held.name == "double":
        return float(value) + float(amount)
    factor = _factor(held, call.type) if held.is_decimal else 1
    return _encoded(_whole(value, held) * factor + int(amount), call.type)


def _add_image(call: Call, values: Values) -> tuple[Values, Bools]:
    held, amount = call.term.type, call.arguments[0]
    numbers: Any = values
    if held.form is Form.FLOAT:
        with np.errstate(over="ignore", invalid="ignore"):
            if held.name == "float":
                return (numbers.astype(np.float32) + np.float32(float(amount))).astype(np.float64), everywhere(values)
            return numbers + float(amount), everywhere(values)
    factor = _factor(held, call.type) if held.is_decimal else 1
    least, most = value_range(call.type)
    found = _each(_add_value, call, values, -((int(amount) - least) // factor), (most - int(amount)) // factor)
    return (numbers * factor + int(amount), everywhere(values)) if found is None else found


def _add_sql(inner: str, call: Call) -> str:
    amount, held = call.arguments[0], call.term.type
    if held.form is Form.FLOAT:
        return f"({inner} + CAST('{amount}' AS {held.name.upper()}))"
    if held.is_decimal:
        digits = str(abs(int(amount))).rjust(call.type.scale + 1, "0")
        point = len(digits) - call.type.scale
        number = f"{digits[:point]}.{digits[point:]}".rstrip(".")
        return f"({inner} {'-' if int(amount) < 0 else '+'} {number}BD)"
    backwards = value_range(held)[0] < int(amount) < 0
    return f"({inner} {'-' if backwards else '+'} {-int(amount) if backwards else amount}{_SUFFIXES[held.name]})"


# Products of an integer with a positive literal of its type.


def _multiply_result(held: DataType, arguments: Arguments) -> DataType | None:
    return held if held.is_integer and 1 <= int(arguments[0]) <= value_range(held)[1] else None


def _multiply_value(call: Call, value: Encoded) -> Encoded | None:
    return _encoded(int(value) * int(call.arguments[0]), call.type)


def _multiply_image(call: Call, values: Values) -> tuple[Values, Bools]:
    factor, (least, most) = int(call.arguments[0]), value_range(call.type)
    found = _each(_multiply_value, call, values, -(-least // factor), most // factor)
    return (cast("Any", values) * factor, everywhere(values)) if found is None else found


# The opposite.


def _signed(held: DataType, arguments: Arguments) -> DataType | None:
    """The type itself; Spark rounds the opposites of decimals to 34 digits."""
    if held.is_decimal:
        return held if held.precision <= _EXACT_DIGITS else None
    return held if held.is_integer or held.form is Form.FLOAT else None


def _negative_value(call: Call, value: Encoded) -> Encoded | None:
    if call.type.form is Form.FLOAT:
        return -float(value)
    return _encoded(-_whole(value, call.type), call.type)


def _negative_image(call: Call, values: Values) -> tuple[Values, Bools]:
    if call.type.form is Form.FLOAT:
        return -cast("Any", values), everywhere(values)
    least, most = value_range(call.type)
    found = _each(_negative_value, call, values, max(least, -most), most)
    return (-cast("Any", values), everywhere(values)) if found is None else found


# Floor and ceil.


def _rounded_result(held: DataType, arguments: Arguments) -> DataType | None:
    if held.name in ("double", "long"):
        return DataType("long")
    if held.is_decimal:
        return DataType(f"decimal({held.precision - held.scale + 1},0)") if held.scale else held
    return None


def _rounded_value(call: Call, value: Encoded) -> Encoded | None:
    up = call.function == "ceil"
    if call.term.type.name == "double":
        number = float(value)
        if math.isnan(number):
            return 0
        if math.isinf(number):
            return _LONG[number > 0]
        return min(max((math.ceil if up else math.floor)(number), _LONG[0]), _LONG[1])
    if call.term.type.is_integer:
        return int(value)
    unit = int(10**call.term.type.scale)
    number = _whole(value, call.term.type)
    return _encoded(-(-number // unit) if up else number // unit, call.type)


def _rounded_image(call: Call, values: Values) -> tuple[Values, Bools]:
    held, numbers = call.term.type, cast("Any", values)
    if held.is_integer:
        return values, everywhere(values)
    if held.name == "double":
        whole = np.ceil(numbers) if call.function == "ceil" else np.floor(numbers)
        inside = np.clip(whole, -(2.0**63), 2.0**62)
        found = np.where(whole >= 2.0**63, _LONG[1], np.where(whole > 2.0**62, _below(whole), inside.astype(np.int64)))
        return found, everywhere(values)
    each = _each(_rounded_value, call, values, *_LONG)
    unit = int(10**held.scale)
    if each is not None:
        return each
    return (-(-numbers // unit) if call.function == "ceil" else numbers // unit), everywhere(values)


def _below(whole: Any) -> Any:
    """Floats between 2**62 and 2**63 as int64, whatever becomes of the others."""
    return np.where((whole > 2.0**62) & (whole < 2.0**63), whole, 0.0).astype(np.int64)


FUNCTIONS: dict[str, Function] = {
    "add": Function(result=_add_result, value=_add_value, bounds=increasing(_add_image), sql=_add_sql, total=False),
    "multiply": Function(
        result=_multiply_result,
        value=_multiply_value,
        bounds=increasing(_multiply_image),
        sql=lambda inner, call: f"({inner} * {call.arguments[0]}{_SUFFIXES[call.type.name]})",
        total=False,
    ),
    "negative": Function(
        result=_signed,
        value=_negative_value,
        bounds=decreasing(_negative_image),
        sql=lambda inner, call: f"(- {inner})",
        total=False,
    ),
    **{
        name: Function(
            result=_rounded_result,
            value=_rounded_value,
            bounds=increasing(_rounded_image),
            sql=lambda inner, call: f"{call.function}({inner})",
            nan=Nan.VALUE,
        )
        for name in ("floor", "ceil")
    },
}
