"""Predicates to expressions of pyarrow.compute, to filter datasets by.

The expression keeps the rows for which the predicate is true, and drops those for which it is false or null. Columns
are taken to have the types in which pyarrow reads what Spark wrote. What pyarrow cannot say, such as a function or a
part that zskip does not understand, keeps the rows for which it might be true: then more rows are kept, never fewer.
"""

from __future__ import annotations

import decimal
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zskip.errors import UnsupportedError
from zskip.predicate.literals import is_single
from zskip.predicate.text import to_sql
from zskip.predicate.tree import (
    And,
    Call,
    Column,
    Compare,
    CompareTerms,
    Constant,
    Contains,
    EndsWith,
    In,
    IsNull,
    Leaf,
    Like,
    Not,
    Or,
    Predicate,
    StartsWith,
    Term,
    Unknown,
    column_of,
    is_opaque,
    terms_of,
)
from zskip.types import DataType, Encoded, Form, decode_decimal, value_range

_TYPES = {
    "boolean": pa.bool_(),
    "byte": pa.int64(),
    "short": pa.int64(),
    "integer": pa.int64(),
    "long": pa.int64(),
    "float": pa.float64(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
"""Of literals, decimals aside: Arrow casts whole numbers and floats to what the column needs, or the column."""
_DEEPEST = 100
_LONGEST = 1_000
_DIGITS = decimal.Context(prec=80)


def _null() -> pc.Expression:
    return pc.scalar(pa.scalar(None, pa.bool_()))


class _Inexact(Exception):
    """Arrow cannot say a leaf."""


def to_pyarrow(predicate: Predicate, *, exact: bool = False) -> pc.Expression:
    """An expression that keeps each row for which the predicate is true.

    exact: keep no other row; raises UnsupportedError where pyarrow cannot say it.

    >>> print(to_pyarrow(Not(Compare("<", Column(("a",), DataType("integer")), 3))))
    invert((a < 3))
    """
    return _Writer(exact).write(predicate)


class _Writer:
    """Writes predicates; `negated` where the result will be inverted, so that what is unknown must be false.

    depth: nodes above; pyarrow is recursive, also over long chains, and crashes.
    """

    def __init__(self, exact: bool) -> None:
        self._exact = exact

    def write(self, node: Predicate, negated: bool = False, depth: int = 0) -> pc.Expression:
        if isinstance(node, And | Or) and depth < _DEEPEST and len(node.children) <= _LONGEST:
            parts = [self.write(child, negated, depth + 1) for child in node.children]
            return _joined(parts, isinstance(node, And))
        if isinstance(node, Not) and depth < _DEEPEST:
            return ~self.write(node.child, not negated, depth + 1)
        if isinstance(node, Constant):
            return _null() if node.value is None else pc.scalar(node.value)
        if isinstance(node, Unknown | And | Or | Not) or is_opaque(node):
            self._refuse(node)
            return pc.scalar(not negated)
        try:
            return _leaf(node, negated)
        except _Inexact:
            self._refuse(node)
            return _maybe(node, negated)

    def _refuse(self, node: Predicate) -> None:
        if self._exact:
            what = "so long or deep a predicate" if isinstance(node, And | Or | Not) else to_sql(node, shorten=True)
            raise UnsupportedError(f"pyarrow cannot say {what}; leave out exact=True")


def _joined(parts: list[pc.Expression], conjunction: bool) -> pc.Expression:
    """AND or OR of many as a tree of few levels: pyarrow is recursive."""
    if not parts:
        return pc.scalar(conjunction)
    while len(parts) > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [p[0] if len(p) == 1 else p[0] & p[1] if conjunction else p[0] | p[1] for p in pairs]
    return parts[0]


def _maybe(leaf: Leaf, negated: bool) -> pc.Expression:
    """Where a leaf may be true: nowhere where a column of it is null."""
    fields = [_field(column_of(term)) for term in terms_of(leaf)]
    return _joined([field.is_null() if negated else field.is_valid() for field in fields], not negated)


def _leaf(leaf: Leaf, negated: bool) -> pc.Expression:
    if isinstance(leaf, IsNull):
        return _field(column_of(leaf.term)).is_null()
    if isinstance(leaf, CompareTerms):
        return _compare_terms(leaf)
    field = _term(leaf.term)
    if isinstance(leaf, Compare):
        if leaf.term.type.form is Form.FLOAT:
            return _compare_float(leaf.op, field, float(leaf.value))
        return _compare(leaf.op, field, leaf.value, leaf.term.type)
    if isinstance(leaf, In):
        return _in(leaf, field, negated)
    return _text_test(leaf, field)


def _field(column: Column) -> pc.Expression:
    return pc.field(column.path[0]) if len(column.path) == 1 else pc.field(column.path)


def _term(term: Term) -> pc.Expression:
    """A column, or whole numbers and floats as doubles."""
    if term.type.name not in _TYPES and not term.type.is_decimal:
        raise _Inexact
    if isinstance(term, Column):
        return _field(term)
    if isinstance(term, Call) and _is_double(term) and isinstance(term.term, Column):
        return _field(term.term).cast(pa.float64())
    raise _Inexact


def _is_double(call: Call) -> bool:
    narrow = call.term.type.name in ("byte", "short", "integer", "float")
    return call.function == "cast" and call.type.name == "double" and narrow


def _literal(value: Encoded, data_type: DataType) -> pc.Expression:
    return pc.scalar(pa.scalar(_python(value, data_type), _arrow_type(data_type)))


def _arrow_type(data_type: DataType) -> pa.DataType:
    return pa.decimal128(data_type.precision, data_type.scale) if data_type.is_decimal else _TYPES[data_type.name]


def _python(value: Encoded, data_type: DataType) -> Any:
    if data_type.is_decimal:
        return _DIGITS.scaleb(decimal.Decimal(decode_decimal(value, data_type)), -data_type.scale)
    if data_type.name == "boolean":
        return bool(value)
    if data_type.name == "string" and isinstance(value, bytes):
        return value.decode()
    return value


def _compare(op: str, field: pc.Expression, value: Encoded, data_type: DataType) -> pc.Expression:
    if isinstance(value, int) or data_type.is_decimal:
        number = decode_decimal(value, data_type)
        least, most = value_range(data_type)
        if number < least:
            return _settled(field, op in (">", ">="))
        if number > most:
            return _settled(field, op in ("<", "<="))
    try:
        literal = _literal(value, data_type)
    except UnicodeDecodeError:
        field, literal = field.cast(pa.binary()), pc.scalar(pa.scalar(value, pa.binary()))
    return _operate(op, field, literal)


def _operate(op: str, left: pc.Expression, right: pc.Expression) -> pc.Expression:
    if op == "=":
        return left == right
    if op in ("<", "<="):
        return left < right if op == "<" else left <= right
    return left > right if op == ">" else left >= right


def _settled(field: pc.Expression, value: bool) -> pc.Expression:
    """A constant where the column is not null, else null."""
    return field.is_valid() | _null() if value else field.is_null() & _null()


def _compare_float(op: str, field: pc.Expression, value: float) -> pc.Expression:
    """NaN is above all numbers to Spark, and compares with nothing in Arrow."""
    if math.isnan(value):
        if op in ("<=", ">"):
            return _settled(field, op == "<=")
        return ~pc.is_nan(field) if op == "<" else pc.is_nan(field)
    found = _operate(op, field, pc.scalar(pa.scalar(value, pa.float64())))
    return found | pc.is_nan(field) if op in (">", ">=") else found


def _compare_terms(leaf: CompareTerms) -> pc.Expression:
    left, right, op = _term(leaf.left), _term(leaf.right), leaf.op
    if op in (">", ">="):
        left, right, op = right, left, op.replace(">", "<")
    found = _operate(op, left, right)
    if leaf.left.type.form is not Form.FLOAT:
        return found
    if op == "=":
        return found | (pc.is_nan(left) & pc.is_nan(right))
    if op == "<":
        return found | (~pc.is_nan(left) & pc.is_nan(right))
    return found | (pc.is_nan(right) & (pc.is_nan(left) | ~pc.is_nan(left)))


def _in(leaf: In, field: pc.Expression, negated: bool) -> pc.Expression:
    """Arrow's `is_in` is false for null, which matters only where it will be inverted; it tells -0.0 from 0.0."""
    values = list(leaf.values)
    zero = leaf.term.type.form is Form.FLOAT and 0.0 in values
    found = field.isin(_value_set([value for value in values if not (zero and value == 0.0)], leaf.term.type))
    if zero:
        found = found | (field == pc.scalar(0.0))
    return found | (field.is_null() & _null()) if negated else found


def _value_set(values: list[Encoded], data_type: DataType) -> pa.Array:
    if data_type.name == "float":
        singles = [value for value in values if is_single(float(value))]
        return pa.array(np.array(singles, np.float32), pa.float32())
    if data_type.form is Form.INT:
        least, most = value_range(data_type)
        values = [value for value in values if least <= int(value) <= most]
    try:
        return pa.array([_python(value, data_type) for value in values], _arrow_type(data_type))
    except UnicodeDecodeError:
        raise _Inexact from None


def _text_test(leaf: StartsWith | EndsWith | Contains | Like, field: pc.Expression) -> pc.Expression:
    try:
        if isinstance(leaf, StartsWith):
            return pc.starts_with(field, pattern=leaf.prefix.decode())
        if isinstance(leaf, EndsWith):
            return pc.ends_with(field, pattern=leaf.suffix.decode())
        if isinstance(leaf, Contains):
            return pc.match_substring(field, pattern=leaf.part.decode())
    except UnicodeDecodeError:
        raise _Inexact from None
    if "\\" in leaf.pattern or leaf.escape in leaf.pattern:
        raise _Inexact
    return pc.match_like(field, pattern=leaf.pattern)
