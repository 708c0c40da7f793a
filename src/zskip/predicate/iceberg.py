"""Translates predicates to pyiceberg expressions, for planning scans of Iceberg tables.

The expression is true for each row that satisfies the predicate. Parts that Iceberg cannot express, such as functions,
comparisons of two columns, and unknown parts, become something weaker: more rows are kept, never fewer.

Iceberg has no third truth value, so NOT is pushed into the leaves, where it excludes nulls. Floats compare by IEEE 754
in pyiceberg and like Spark's in Java, so NaN is named wherever the two differ.
"""

from __future__ import annotations

import decimal
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from zskip.errors import MissingDependencyError, UnsupportedError
from zskip.predicate.like import literal_prefix
from zskip.predicate.literals import is_single
from zskip.predicate.text import to_sql
from zskip.predicate.tree import (
    And,
    Column,
    Compare,
    Constant,
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
from zskip.types import Encoded, Form, decode_decimal, value_range

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression, Reference
    from pyiceberg.expressions.literals import Literal

_NEGATED = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_DEEPEST = 100
_DIGITS = decimal.Context(prec=80)


class _Inexact(Exception):
    """Iceberg cannot express a leaf."""


def to_iceberg(predicate: Predicate, *, exact: bool = False) -> BooleanExpression:
    """Return a pyiceberg expression that is true for each row that satisfies the predicate.

    exact: and for no other row; raises UnsupportedError if Iceberg cannot express that. Raises MissingDependencyError
    without pyiceberg.

    >>> from zskip.types import DataType
    >>> print(to_iceberg(Not(Compare("<", Column(("a",), DataType("integer")), 3))))
    GreaterThanOrEqual(term=Reference(name='a'), literal=LongLiteral(3))
    """
    try:
        import pyiceberg.expressions
    except ImportError as error:
        raise MissingDependencyError('pyiceberg is not installed; run: pip install "zskip[iceberg]"') from error
    return _Writer(pyiceberg.expressions, exact).write(predicate, negated=False)


class _Writer:
    """Writes that a predicate is true, or false if `negated`; depth: number of nodes above."""

    def __init__(self, iceberg: Any, exact: bool) -> None:
        self._iceberg = iceberg
        self._exact = exact

    def write(self, node: Predicate, negated: bool, depth: int = 0) -> BooleanExpression:
        while isinstance(node, Not):
            node, negated = node.child, not negated
        if isinstance(node, And | Or) and depth < _DEEPEST:
            parts = [self.write(child, negated, depth + 1) for child in node.children]
            return self._join(parts, isinstance(node, And) != negated)
        if isinstance(node, Constant):
            return self._constant(node.value is not None and node.value != negated)
        if isinstance(node, Unknown | And | Or) or is_opaque(node):
            self._refuse(node)
            return self._constant(True)
        try:
            return self._leaf(node, negated)
        except (_Inexact, UnicodeDecodeError):
            self._refuse(node)
            return self._implied(node, negated)

    def _refuse(self, node: Predicate) -> None:
        if self._exact:
            what = "so deep a predicate" if isinstance(node, And | Or) else to_sql(node, shorten=True)
            raise UnsupportedError(f"Iceberg cannot express {what}; leave out exact=True")

    def _constant(self, value: bool) -> BooleanExpression:
        expression: BooleanExpression = self._iceberg.AlwaysTrue() if value else self._iceberg.AlwaysFalse()
        return expression

    def _join(self, parts: list[BooleanExpression], conjunction: bool) -> BooleanExpression:
        """Join parts with AND or OR in a balanced tree, since pyiceberg is recursive."""
        join = self._iceberg.And if conjunction else self._iceberg.Or
        while len(parts) > 1:
            pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
            parts = [pair[0] if len(pair) == 1 else join(*pair) for pair in pairs]
        return parts[0] if parts else self._constant(conjunction)

    def _implied(self, leaf: Leaf, negated: bool) -> BooleanExpression:
        """Write what a leaf implies: its columns are not null, and a match starts with the pattern's literal prefix."""
        parts = [self._present(term) for term in terms_of(leaf)]
        if isinstance(leaf, Like) and isinstance(leaf.term, Column) and not negated:
            prefix = literal_prefix(leaf.pattern, leaf.escape)
            parts += [self._iceberg.StartsWith(_name(leaf.term), prefix)] if prefix else []
        return self._join(parts, conjunction=True)

    def _present(self, term: Term) -> BooleanExpression:
        expression: BooleanExpression = self._iceberg.NotNull(_name(column_of(term)))
        return expression

    def _leaf(self, leaf: Leaf, negated: bool) -> BooleanExpression:
        if isinstance(leaf, IsNull):
            name = _name(column_of(leaf.term))
            expression: BooleanExpression = self._iceberg.NotNull(name) if negated else self._iceberg.IsNull(name)
            return expression
        if isinstance(leaf, Compare | In | StartsWith) and isinstance(leaf.term, Column):
            if isinstance(leaf, Compare):
                return self._compare(_NEGATED[leaf.op] if negated else leaf.op, leaf.term, leaf.value)
            if isinstance(leaf, In):
                return self._in(leaf.term, leaf.values, negated)
            return self._starts_with(leaf.term, leaf.prefix.decode(), negated)
        raise _Inexact

    def _compare(self, op: str, column: Column, value: Encoded) -> BooleanExpression:
        if column.type.form is Form.FLOAT:
            return self._compare_float(op, column, float(value))
        if isinstance(value, int):
            least, most = value_range(column.type)
            if not least <= value <= most:
                matches = op == "!=" or (op != "=" and (value < least) == (op in (">", ">=")))
                return self._present(column) if matches else self._never()
        if column.type.name == "boolean":
            return self._compare_boolean(op, column, int(value))
        expression = self._operate(op, column, _literal(column, value))
        return self._join([expression, self._present(column)], conjunction=True) if op == "!=" else expression

    def _never(self) -> BooleanExpression:
        return self._constant(False)

    def _compare_boolean(self, op: str, column: Column, value: int) -> BooleanExpression:
        """Compare a boolean by the values that satisfy the comparison: none, one, or both."""
        holds = {
            "=": int.__eq__,
            "!=": int.__ne__,
            "<": int.__lt__,
            "<=": int.__le__,
            ">": int.__gt__,
            ">=": int.__ge__,
        }
        matching = [flag for flag in (0, 1) if holds[op](flag, value)]
        if len(matching) == 1:
            return self._operate("=", column, _literal(column, matching[0]))
        return self._present(column) if matching else self._never()

    def _operate(self, op: str, column: Column, literal: Literal[Any]) -> BooleanExpression:
        names = {
            "=": "EqualTo",
            "!=": "NotEqualTo",
            "<": "LessThan",
            "<=": "LessThanOrEqual",
            ">": "GreaterThan",
            ">=": "GreaterThanOrEqual",
        }
        expression: BooleanExpression = getattr(self._iceberg, names[op])(_name(column), literal)
        return expression

    def _compare_float(self, op: str, column: Column, value: float) -> BooleanExpression:
        """Compare in Spark's order, where NaN is above all numbers."""
        nan: BooleanExpression = self._iceberg.IsNaN(_name(column))
        number = self._join([self._iceberg.NotNaN(_name(column)), self._present(column)], conjunction=True)
        if math.isnan(value):
            return {"=": nan, ">=": nan, "<=": self._present(column), ">": self._never()}.get(op, number)
        if column.type.name == "float":
            op, value = _nearest_single(op, value)
        if op in ("=", "!=") and column.type.name == "float" and not is_single(value):
            return self._never() if op == "=" else self._present(column)
        expression = self._operate(op, column, _literal(column, value))
        if op == "!=":
            return self._join([expression, self._present(column)], conjunction=True)
        if op in ("<", "<="):
            return self._join([expression, number], conjunction=True)
        return self._join([expression, nan], conjunction=False) if op in (">", ">=") else expression

    def _in(self, column: Column, values: tuple[Encoded, ...], negated: bool) -> BooleanExpression:
        parts: list[BooleanExpression] = []
        if column.type.form is Form.FLOAT and 0.0 in values:
            parts.append(self._compare("!=" if negated else "=", column, 0.0))
        literals = [_literal(column, value) for value in values if not parts or value != 0.0]
        if column.type.name == "float":
            _nearest_single("=", max(map(abs, map(float, values)), default=0.0))
            literals = [literal for literal in literals if is_single(literal.value)]
        if literals:
            form = self._iceberg.NotIn if negated else self._iceberg.In
            parts.append(form(_name(column), literals))
        if negated:
            parts.append(self._present(column))
        return self._join(parts, conjunction=negated)

    def _starts_with(self, column: Column, prefix: str, negated: bool) -> BooleanExpression:
        expression: BooleanExpression = self._iceberg.StartsWith(_name(column), prefix)
        if not negated:
            return expression
        parts = [self._iceberg.NotStartsWith(_name(column), prefix), self._present(column)]
        return self._join(parts, conjunction=True)


def _name(column: Column) -> Reference:
    from pyiceberg.expressions import Reference

    return Reference(".".join(column.path))


def _nearest_single(op: str, value: float) -> tuple[str, float]:
    """Rewrite a comparison of a 32-bit float with any number to one with a 32-bit float.

    Raises _Inexact for infinity, which pyiceberg takes to be beyond all floats.
    """
    with np.errstate(over="ignore"):
        nearest = float(np.float32(value))
    if nearest != value and op in ("<", "<=", ">", ">="):
        below = nearest < value
        if op in ("<", "<="):
            op, nearest = "<=", nearest if below else float(np.nextafter(np.float32(nearest), np.float32(-np.inf)))
        else:
            op, nearest = ">=", float(np.nextafter(np.float32(nearest), np.float32(np.inf))) if below else nearest
    elif nearest != value:
        return op, value
    if math.isinf(nearest):
        raise _Inexact
    return op, nearest


def _literal(column: Column, value: Encoded) -> Literal[Any]:
    """Return a value as a literal of exactly the column's type, so that pyiceberg converts nothing."""
    from pyiceberg.expressions import literals

    name = column.type.name
    if column.type.is_decimal:
        unscaled = decimal.Decimal(decode_decimal(value, column.type))
        return literals.DecimalLiteral(_DIGITS.scaleb(unscaled, -column.type.scale))
    if column.type.form is Form.FLOAT:
        return literals.DoubleLiteral(float(value))
    if isinstance(value, bytes):
        return literals.StringLiteral(value.decode()) if name == "string" else literals.BinaryLiteral(value)
    if name == "boolean":
        return literals.BooleanLiteral(bool(value))
    if name == "date":
        return literals.DateLiteral(int(value))
    if name in ("timestamp", "timestamp_ntz"):
        return literals.TimestampLiteral(int(value))
    if column.type.is_integer:
        return literals.LongLiteral(int(value))
    raise _Inexact
