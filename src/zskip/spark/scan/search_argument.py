"""Hive's `SearchArgument`, by which Hive and Spark hand a filter to ORC and others, to predicates.

Its leaves are read as Spark compares values. What is not said beyond doubt is Unknown, leaf by leaf: a column or a type
that is not known, a literal that does not fit, and what Hive and Spark may read in two ways, such as NaN, text padded
with blanks, and days and times before 1900, of which calendars and clocks of Java have two ideas.
"""

from __future__ import annotations

import decimal
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaObject as Py4jObject
from py4j.protocol import Py4JError

from zskip.errors import ColumnError, InputError
from zskip.predicate import (
    And,
    Column,
    Columns,
    Compare,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    Unknown,
    conjunction,
)
from zskip.predicate.columns import name_parts
from zskip.predicate.literals import Literal, compare, date_days, is_single
from zskip.spark.jvm.gateway import JavaObject, Jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEEPEST = 100
"""Nodes inside each other; whatever reads predicates is recursive."""
_LONGEST = 300
"""Characters of the text that stands for what is not understood."""
_CONSTANTS = {"YES": True, "NO": False, "NULL": None}
_OPERATORS = {"EQUALS": "=", "NULL_SAFE_EQUALS": "=", "LESS_THAN": "<", "LESS_THAN_EQUALS": "<="}
_NAME = re.compile(r"(?:`(?:[^`]|``)+`|[^.`]+)(?:\.(?:`(?:[^`]|``)+`|[^.`]+))*")
_EXACT_DOUBLE = 2**53
_EXACT_FLOAT = 2**24
_MILLIS_PER_DAY = 86_400_000
_FIRST_DAY = -25_567
"""1900-01-01, since when Spark's calendar and clock are those of Java's older classes."""
_ZONES = 2 * _MILLIS_PER_DAY
"""More than a time of day of any time zone is away from midnight of UTC."""
_FRACTION = re.compile(r"\.(\d{1,9})$", re.ASCII)


def from_search_argument(spark: SparkSession, argument: JavaObject, columns: Columns) -> Predicate:
    """Bind a Hive `SearchArgument`, an object in the JVM of a session, to the columns of a table.

    Raises InputError for anything that is no object of the JVM.
    """
    if not isinstance(argument, Py4jObject):
        raise InputError(f"{argument!r} is not a SearchArgument of the JVM")
    from pyspark.errors import PySparkException

    try:
        tree, texts = _fetch(Jvm.of(spark), argument)
        return _Reader(columns).read(tree, texts, 0)
    except (Py4JError, PySparkException, ValueError, LookupError, TypeError, RecursionError):
        return Unknown("a search argument", "it cannot be read")


def _fetch(jvm: Jvm, argument: JavaObject) -> tuple[Any, Any]:
    """The expression with days and times as milliseconds since 1970, and once more with them as text."""
    expression = argument.getCompactExpression()
    tree = _parsed(jvm.once("search arguments", lambda: _mapper(jvm)), expression)
    return tree, _parsed(jvm.once("search arguments as text", lambda: _mapper(jvm, "Date", "Timestamp")), expression)


def _parsed(mapper: JavaObject, expression: JavaObject) -> Any:
    return json.loads(mapper.writeValueAsString(expression))


def _mapper(jvm: Jvm, *texts: str) -> JavaObject:
    """One that writes the fields of an object, which tell more than its methods do.

    The getters leave out literals that are only known while a query runs, and number leaves that may have no number.
    texts: classes of java.sql whose values are written as text.
    """
    jackson = "com.fasterxml.jackson"
    as_text = jvm.find(f"{jackson}.databind.ser.std.ToStringSerializer").instance
    module = jvm.find(f"{jackson}.databind.module.SimpleModule")()
    for name in ("org.apache.hadoop.hive.serde2.io.HiveDecimalWritable", *(f"java.sql.{text}" for text in texts)):
        module.addSerializer(jvm.class_of(name), as_text)
    mapper = jvm.find(f"{jackson}.databind.ObjectMapper")()
    mapper.registerModule(module)
    accessors, visibility = (
        jvm.find(f"{jackson}.annotation.PropertyAccessor"),
        jvm.find(f"{jackson}.annotation.JsonAutoDetect$Visibility"),
    )
    mapper.setVisibility(accessors.ALL, visibility.NONE)
    mapper.setVisibility(accessors.FIELD, visibility.ANY)
    mapper.getFactory().configure(jvm.find(f"{jackson}.core.JsonGenerator$Feature").ESCAPE_NON_ASCII, True)
    return mapper


class _Doubt(Exception):
    """A leaf is not understood; its message says why."""


@dataclass(frozen=True, slots=True)
class _Value:
    """A literal as JSON has it, and as text where it is a day or a time."""

    json: Any
    text: Any


class _Reader:
    """Makes predicates of the nodes of an expression."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def read(self, node: Any, texts: Any, depth: int) -> Predicate:
        kind = node["operator"] if isinstance(node, dict) else None
        children = (node.get("children") or []) if isinstance(node, dict) else []
        if kind == "LEAF":
            return self._leaf(node["leaf"], texts["leaf"])
        if kind == "CONSTANT" and node["constant"] in _CONSTANTS:
            return Constant(_CONSTANTS[node["constant"]])
        if kind not in ("AND", "OR", "NOT") or not children or depth >= _DEEPEST or (kind == "NOT" and children[1:]):
            return Unknown(str(node.get("constant") or kind) if isinstance(node, dict) else "null")
        parts = [self.read(*both, depth + 1) for both in zip(children, texts["children"], strict=True)]
        if kind == "NOT":
            return Not(parts[0])
        return conjunction(tuple(parts)) if kind == "AND" else Or(tuple(parts))

    def _leaf(self, leaf: Any, texts: Any) -> Predicate:
        literals = [] if leaf["literal"] is None else [_Value(leaf["literal"], texts["literal"])]
        if leaf["literalList"] is not None:
            literals += [_Value(*both) for both in zip(leaf["literalList"], texts["literalList"], strict=True)]
        try:
            column = self._column(leaf["columnName"])
            return _leaf_predicate(leaf["operator"], column, leaf["type"], literals)
        except _Doubt as error:
            values = " ".join(str(literal.text) for literal in literals[:9])
            return Unknown(f"{leaf['operator']} {leaf['columnName']} {values}"[:_LONGEST].rstrip(), str(error))

    def _column(self, name: Any) -> Column:
        """The column of a name, or the field of a struct: Spark quotes where there are points in it, Hive does not."""
        if not isinstance(name, str):
            raise _Doubt("no column")
        candidates = [self._find((name,))]
        if _NAME.fullmatch(name):
            candidates.append(self._find(name_parts(name)))
        known = {column for column in candidates if column is not None}
        if len(known) != 1:
            raise _Doubt("several columns of this name" if known else "no such column")
        return known.pop()

    def _find(self, parts: tuple[str, ...]) -> Column | None:
        try:
            self._columns.resolve(parts[:1])
            return self._columns.find(parts)
        except ColumnError:
            return None


def _leaf_predicate(operator: str, column: Column, kind: str, literals: list[_Value]) -> Predicate:
    """The predicate of one leaf. Raises _Doubt."""
    if operator == "IS_NULL":
        return IsNull(column)
    if operator == "IN" and literals:
        return _in_list(column, kind, literals)
    if operator == "BETWEEN" and len(literals) == 2:
        return And((_comparison(">=", column, kind, literals[0]), _comparison("<=", column, kind, literals[1])))
    if operator in _OPERATORS and len(literals) == 1:
        comparison = _comparison(_OPERATORS[operator], column, kind, literals[0])
        return And((Not(IsNull(column)), comparison)) if operator == "NULL_SAFE_EQUALS" else comparison
    raise _Doubt("not supported")


def _in_list(column: Column, kind: str, literals: list[_Value]) -> Predicate:
    equal = [_comparison("=", column, kind, literal) for literal in literals if literal.json is not None]
    values = {part.value for part in equal if isinstance(part, Compare)}
    predicate = In(column, tuple(sorted(values)))
    return predicate if len(equal) == len(literals) else Or((predicate, Constant(None)))


def _comparison(op: str, column: Column, kind: str, literal: _Value) -> Predicate:
    read = _LITERALS.get(kind)
    value = None if read is None else read(column, literal)
    comparison = None if value is None else compare(op, column, value, "UTC")
    if comparison is None:
        raise _Doubt(f"a {kind} that is not surely a value of {column.type}")
    return comparison


def _long(column: Column, literal: _Value) -> Literal | None:
    value, name = literal.json, column.type.name
    exact = {"float": _EXACT_FLOAT, "double": _EXACT_DOUBLE}.get(name, 2**63)
    numeric = column.type.is_integer or column.type.is_decimal or name in ("float", "double")
    return Literal("int", value) if type(value) is int and abs(value) <= exact and numeric else None


def _double(column: Column, literal: _Value) -> Literal | None:
    """Hive makes a double of a float by way of its text, so that only what both have is the same for both."""
    value = float(literal.json) if literal.json in ("Infinity", "-Infinity") else literal.json
    if type(value) is not float or math.isnan(value) or (column.type.name == "float" and not is_single(value)):
        return None
    return Literal("double", value) if column.type.is_integer or column.type.name in ("float", "double") else None


def _decimal(column: Column, literal: _Value) -> Literal | None:
    if not isinstance(literal.json, str) or not (column.type.is_integer or column.type.is_decimal):
        return None
    try:
        value = decimal.Decimal(literal.json)
    except decimal.InvalidOperation:
        return None
    return Literal("decimal", value) if value.is_finite() else None


def _string(column: Column, literal: _Value) -> Literal | None:
    if column.type.name != "string" or not isinstance(literal.json, str):
        return None
    return None if any("\ud800" <= c <= "\udfff" for c in literal.json) else Literal("string", literal.json)


def _boolean(column: Column, literal: _Value) -> Literal | None:
    return Literal("boolean", literal.json) if type(literal.json) is bool else None


def _date(column: Column, literal: _Value) -> Literal | None:
    """The day as the JVM shows it, with the last four digits of its year, unless it is far from what it stands for."""
    days = date_days(literal.text)
    if column.type.name != "date" or type(literal.json) is not int or days is None:
        return None
    near = days >= _FIRST_DAY and abs(days * _MILLIS_PER_DAY - literal.json) < _ZONES
    return Literal("date", literal.text) if near else None


def _timestamp(column: Column, literal: _Value) -> Literal | None:
    """The moment: milliseconds, and the rest of the second from the text."""
    if column.type.name != "timestamp" or type(literal.json) is not int:
        return None
    fraction = _FRACTION.search(str(literal.text))
    nanos = int(fraction[1].ljust(9, "0")) if fraction else -1
    seconds, millis = divmod(literal.json, 1000)
    if nanos // 1_000_000 != millis or nanos % 1000:
        return None
    micros = seconds * 1_000_000 + nanos // 1000
    return Literal("timestamp", micros) if _FIRST_DAY * _MILLIS_PER_DAY * 1000 <= micros < 2**63 else None


_LITERALS: dict[str, Callable[[Column, _Value], Literal | None]] = {
    "LONG": _long,
    "FLOAT": _double,
    "STRING": _string,
    "DATE": _date,
    "DECIMAL": _decimal,
    "TIMESTAMP": _timestamp,
    "BOOLEAN": _boolean,
}
