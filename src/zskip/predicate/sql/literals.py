"""Literals of SQL text, with the types that Spark gives them."""

from __future__ import annotations

import decimal
import math
import re
from typing import Any, cast

import numpy as np
from sqlglot import exp

from zskip.predicate.literals import (
    MOST_DIGITS,
    Literal,
    date_days,
    day_of,
    time_nanos,
    timestamp_micros,
)
from zskip.predicate.sql.intervals import read_interval
from zskip.predicate.type_names import INTEGER_TYPES, named_type
from zskip.types import INTEGERS, DataType

Node = Any
"""A node of sqlglot's tree, whose types differ between its versions."""
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,6})?", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_SPECIAL = {f"{sign}{name}" for sign in ("", "+", "-") for name in ("inf", "infinity")} | {"nan"}
UNCERTAIN = "\ud800"
"""The start of a string whose value in Spark is uncertain: half of a character, with which no text begins."""
_PLAIN_TYPES: dict[Any, str] = {}
"""A cache of the SQL names of types without parameters, which sqlglot is slow to write."""


def read_literal(node: Node, timezone: str) -> Literal | None:
    """Read a literal, with its casts; None if the node is none, or Spark's value is uncertain."""
    node = node.unnest()
    if isinstance(node, exp.Null):
        return Literal("null", None)
    if isinstance(node, exp.Boolean):
        return Literal("boolean", bool(node.this))
    if isinstance(node, exp.HexString):
        return Literal("binary", bytes.fromhex(node.this if len(node.this) % 2 == 0 else f"0{node.this}"))
    if isinstance(node, exp.Literal):
        if node.is_string:
            return None if node.this.startswith(UNCERTAIN) else Literal("string", node.this)
        return _number(node.this)
    if isinstance(node, exp.Neg):
        return _negative(node.this.unnest(), timezone)
    if isinstance(node, exp.Interval):
        return read_interval(node)
    if isinstance(node, exp.Cast):
        inner = read_literal(node.this, timezone)
        return None if inner is None else cast_literal(inner, type_name(node.to), timezone)
    return None


def text_of(node: Node) -> str:
    """The start of a node's text, for people."""
    return spark_sql(node)[:500].replace(UNCERTAIN, "")


def spark_sql(node: Node) -> str:
    """The text of a node in Spark's SQL.

    >>> import sqlglot
    >>> spark_sql(sqlglot.parse_one("CAST(a AS TIME(3)) > TIME '10:00:00'", dialect="spark"))
    "CAST(a AS TIME(3)) > CAST('10:00:00' AS TIME(6))"
    """
    if any(part.this == exp.DataType.Type.TIME for part in node.find_all(exp.DataType)):
        # Of which sqlglot's Spark makes TIMESTAMP.
        node = node.copy()
        for part in list(node.find_all(exp.DataType)):
            if part.this == exp.DataType.Type.TIME:
                part.replace(exp.DataType(this=exp.DataType.Type.USERDEFINED, kind=type_name(part)))
    return str(node.sql(dialect="spark", copy=False, comments=False))


def type_name(node: Node) -> str:
    """A type as SQL names it, such as `BIGINT` or `DECIMAL(9, 2)`."""
    if node.this == exp.DataType.Type.DECIMAL and node.expressions:
        digits = [str(part.name) for part in node.expressions]
        return f"DECIMAL({digits[0]}, {digits[1] if len(digits) > 1 else '0'})"
    if node.this == exp.DataType.Type.TIME:
        # As Spark names it; sqlglot's Spark knows none and writes TIMESTAMP.
        digits = [str(part.name) for part in node.expressions]
        return f"TIME({digits[0] if digits else 6})"
    if any(value for key, value in node.args.items() if key != "this"):
        return str(node.sql(dialect="spark")).upper()
    if node.this not in _PLAIN_TYPES:
        _PLAIN_TYPES[node.this] = str(node.sql(dialect="spark")).upper()
    return _PLAIN_TYPES[node.this]


def cast_literal(literal: Literal, target: str, timezone: str) -> Literal | None:
    """Read a literal written as a cast: `DATE '...'`, `3L`, `12.50BD`, `CAST('NaN' AS DOUBLE)`."""
    if literal.kind == "null":
        return Literal("null", target)
    value = literal.value
    if target == "DATE" and literal.kind == "string":
        day = day_of(str(value))
        return None if date_days(day) is None else Literal("date", day)
    if target in ("TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ") and literal.kind == "string":
        plain = target == "TIMESTAMP_NTZ"
        micros = timestamp_micros(str(value), None if plain else timezone)
        return None if micros is None else Literal("timestamp_ntz" if plain else "timestamp", micros)
    if literal.kind == "string" and (clock := DataType(target.lower())).is_time:
        nanos = time_nanos(str(value))
        # Spark cuts further digits.
        return None if nanos is None or nanos % (clock.time_unit * 1000) else Literal("time", nanos)
    if target in INTEGER_TYPES and literal.kind == "string" and _WHOLE.fullmatch(str(value)):
        literal = Literal("int", value := int(str(value)))
    if target in INTEGER_TYPES and literal.kind == "int":
        bits = INTEGERS[INTEGER_TYPES[target]]
        fits = -(2 ** (bits - 1)) <= cast(int, value) < 2 ** (bits - 1)
        return Literal("int", value, INTEGER_TYPES[target]) if fits else None
    if target in ("DOUBLE", "FLOAT") and literal.kind in ("int", "decimal", "double", "string"):
        return _as_float(value, target)
    if target.startswith("DECIMAL(") and literal.kind in ("string", "decimal", "int"):
        return _as_decimal(str(value), named_type(target))
    return None


def _negative(node: Node, timezone: str) -> Literal | None:
    """Read a number after a minus sign, which belongs to the number: `-128Y` is a byte, but 128 is not."""
    if isinstance(node, exp.Neg):
        return None  # The least integer has no negative.
    if isinstance(node, exp.Cast) and type_name(node.to) in INTEGER_TYPES:
        inner = _negate(read_literal(node.this, timezone))
        return None if inner is None else cast_literal(inner, type_name(node.to), timezone)
    return _negate(read_literal(node, timezone))


def _number(text: str) -> Literal | None:
    """Type a number as Spark does: digits are integers, a point makes a decimal, an exponent a double."""
    if not _NUMBER.fullmatch(text):
        return None
    if "e" not in text.lower() and len(text.replace(".", "").lstrip("0")) > MOST_DIGITS:
        return None
    if text.isdigit():
        return Literal("int", int(text))
    if "e" in text.lower():
        return Literal("double", float(text))
    return Literal("decimal", decimal.Decimal(text))


def _negate(literal: Literal | None) -> Literal | None:
    if literal is None or literal.kind not in ("int", "decimal", "double", "float"):
        return None
    if isinstance(literal.value, decimal.Decimal):
        return Literal(literal.kind, literal.value.copy_negate())
    return Literal(literal.kind, -cast(Any, literal.value))


def _as_float(value: object, target: str) -> Literal | None:
    text = str(value)
    if not _NUMBER.fullmatch(text) and text.lower() not in _SPECIAL:
        return None
    number = float(text)
    if target == "DOUBLE":
        return Literal("double", number)
    with np.errstate(over="ignore"):
        single = float(np.float32(number))
    if math.isfinite(number) and _between_singles(number):
        return None
    return Literal("float", single)


def _between_singles(number: float) -> bool:
    """Whether a double is exactly halfway between two singles, so that it may have been rounded twice."""
    mantissa, exponent = math.frexp(number)
    bits = 24 if exponent >= -125 else max(149 + exponent, 0)
    scaled = math.ldexp(abs(mantissa), bits)
    return scaled - math.floor(scaled) == 0.5


def _as_decimal(text: str, target: DataType) -> Literal | None:
    if not _NUMBER.fullmatch(text):
        return None
    number = decimal.Decimal(text)
    exponent = number.as_tuple().exponent
    if (
        not isinstance(exponent, int)
        or -exponent > target.scale
        or number.adjusted() >= target.precision - target.scale
    ):
        return None
    return Literal("decimal", number)
