"""Expressions of the protocol as texts of SQL, which the reader of texts turns into predicates.

What has no text that means the same in every session becomes a call that nobody knows, so its part stays unknown.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from zskip.predicate.columns import name_parts
from zskip.predicate.opaque import evaluator

Message = Any
"""A message of the protocol, whose classes differ between versions of PySpark."""
UNKNOWN = "unknown_()"
_OPERATORS = {"==": "=", **{name: name for name in ("<", "<=", ">", ">=", "<=>", "+", "-", "*", "%")}}
KEYWORDS = {"and", "or", "not", "in", "cast", "try_cast", "unknown_", "interval", "decimal"}
_OF_QUERIES = {"from", "join", "on", "where", "select", "as", "over", "exists", "using", "by", "having", "values"}
CALLED = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_FUNCTION = re.compile(r"[A-Za-z_]\w*")
_TYPES = {
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INT",
    "long": "BIGINT",
    **{name: name.upper() for name in ("boolean", "float", "double", "binary", "date", "timestamp", "timestamp_ntz")},
}
_SUFFIXES = {"byte": "Y", "short": "S", "integer": "", "long": "L"}
_EPOCH = dt.datetime(1970, 1, 1)
_PLAN = "\x01"


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """How a session reads texts and functions."""

    double_quoted_identifiers: bool
    escaped_string_literals: bool
    is_replaced: Callable[[str], bool]
    """Whether the session has a function of its own under the name of one of Spark's."""

    def reads(self, text: str) -> bool:
        """Whether the session reads the literals and names of a text as zskip does."""
        is_quoted = '"' in text and self.double_quoted_identifiers
        return not (is_quoted or ("\\" in text and self.escaped_string_literals) or _PLAN in text or "${" in text)

    def replaces(self, text: str) -> bool:
        """Whether a function that a text calls may be the session's own."""
        return any(map(self.is_replaced, _functions(text)))


def condition_texts(condition: Message, dialect: Dialect) -> list[str]:
    """The conjuncts of a condition as texts of SQL.

    Columns of a DataFrame (`df.x`) have its number as their first part: see `plan_of`.
    """
    texts = [_sql(part, dialect) for part in _operands(condition, "and")]
    return [text for text in texts if not dialect.replaces(text)]


def literal_text(node: Message, dialect: Dialect) -> str:
    """An expression as a text of SQL."""
    return _sql(node, dialect)


def plan_of(parts: list[str]) -> tuple[int | None, list[str]]:
    """The number of the DataFrame whose column a name is, None where it is not said, and the rest of the name.

    >>> plan_of(["\\x015", "x"]), plan_of(["t", "x"])
    ((5, ['x']), (None, ['t', 'x']))
    """
    return (int(parts[0][1:]), parts[1:]) if parts[0].startswith(_PLAN) else (None, parts)


def attribute_parts(attribute: Message) -> list[str]:
    """The parts of an attribute's name, after the number of its DataFrame if it has one."""
    prefix = [f"{_PLAN}{attribute.plan_id}"] if attribute.HasField("plan_id") else []
    return [*prefix, *name_parts(attribute.unparsed_identifier)]


def nested(message: Message) -> Iterator[Message]:
    """The messages right inside a message."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if not isinstance(value, Mapping):
            yield from [value] if hasattr(value, "ListFields") else value
        elif field.message_type.fields_by_name["value"].message_type is not None:
            yield from value.values()


def _functions(text: str) -> set[str]:
    names = {name.lower() for name in CALLED.findall(text)} - KEYWORDS - _OF_QUERIES
    return {name for name in names if evaluator(name) is None}


def _operands(node: Message, name: str) -> list[Message]:
    """The operands of a chain of `and` or `or`."""
    call = node.unresolved_function
    if call.function_name.lower() != name or len(call.arguments) != 2:
        return [node]
    return [operand for argument in call.arguments for operand in _operands(argument, name)]


def _sql(node: Message, dialect: Dialect) -> str:
    kind = node.WhichOneof("expr_type")
    reader = _READERS.get(kind)
    return UNKNOWN if reader is None else reader(getattr(node, kind), dialect)


def _attribute(node: Message, _: Dialect) -> str:
    if getattr(node, "is_metadata_column", False):
        return UNKNOWN
    return ".".join("`" + part.replace("`", "``") + "`" for part in attribute_parts(node))


def _text(node: Message, dialect: Dialect) -> str:
    return f"({node.expression}\n)" if dialect.reads(node.expression) else UNKNOWN  # A comment ends with its line.


def _call(node: Message, dialect: Dialect) -> str:
    name, arguments = node.function_name.lower(), node.arguments
    if getattr(node, "is_distinct", False) or getattr(node, "is_user_defined_function", False):
        return UNKNOWN
    if name in ("and", "or") and len(arguments) == 2:
        operands = [operand for argument in arguments for operand in _operands(argument, name)]
        return "(" + f" {name} ".join(_sql(operand, dialect) for operand in operands) + ")"
    sides = [_sql(argument, dialect) for argument in arguments]
    if name in _OPERATORS and len(sides) == 2:
        return f"({sides[0]} {_OPERATORS[name]} {sides[1]})"
    if name in ("not", "!") and len(sides) == 1:
        return f"(not {sides[0]})"
    if name == "negative" and len(sides) == 1:
        return f"(- {sides[0]})"
    if name == "in" and len(sides) > 1:
        return f"({sides[0]} in ({', '.join(sides[1:])}))"
    return f"{name}({', '.join(sides)})" if _FUNCTION.fullmatch(name) and name not in _UNREADABLE else UNKNOWN


_UNREADABLE = {*KEYWORDS, "when", "between", "case"}
"""Functions of the protocol that are syntax in SQL."""


def _cast(node: Message, dialect: Dialect) -> str:
    kind = node.type.WhichOneof("kind") if node.WhichOneof("cast_to_type") == "type" else None
    target = node.type_str if kind is None else _TYPES.get(kind)
    if kind == "decimal":
        target = f"DECIMAL({node.type.decimal.precision}, {node.type.decimal.scale})"
    if kind == "string" and getattr(node.type.string, "collation", "") in ("", "UTF8_BINARY"):
        target = "STRING"
    if not target:
        return UNKNOWN
    is_try = getattr(node, "eval_mode", 0) == 3
    return f"{'TRY_CAST' if is_try else 'CAST'}({_sql(node.expr, dialect)} AS {target})"


def _extract(node: Message, dialect: Dialect) -> str:
    return f"{_sql(node.child, dialect)}[{_sql(node.extraction, dialect)}]"


def _lambda(node: Message, dialect: Dialect) -> str:
    names = [".".join(argument.name_parts) for argument in node.arguments]
    return f"{names[0]} -> {_sql(node.function, dialect)}" if len(names) == 1 else UNKNOWN


def _literal(node: Message, _: Dialect) -> str:
    kind = node.WhichOneof("literal_type")
    value = getattr(node, kind)
    try:
        return _LITERALS[kind](value) if kind in _LITERALS else f"{value}{_SUFFIXES[kind]}"
    except (KeyError, OverflowError, ArithmeticError):
        return UNKNOWN


def _number(kind: str, value: float) -> str:
    text = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))
    return f"CAST('{text}' AS {kind})"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _time(kind: str, micros: int, zone: str = "") -> str:
    return f"{kind} '{(_EPOCH + dt.timedelta(microseconds=micros)).isoformat(' ', 'microseconds')}{zone}'"


def _clock(time: Message) -> str:
    clock = (_EPOCH + dt.timedelta(microseconds=time.nano // 1000)).time()
    return UNKNOWN if time.nano % 1000 else f"TIME '{clock.isoformat('microseconds')}'"


def _interval(micros: int) -> str:
    span = dt.timedelta(microseconds=abs(micros))
    clock = (_EPOCH + dt.timedelta(seconds=span.seconds, microseconds=span.microseconds)).time()
    text = f"{'-' if micros < 0 else ''}{span.days} {clock.isoformat('microseconds')}"
    return f"INTERVAL '{text}' DAY TO SECOND"


_LITERALS: dict[str, Callable[[Any], str]] = {
    "null": lambda _: "NULL",
    "boolean": lambda value: str(value).lower(),
    "float": lambda value: _number("FLOAT", value),
    "double": lambda value: _number("DOUBLE", value),
    "decimal": lambda value: f"{decimal.Decimal(value.value):f}BD",
    "string": _quoted,
    "binary": lambda value: f"X'{value.hex()}'",
    "date": lambda days: f"DATE '{(_EPOCH + dt.timedelta(days=days)).date()}'",
    "timestamp": lambda micros: _time("TIMESTAMP", micros, "+00:00"),
    "timestamp_ntz": lambda micros: _time("TIMESTAMP_NTZ", micros),
    "time": _clock,
    "day_time_interval": _interval,
}
_READERS: dict[str, Callable[[Message, Dialect], str]] = {
    "unresolved_attribute": _attribute,
    "expression_string": _text,
    "unresolved_function": _call,
    "call_function": _call,
    "cast": _cast,
    "literal": _literal,
    "alias": lambda node, dialect: _sql(node.expr, dialect),
    "unresolved_extract_value": _extract,
    "lambda_function": _lambda,
    "unresolved_named_lambda_variable": lambda node, _: ".".join(node.name_parts),
}
