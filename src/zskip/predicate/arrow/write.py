"""Translates predicates to pyarrow.compute expressions, for filtering datasets.

The expression keeps the rows that satisfy the predicate, and drops those for which it is false or null. Columns are
assumed to have the types in which pyarrow reads Spark's files. Parts that pyarrow cannot express, such as functions and
unknown parts, keep all rows for which they might be true: more rows are kept, never fewer.
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
    Exists,
    In,
    IsNull,
    Leaf,
    Like,
    Not,
    Or,
    Predicate,
    StartsWith,
    Term,
    TermLeaf,
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
"""Types of literals but decimals and times of day. Arrow casts whole numbers and floats to the column's type, or the
column."""
_DEEPEST = 100
_LONGEST = 1_000
_DIGITS = decimal.Context(prec=80)


def _null() -> pc.Expression:
    return pc.scalar(pa.scalar(None, pa.bool_()))


class _Inexact(Exception):
    """Arrow cannot express a leaf."""


def to_pyarrow(predicate: Predicate, *, exact: bool = False) -> pc.Expression:
    """Return an expression that keeps each row that satisfies the predicate.

    exact: keep no other row; raises UnsupportedError if pyarrow cannot express that.

    >>> print(to_pyarrow(Not(Compare("<", Column(("a",), DataType("integer")), 3))))
    invert((a < 3))
    """
    return _Writer(exact).write(predicate)


class _Writer:
    """Writes predicates; `negated` if the result will be inverted, so unknown parts must be false.

    depth: number of nodes above; pyarrow recurses, also over long chains, until it crashes.
    """

    def __init__(self, exact: bool) -> None:
        self._exact = exact

    def write(self, node: Predicate, negated: bool = False, depth: int = 0) -> pc.Expression:
        if isinstance(node, And | Or) and depth < _DEEPEST and len(node.children) <= _LONGEST:
            parts = [self.write(child, negated, depth + 1) for child in node.children]
            return _join(parts, isinstance(node, And))
        if isinstance(node, Not) and depth < _DEEPEST:
            return ~self.write(node.child, not negated, depth + 1)
        if isinstance(node, Constant):
            return _null() if node.value is None else pc.scalar(node.value)
        if isinstance(node, Unknown | And | Or | Not | Exists) or is_opaque(node):
            self._refuse(node)
            return pc.scalar(not negated)
        try:
            return _leaf(node, negated)
        except _Inexact:
            self._refuse(node)
            return _implied(node, negated)

    def _refuse(self, node: Predicate) -> None:
        if self._exact:
            what = "so long or deep a predicate" if isinstance(node, And | Or | Not) else to_sql(node, shorten=True)
            raise UnsupportedError(f"pyarrow cannot express {what}; leave out exact=True")


def _join(parts: list[pc.Expression], conjunction: bool) -> pc.Expression:
    """Join parts with AND or OR in a balanced tree, since pyarrow is recursive."""
    if not parts:
        return pc.scalar(conjunction)
    while len(parts) > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [p[0] if len(p) == 1 else p[0] & p[1] if conjunction else p[0] | p[1] for p in pairs]
    return parts[0]


def _implied(leaf: Leaf, negated: bool) -> pc.Expression:
    """Write where a leaf may be true: its columns are not null."""
    fields = [_field(column_of(term)) for term in terms_of(leaf)]
    return _join([field.is_null() if negated else field.is_valid() for field in fields], not negated)


def _leaf(leaf: TermLeaf | CompareTerms, negated: bool) -> pc.Expression:
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
    """Write a column, or a number cast to a double."""
    if term.type.name not in _TYPES and not term.type.is_decimal and not term.type.is_time:
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
    if data_type.is_time:
        return pa.time64("us")
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
            return _constant(field, op in (">", ">="))
        if number > most:
            return _constant(field, op in ("<", "<="))
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


def _constant(field: pc.Expression, value: bool) -> pc.Expression:
    """Write a constant where the column is not null, else null."""
    return field.is_valid() | _null() if value else field.is_null() & _null()


def _compare_float(op: str, field: pc.Expression, value: float) -> pc.Expression:
    """Compare in Spark's order, where NaN is above all numbers; in Arrow it compares with nothing."""
    if math.isnan(value):
        if op in ("<=", ">"):
            return _constant(field, op == "<=")
        return ~pc.is_nan(field) if op == "<" else pc.is_nan(field)
    comparison = _operate(op, field, pc.scalar(pa.scalar(value, pa.float64())))
    return comparison | pc.is_nan(field) if op in (">", ">=") else comparison


def _compare_terms(leaf: CompareTerms) -> pc.Expression:
    left, right, op = _term(leaf.left), _term(leaf.right), leaf.op
    if op in (">", ">="):
        left, right, op = right, left, op.replace(">", "<")
    comparison = _operate(op, left, right)
    if leaf.left.type.form is not Form.FLOAT:
        return comparison
    if op == "=":
        return comparison | (pc.is_nan(left) & pc.is_nan(right))
    if op == "<":
        return comparison | (~pc.is_nan(left) & pc.is_nan(right))
    return comparison | (pc.is_nan(right) & (pc.is_nan(left) | ~pc.is_nan(left)))


def _in(leaf: In, field: pc.Expression, negated: bool) -> pc.Expression:
    """Write `is_in`, which is false for null (this matters only if inverted) and distinguishes -0.0 from 0.0."""
    values = list(leaf.values)
    zero = leaf.term.type.form is Form.FLOAT and 0.0 in values
    membership = field.isin(_value_set([value for value in values if not (zero and value == 0.0)], leaf.term.type))
    if zero:
        membership = membership | (field == pc.scalar(0.0))
    return membership | (field.is_null() & _null()) if negated else membership


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
