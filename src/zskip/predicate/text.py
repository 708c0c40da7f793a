"""Writes a predicate as Spark SQL."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace

from zskip.predicate.columns import name_sql
from zskip.predicate.functions import FUNCTIONS
from zskip.predicate.opaque import CONDITION, collated_column
from zskip.predicate.tree import (
    And,
    Call,
    Column,
    Compare,
    CompareTerms,
    Constant,
    Contains,
    EndsWith,
    Exists,
    In,
    IsNull,
    Like,
    Not,
    Opaque,
    Or,
    Predicate,
    StartsWith,
    Term,
    TermLeaf,
    Unknown,
    replace_terms,
)
from zskip.types import DataType, Encoded, Form, decode_decimal

_EPOCH = dt.datetime(1970, 1, 1)
_MOST_LISTED = 20
"""Values of a long IN that are written out in text for people."""


def to_sql(predicate: Predicate, *, shorten: bool = False) -> str:
    """Write a predicate as text that Spark understands (timestamps: in a session in UTC).

    shorten: cut long lists of values, for people to read.

    >>> from zskip.predicate.tree import Column
    >>> to_sql(Not(In(Column(("a",), DataType("integer")), (1, 2))))
    'NOT (a IN (1, 2))'
    """
    if isinstance(predicate, And | Or):
        word = " AND " if isinstance(predicate, And) else " OR "
        return word.join(_parenthesize(child, shorten) for child in predicate.children)
    if isinstance(predicate, Not):
        if isinstance(predicate.child, IsNull):
            return f"{term_sql(predicate.child.term)} IS NOT NULL"
        return f"NOT ({to_sql(predicate.child, shorten=shorten)})"
    if isinstance(predicate, Constant):
        return "NULL" if predicate.value is None else str(predicate.value).lower()
    if isinstance(predicate, Unknown):
        return predicate.sql
    if isinstance(predicate, CompareTerms):
        return f"{term_sql(predicate.left)} {predicate.op} {term_sql(predicate.right)}"
    if isinstance(predicate, Exists):
        element = Column(("x",), predicate.term.type)
        test = to_sql(replace_terms(predicate.test, {predicate.term: element}), shorten=shorten)
        return f"exists({', '.join(map(_argument_sql, predicate.term.arguments))}, x -> {test})"
    return _leaf_sql(predicate, shorten)


def _leaf_sql(leaf: TermLeaf, shorten: bool) -> str:
    collated = collated_column(leaf.term)
    if collated is not None:
        # SQL has no name for keys: it compares the texts.
        leaf = replace(leaf, term=Column(collated.path, DataType("string")))
    if isinstance(leaf, Compare):
        return f"{_compared_sql(leaf.term)} {leaf.op} {literal_sql(leaf.value, leaf.term.type)}"
    name = term_sql(leaf.term)
    data_type = leaf.term.type
    if isinstance(leaf, IsNull):
        return f"{name} IS NULL"
    if isinstance(leaf, StartsWith):
        return f"startswith({name}, {literal_sql(leaf.prefix, data_type)})"
    if isinstance(leaf, EndsWith):
        return f"endswith({name}, {literal_sql(leaf.suffix, data_type)})"
    if isinstance(leaf, Contains):
        return f"contains({name}, {literal_sql(leaf.part, data_type)})"
    if isinstance(leaf, Like):
        escape = "" if leaf.escape == "\\" else f" ESCAPE {literal_sql(leaf.escape.encode(), data_type)}"
        return f"{name} LIKE {literal_sql(leaf.pattern.encode(), data_type)}{escape}"
    return _in_sql(leaf, shorten)


def _parenthesize(child: Predicate, shorten: bool) -> str:
    text = to_sql(child, shorten=shorten)
    return f"({text})" if isinstance(child, And | Or | Unknown) else text


def _compared_sql(term: Term) -> str:
    """A term beside literals; Spark 4.1 compares times of one precision only, and those of literals are of six."""
    name = term_sql(term)
    return f"CAST({name} AS TIME(6))" if term.type.is_time and term.type.time_unit > 1 else name


def _in_sql(node: In, shorten: bool) -> str:
    name = _compared_sql(node.term)
    if not node.values:
        return f"{name} != {name}"
    listed = node.values[:_MOST_LISTED] if shorten else node.values
    texts = [literal_sql(value, node.term.type) for value in listed]
    if len(listed) < len(node.values):
        texts.append(f"... {len(node.values) - len(listed)} more")
    return f"{name} IN ({', '.join(texts)})"


def term_sql(term: Term) -> str:
    """Write a term as text."""
    if isinstance(term, Call):
        return FUNCTIONS[term.function].sql(term_sql(term.term), term)
    if isinstance(term, Opaque) and term.function == CONDITION:
        return str(term.arguments[0])
    if isinstance(term, Opaque) and term.function == "try_cast":
        return f"TRY_CAST({' AS '.join(map(_argument_sql, term.arguments))})"
    if isinstance(term, Opaque):
        return f"{term.function}({', '.join(map(_argument_sql, term.arguments))})"
    return name_sql(term)


def _argument_sql(argument: Term | str) -> str:
    return argument if isinstance(argument, str) else term_sql(argument)


def literal_sql(value: Encoded, data_type: DataType) -> str:
    """Write an encoded value as a literal of its type.

    >>> literal_sql(1250, DataType("decimal(6,2)")), literal_sql(19723, DataType("date"))
    ('12.50BD', "DATE '2024-01-01'")
    """
    if data_type.is_decimal:
        return _decimal_sql(decode_decimal(value, data_type), data_type.scale)
    if isinstance(value, bytes):
        if data_type.name == "binary":
            return f"X'{value.hex()}'"
        try:
            return "'" + value.decode().replace("\\", "\\\\").replace("'", "\\'") + "'"
        except UnicodeDecodeError:
            return f"CAST(X'{value.hex()}' AS STRING)"
    if data_type.form is Form.FLOAT:
        special = isinstance(value, float) and not math.isfinite(value)
        text = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(str(value), str(value))
        return f"CAST('{text}' AS DOUBLE)" if special else f"{float(value)!r}D"
    if data_type.is_interval:
        return _interval_sql(int(value), data_type)
    if data_type.is_time:
        return f"TIME '{_EPOCH + dt.timedelta(microseconds=int(value)):%H:%M:%S.%f}'"
    return _whole_sql(int(value), data_type.name)


def _decimal_sql(unscaled: int, scale: int) -> str:
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    point = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return f"{'-' if unscaled < 0 else ''}{point}BD"


def _interval_sql(value: int, data_type: DataType) -> str:
    sign, size = "-" if value < 0 else "", abs(value)
    if data_type.is_months:
        return f"INTERVAL '{sign}{size // 12}-{size % 12}' YEAR TO MONTH"
    seconds, micros = divmod(size, 10**6)
    minutes, hours, days = seconds // 60 % 60, seconds // 3600 % 24, seconds // 86_400
    return f"INTERVAL '{sign}{days} {hours:02}:{minutes:02}:{seconds % 60:02}.{micros:06}' DAY TO SECOND"


def _whole_sql(value: int, name: str) -> str:
    if name == "boolean":
        return "true" if value else "false"
    try:
        if name == "date":
            return f"DATE '{_EPOCH.date() + dt.timedelta(days=value)}'"
        if name in ("timestamp", "timestamp_ntz"):
            return f"{name.upper()} '{_EPOCH + dt.timedelta(microseconds=value)}'"
    except OverflowError:
        return f"{name.upper()} '...'"
    return f"{value}L" if name == "long" else str(value)
