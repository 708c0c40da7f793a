"""Monotone functions of numbers: casts that keep the order, sums and products with a literal, negation, rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from zskip.predicate.functions.base import Arguments, Function, Nan, decreasing, everywhere, increasing
from zskip.predicate.literals import MOST_DIGITS
from zskip.predicate.tree import Call
from zskip.records import Bools, Values, objects
from zskip.types import INTEGERS, DataType, Encoded, Form, decode_decimal, encode_decimal, value_range

_EXACT_DIGITS = 34
_LONG = (-(2**63), 2**63 - 1)
_SUFFIXES = {"byte": "Y", "short": "S", "integer": "", "long": "L"}
"""Suffixes of literals in SQL."""


def _is_whole(data_type: DataType) -> bool:
    return data_type.is_integer or data_type.is_decimal


def _encode(number: int, data_type: DataType) -> Encoded | None:
    """Encode a whole number of units of a type; None if it is out of range."""
    least, most = value_range(data_type)
    if not least <= number <= most:
        return None
    return encode_decimal(number, data_type) if data_type.is_decimal else number


def _unscaled(value: Encoded, data_type: DataType) -> int:
    return decode_decimal(value, data_type) if data_type.is_decimal else int(value)


def _compute(
    value: Callable[[Call, Encoded], Encoded | None],
    call: Call,
    values: Values,
    bounds: tuple[int, int],
    compute_all: Callable[[Any], Values],
) -> tuple[Values, Bools]:
    """Compute all values at once where they lie between the bounds, so that int64 arithmetic is safe; else each."""
    is_whole = values.dtype == np.int64 and call.type.form is Form.INT
    if is_whole and (not len(values) or (bounds[0] <= int(values.min()) and int(values.max()) <= bounds[1])):
        return compute_all(values), everywhere(values)
    results = [value(call, v) for v in values.tolist()]
    known = np.array([v is not None for v in results], np.bool_)
    if call.type.form is Form.BYTES:
        return objects([b"" if v is None else v for v in results]), known
    return np.array([0 if v is None else v for v in results], np.int64), known


# Casts.


def cast_result(source: DataType, target: DataType) -> bool:
    """Whether a cast of one number type to another keeps the order and gives every value a result.

    Casts to float are excluded: Spark drops them below a cast to double.
    """
    if source.is_integer and target.is_integer:
        return INTEGERS[source.name] <= INTEGERS[target.name]
    if target.name == "double":
        return source.is_integer or source.name == "float"
    if not target.is_decimal or not _is_whole(source):
        return False
    least, most = value_range(source)
    scale = source.scale if source.is_decimal else 0
    return target.scale >= scale and max(-least, most) * 10 ** (target.scale - scale) <= value_range(target)[1]


def _cast_value(call: Call, value: Encoded) -> Encoded | None:
    source, target = call.term.type, call.type
    return _encode(_unscaled(value, source) * _factor(source, target), target)


def _factor(source: DataType, target: DataType) -> int:
    return int(10 ** (target.scale - (source.scale if source.is_decimal else 0)))


def cast_image(call: Call, values: Values) -> tuple[Values, Bools]:
    """Compute Spark's results; a long becomes the nearest double, ties to even."""
    source, target = call.term.type, call.type
    if target.is_integer:
        return values, everywhere(values)
    if target.form is Form.FLOAT:
        return cast("Any", values).astype(np.float64), everywhere(values)
    factor = _factor(source, target)
    return _compute(_cast_value, call, values, (-(_LONG[1] // factor), _LONG[1] // factor), lambda v: v * factor)


# Sums with a literal: the argument is a whole number of units of the result, or the text of a double.


def _add_result(data_type: DataType, arguments: Arguments) -> DataType | None:
    """Integers and floats keep their type; decimals gain one digit, as in Spark."""
    if data_type.form is Form.FLOAT:
        most = float(np.finfo(np.float32 if data_type.name == "float" else np.float64).max)
        return data_type if abs(float(arguments[0])) <= most else None
    if data_type.is_integer:
        least, most = value_range(data_type)
        return data_type if least <= int(arguments[0]) <= most else None
    return DataType(str(arguments[1])) if data_type.is_decimal else None


def sum_type(data_type: DataType, whole: int, scale: int) -> DataType | None:
    """Return the type of a decimal plus a literal with some digits before and after the point.

    None if Spark might round. The literal's own type may have more digits before the point than are written; they
    would only widen the type of the sum.
    """
    before = max(data_type.precision - data_type.scale, whole) + 1
    places = max(data_type.scale, scale)
    return DataType(f"decimal({min(before + places, MOST_DIGITS)},{places})") if places <= 6 else None


def _add_value(call: Call, value: Encoded) -> Encoded | None:
    data_type = call.term.type
    factor = _factor(data_type, call.type) if data_type.is_decimal else 1
    return _encode(_unscaled(value, data_type) * factor + int(call.arguments[0]), call.type)


def _add_image(call: Call, values: Values) -> tuple[Values, Bools]:
    data_type, amount = call.term.type, call.arguments[0]
    numbers: Any = values
    if data_type.form is Form.FLOAT:
        with np.errstate(over="ignore", invalid="ignore"):
            if data_type.name == "float":
                return (numbers.astype(np.float32) + np.float32(float(amount))).astype(np.float64), everywhere(values)
            return numbers + float(amount), everywhere(values)
    factor = _factor(data_type, call.type) if data_type.is_decimal else 1
    least, most = value_range(call.type)
    bounds = -((int(amount) - least) // factor), (most - int(amount)) // factor
    return _compute(_add_value, call, values, bounds, lambda v: v * factor + int(amount))


def _add_sql(inner: str, call: Call) -> str:
    amount, data_type = call.arguments[0], call.term.type
    if data_type.form is Form.FLOAT:
        return f"({inner} + CAST('{amount}' AS {data_type.name.upper()}))"
    if data_type.is_decimal:
        digits = str(abs(int(amount))).rjust(call.type.scale + 1, "0")
        point = len(digits) - call.type.scale
        number = f"{digits[:point]}.{digits[point:]}".rstrip(".")
        return f"({inner} {'-' if int(amount) < 0 else '+'} {number}BD)"
    backwards = value_range(data_type)[0] < int(amount) < 0
    return f"({inner} {'-' if backwards else '+'} {-int(amount) if backwards else amount}{_SUFFIXES[data_type.name]})"


# Products of an integer with a positive literal of its type.


def _multiply_result(data_type: DataType, arguments: Arguments) -> DataType | None:
    return data_type if data_type.is_integer and 1 <= int(arguments[0]) <= value_range(data_type)[1] else None


def _multiply_value(call: Call, value: Encoded) -> Encoded | None:
    return _encode(int(value) * int(call.arguments[0]), call.type)


def _multiply_image(call: Call, values: Values) -> tuple[Values, Bools]:
    factor, (least, most) = int(call.arguments[0]), value_range(call.type)
    return _compute(_multiply_value, call, values, (-(-least // factor), most // factor), lambda v: v * factor)


# Negation.


def _negative_result(data_type: DataType, arguments: Arguments) -> DataType | None:
    """Return the type itself; Spark rounds negated decimals to 34 digits."""
    if data_type.is_decimal:
        return data_type if data_type.precision <= _EXACT_DIGITS else None
    return data_type if data_type.is_integer or data_type.form is Form.FLOAT else None


def _negative_value(call: Call, value: Encoded) -> Encoded | None:
    return _encode(-_unscaled(value, call.type), call.type)


def _negative_image(call: Call, values: Values) -> tuple[Values, Bools]:
    if call.type.form is Form.FLOAT:
        return -cast("Any", values), everywhere(values)
    least, most = value_range(call.type)
    return _compute(_negative_value, call, values, (max(least, -most), most), lambda v: -v)


# Floor and ceil.


def _rounded_result(data_type: DataType, arguments: Arguments) -> DataType | None:
    if data_type.name in ("double", "long"):
        return DataType("long")
    if data_type.is_decimal:
        return DataType(f"decimal({data_type.precision - data_type.scale + 1},0)") if data_type.scale else data_type
    return None


def _rounded_value(call: Call, value: Encoded) -> Encoded | None:
    up = call.function == "ceil"
    unit = int(10**call.term.type.scale)
    number = _unscaled(value, call.term.type)
    return _encode(-(-number // unit) if up else number // unit, call.type)


def _rounded_image(call: Call, values: Values) -> tuple[Values, Bools]:
    data_type, numbers = call.term.type, cast("Any", values)
    if data_type.is_integer:
        return values, everywhere(values)
    if data_type.name == "double":
        whole = np.ceil(numbers) if call.function == "ceil" else np.floor(numbers)
        inside = np.clip(whole, -(2.0**63), 2.0**62)
        longs = np.where(
            whole >= 2.0**63, _LONG[1], np.where(whole > 2.0**62, _to_long(whole), inside.astype(np.int64))
        )
        return longs, everywhere(values)
    unit = int(10**data_type.scale)
    compute_all = (lambda v: -(-v // unit)) if call.function == "ceil" else (lambda v: v // unit)
    return _compute(_rounded_value, call, values, _LONG, compute_all)


def _to_long(whole: Any) -> Any:
    """Convert floats between 2**62 and 2**63 to int64; the others become 0."""
    return np.where((whole > 2.0**62) & (whole < 2.0**63), whole, 0.0).astype(np.int64)


FUNCTIONS: dict[str, Function] = {
    "add": Function(result=_add_result, bounds=increasing(_add_image), sql=_add_sql, total=False),
    "multiply": Function(
        result=_multiply_result,
        bounds=increasing(_multiply_image),
        sql=lambda inner, call: f"({inner} * {call.arguments[0]}{_SUFFIXES[call.type.name]})",
        total=False,
    ),
    "negative": Function(
        result=_negative_result,
        bounds=decreasing(_negative_image),
        sql=lambda inner, call: f"(- {inner})",
        total=False,
    ),
    **{
        name: Function(
            result=_rounded_result,
            bounds=increasing(_rounded_image),
            sql=lambda inner, call: f"{call.function}({inner})",
            nan=Nan.VALUE,
        )
        for name in ("floor", "ceil")
    },
}
