"""SQL text to a predicate: what people write, and what Catalyst prints.

sqlglot reads the text (Spark dialect); this module gives meaning to the few forms that statistics can answer. In
lenient mode, for text that Spark has checked already, whatever is not understood becomes Unknown; in strict mode, for
text that a user wrote, unknown columns and syntax errors are raised.
"""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import sqlglot
from sqlglot import exp

from zskip.errors import ColumnError, PredicateError
from zskip.predicate.columns import Columns
from zskip.predicate.literals import (
    INTEGER_TYPES,
    MOST_DIGITS,
    Literal,
    common,
    compare,
    date_days,
    is_nan,
    is_type,
    never,
    timestamp_micros,
)
from zskip.predicate.tree import (
    And,
    Column,
    Compare,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    Unknown,
    conjunction,
)
from zskip.types import INTEGERS, DataType, Encoded

Node = Any
"""A node of sqlglot's tree, whose types differ between its versions."""
_STRANGE_ESCAPE = re.compile(r"(?:[^\\]|\\[\\'\"])*?\\(?![\\'\"])", re.DOTALL)
_COMPARISONS: dict[type[Node], tuple[str, str]] = {
    exp.EQ: ("=", "="),
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
}
"""Operator, and the operator with its sides exchanged."""
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,6})?", re.ASCII)
_SPECIAL = {f"{sign}{name}" for sign in ("", "+", "-") for name in ("inf", "infinity")} | {"nan"}
_PLAIN_TYPES: dict[Any, str] = {}
"""The names of types without parameters, which are slow to write."""
_ARGUMENTS = {"this", "expression", "expressions", "low", "high", "negate", "table", "db", "catalog"}
"""The parts of sqlglot's nodes that are looked at; a node with any other part means something else."""


def parse(sql: str, columns: Columns, *, timezone: str = "UTC", lenient: bool = False) -> Predicate:
    """Read one predicate and bind it to the columns of a table.

    timezone: of the session, in which timestamps without a zone are meant. Raises, unless `lenient`, PredicateError
    for text that is no predicate and ColumnError for unknown columns.

    >>> from zskip.records import Field
    >>> columns = Columns([Field(name="a", type=DataType("integer"))])
    >>> parse("a BETWEEN 1 AND 2.5", columns) == parse("1 <= a AND a < 3", columns)
    False
    >>> parse("NOT a >= 7", columns)
    Not(child=Compare(op='>=', term=Column(path=('a',), type=DataType(name='integer')), value=7))
    """
    try:
        if _STRANGE_ESCAPE.match(sql):
            return Unknown(sql, "a string with escapes")
        return _Binder(columns, timezone, lenient).predicate(_parsed(sql))
    except RecursionError:
        return Unknown(sql[:200], "nested too deeply")
    except (PredicateError, ValueError, ArithmeticError):
        if not lenient:
            raise
        return Unknown(sql)


def parse_many(sqls: Sequence[str], columns: Columns, *, timezone: str = "UTC", lenient: bool = False) -> Predicate:
    """Read several predicates that must all hold."""
    return conjunction(tuple(parse(sql, columns, timezone=timezone, lenient=lenient) for sql in sqls))


def _parsed(sql: str) -> Node:
    try:
        found = sqlglot.parse_one(sql, dialect="spark", into=exp.Condition)
    except sqlglot.errors.SqlglotError as error:
        raise PredicateError(f'cannot read the predicate "{sql}": {_place(error)}') from error
    if isinstance(found, exp.Query | exp.Alias | exp.DDL):
        raise PredicateError(f'"{sql}" is no predicate; give a condition such as "a > 3 AND b = \'x\'"')
    return found


def _place(error: sqlglot.errors.SqlglotError) -> str:
    details = getattr(error, "errors", None)
    if details and details[0].get("description"):
        first = details[0]
        what = "a part is missing" if "<class" in first["description"] else first["description"]
        return f'{what} near "{first.get("highlight") or "its end"}", character {first.get("col")}'
    return "it does not parse as a condition of Spark SQL"


class _Binder:
    """Turns a parsed expression into a bound predicate."""

    def __init__(self, columns: Columns, timezone: str, lenient: bool) -> None:
        self._columns = columns
        self._timezone = timezone
        self._lenient = lenient

    def predicate(self, node: Node) -> Predicate:
        node = node.unnest()
        found = self._logical(node)
        if found is None:
            self._check_columns(node)
            return Unknown(node.sql(dialect="spark")[:500])
        return found

    def _check_columns(self, node: Node) -> None:
        """A misspelt column in a part that is not understood is an error all the same."""
        if not self._lenient:
            for column in node.find_all(exp.Column):
                if column.arg_key != "collate":
                    self._field(column)

    def _logical(self, node: Node) -> Predicate | None:
        if isinstance(node, exp.And | exp.Or):
            children = tuple(self.predicate(child) for child in _operands(node, type(node)))
            return And(children) if isinstance(node, exp.And) else Or(children)
        if isinstance(node, exp.Not):
            return Not(self.predicate(node.this))
        if isinstance(node, exp.Boolean):
            return Constant(bool(node.this))
        if isinstance(node, exp.Null):
            return Constant(None)
        handler = self._HANDLERS.get(type(node))
        strange = any(value and key not in _ARGUMENTS for key, value in node.args.items())
        found = None if handler is None or strange else handler(self, node)
        return Not(found) if found is not None and node.args.get("negate") else found

    def _comparison(self, node: Node) -> Predicate | None:
        op, exchanged = _COMPARISONS[type(node)]
        column, literal = self._sides(node.this, node.expression)
        if column is None or literal is None:
            op = exchanged
            column, literal = self._sides(node.expression, node.this)
        if column is None or literal is None:
            return None
        return compare(op, column, literal, self._timezone)

    def _different(self, node: Node) -> Predicate | None:
        column = self._column(node.this)
        if column is not None and isinstance(node.expression, exp.Column) and column == self._column(node.expression):
            return never(column)
        equal = self._comparison(exp.EQ(this=node.this, expression=node.expression))
        return None if equal is None else Not(equal)

    def _null_safe(self, node: Node) -> Predicate | None:
        column, literal = self._sides(node.this, node.expression)
        if column is None:
            column, literal = self._sides(node.expression, node.this)
        if column is None or literal is None:
            return None
        if literal.kind == "null":
            return IsNull(column) if literal.value is None or is_type(column.type, str(literal.value)) else None
        equal = compare("=", column, literal, self._timezone)
        return None if equal is None else And((Not(IsNull(column)), equal))

    def _null_unsafe(self, node: Node) -> Predicate | None:
        equal = self._null_safe(node)
        return None if equal is None else Not(equal)

    def _between(self, node: Node) -> Predicate | None:
        column, low = self._sides(node.this, node.args["low"])
        _, high = self._sides(node.this, node.args["high"])
        if column is None or low is None or high is None:
            return None
        bounds = (compare(">=", column, low, self._timezone), compare("<=", column, high, self._timezone))
        sql = node.sql(dialect="spark")
        return And(tuple(Unknown(sql) if bound is None else bound for bound in bounds))

    def _in(self, node: Node) -> Predicate | None:
        column = self._column(node.this)
        if column is None:
            return None
        literals = [self._literal(value) for value in node.expressions]
        if None in literals:
            return None
        alike = common(column, cast("list[Literal]", literals), _casts(node.this))
        return None if alike is None else in_list(column, alike, self._timezone)

    def _is(self, node: Node) -> Predicate | None:
        column = self._column(node.this)
        if column is None or not isinstance(node.expression, exp.Null | exp.Boolean):
            return None
        if isinstance(node.expression, exp.Null):
            return IsNull(column)
        if column.type.name != "boolean":
            return None
        return And((Not(IsNull(column)), Compare("=", column, int(bool(node.expression.this)))))

    def _starts_with(self, node: Node) -> Predicate | None:
        column, literal = self._column(node.this), self._literal(node.expression)
        if column is None or literal is None or column.type.name != "string" or literal.kind not in ("string", "null"):
            return None
        return Constant(None) if literal.kind == "null" else StartsWith(column, str(literal.value).encode())

    def _like(self, node: Node) -> Predicate | None:
        column, literal = self._column(node.this), self._literal(node.expression)
        if column is None or literal is None or column.type.name != "string" or literal.kind != "string":
            return None
        pattern = str(literal.value)
        body = pattern[:-1] if pattern.endswith("%") else pattern
        if any(c in body for c in "%_\\"):
            return None
        if body != pattern:
            return StartsWith(column, body.encode())
        return Compare("=", column, body.encode())

    def _bare(self, node: Node) -> Predicate | None:
        column = self._column(node)
        if column is None or column.type.name != "boolean":
            return None
        return Compare("=", column, 1)

    _HANDLERS: dict[type[Node], Callable[[Any, Node], Predicate | None]] = {  # noqa: RUF012
        **dict.fromkeys(_COMPARISONS, _comparison),
        exp.NEQ: _different,
        exp.NullSafeEQ: _null_safe,
        exp.NullSafeNEQ: _null_unsafe,
        exp.Between: _between,
        exp.In: _in,
        exp.Is: _is,
        exp.StartsWith: _starts_with,
        exp.Like: _like,
        exp.Column: _bare,
    }

    def _sides(self, left: Node, right: Node) -> tuple[Column | None, Literal | None]:
        """A column and a literal to compare it with; None for what is neither."""
        column, literal = self._column(left), self._literal(right)
        casts = _casts(left)
        if column is None or literal is None or not casts:
            return column, literal
        alike = common(column, [literal], casts)
        return column, None if alike is None else alike[0]

    def _column(self, node: Node) -> Column | None:
        """A top-level column, maybe under casts that change no comparison."""
        node = node.unnest()
        if isinstance(node, exp.Cast):
            inner = self._column(node.this)
            return inner if inner is not None and _widens(inner.type, _type_name(node.to)) else None
        if not isinstance(node, exp.Column):
            return None
        field = self._field(node)
        return None if field is None else Column((field.name,), field.type)

    def _field(self, node: exp.Column) -> Any:
        parts = [part.name for part in node.parts]
        try:
            return self._columns.find(parts)
        except ColumnError:
            if self._lenient:
                return None
            raise

    def _literal(self, node: Node) -> Literal | None:
        node = node.unnest()
        if isinstance(node, exp.Null):
            return Literal("null", None)
        if isinstance(node, exp.Boolean):
            return Literal("boolean", bool(node.this))
        if isinstance(node, exp.HexString):
            return Literal("binary", bytes.fromhex(node.this if len(node.this) % 2 == 0 else f"0{node.this}"))
        if isinstance(node, exp.Literal):
            return Literal("string", node.this) if node.is_string else _number(node.this)
        if isinstance(node, exp.Neg):
            return self._negative(node.this.unnest())
        if isinstance(node, exp.Cast):
            inner = self._literal(node.this)
            return None if inner is None else _cast(inner, _type_name(node.to), self._timezone)
        return None

    def _negative(self, node: Node) -> Literal | None:
        """A number after a minus sign, which belongs to it: `-128Y` is a byte, though 128 is none."""
        if isinstance(node, exp.Neg):
            return None  # The least integer has no opposite.
        if isinstance(node, exp.Cast) and _type_name(node.to) in INTEGER_TYPES:
            inner = _negated(self._literal(node.this))
            return None if inner is None else _cast(inner, _type_name(node.to), self._timezone)
        return _negated(self._literal(node))


def _casts(node: Node) -> list[str]:
    """The types that a column is cast to, outermost first."""
    found = []
    node = node.unnest()
    while isinstance(node, exp.Cast):
        found.append(_type_name(node.to))
        node = node.this.unnest()
    return found


def in_list(column: Column, literals: Sequence[Literal], timezone: str) -> Predicate | None:
    """`column IN (...)`; None where a value cannot be compared exactly."""
    values: set[Encoded] = set()
    extra: list[Predicate] = []
    for literal in literals:
        equal = compare("=", column, literal, timezone)
        if equal is None:
            return None
        if isinstance(equal, Compare) and not is_nan(equal.value):
            values.add(equal.value)
        elif equal != never(column) and equal not in extra:
            extra.append(equal)
    found = In(column, tuple(sorted(values)))
    return Or((found, *extra)) if extra else found


def _operands(node: Node, kind: type[Node]) -> list[Node]:
    """The operands of a chain of one operator, without recursion: chains may be thousands long."""
    found: list[Node] = []
    todo = [node]
    while todo:
        current = todo.pop().unnest()
        if type(current) is kind:
            todo += [current.expression, current.this]
        else:
            found.append(current)
    return found


def _number(text: str) -> Literal | None:
    """A number as Spark types it: digits are integers, a point makes a decimal, an exponent a double."""
    if not _NUMBER.fullmatch(text):
        return None
    if "e" not in text.lower() and len(text.replace(".", "").lstrip("0")) > MOST_DIGITS:
        return None
    if text.isdigit():
        return Literal("int", int(text))
    if "e" in text.lower():
        return Literal("double", float(text))
    return Literal("decimal", decimal.Decimal(text))


def _negated(literal: Literal | None) -> Literal | None:
    if literal is None or literal.kind not in ("int", "decimal", "double", "float"):
        return None
    if isinstance(literal.value, decimal.Decimal):
        return Literal(literal.kind, literal.value.copy_negate())
    return Literal(literal.kind, -cast(Any, literal.value))


def _type_name(node: Any) -> str:
    if node.this == exp.DataType.Type.DECIMAL and node.expressions:
        digits = [str(part.name) for part in node.expressions]
        return f"DECIMAL({digits[0]}, {digits[1] if len(digits) > 1 else '0'})"
    if any(value for key, value in node.args.items() if key != "this"):
        return str(node.sql(dialect="spark")).upper()
    if node.this not in _PLAIN_TYPES:
        _PLAIN_TYPES[node.this] = str(node.sql(dialect="spark")).upper()
    return _PLAIN_TYPES[node.this]


def _cast(literal: Literal, target: str, timezone: str) -> Literal | None:
    """The literals that are written as casts: `DATE '...'`, `3L`, `12.50BD`, `CAST('NaN' AS DOUBLE)`."""
    if literal.kind == "null":
        return Literal("null", target)
    value = literal.value
    if target == "DATE" and literal.kind == "string":
        return None if date_days(value) is None else Literal("date", value)
    if target in ("TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ") and literal.kind == "string":
        plain = target == "TIMESTAMP_NTZ"
        micros = timestamp_micros(str(value), None if plain else timezone)
        return None if micros is None else Literal("timestamp_ntz" if plain else "timestamp", micros)
    if target in INTEGER_TYPES and literal.kind == "int":
        bits = INTEGERS[INTEGER_TYPES[target]]
        return literal if -(2 ** (bits - 1)) <= cast(int, value) < 2 ** (bits - 1) else None
    if target in ("DOUBLE", "FLOAT") and literal.kind in ("int", "decimal", "double", "string"):
        return _as_float(value, target)
    if target.startswith("DECIMAL(") and literal.kind in ("string", "decimal", "int"):
        return _as_decimal(str(value), DataType(target.lower().replace(" ", "")))
    return None


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
    """Whether a double lies just in the middle of two singles, so that it may have been rounded once too often."""
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


def _widens(held: DataType, target: str) -> bool:
    """Whether a cast keeps every value and the order of all."""
    if target in INTEGER_TYPES and held.is_integer:
        return INTEGERS[held.name] <= INTEGERS[INTEGER_TYPES[target]]
    if target == "DOUBLE":
        return held.name in ("float", "double", "byte", "short", "integer")
    if target.startswith("DECIMAL("):
        wanted = DataType(target.lower().replace(" ", ""))
        if held.is_integer:
            return wanted.precision - wanted.scale >= {8: 3, 16: 5, 32: 10, 64: 19}[INTEGERS[held.name]]
        if held.is_decimal:
            whole = held.precision - held.scale
            return wanted.scale >= held.scale and wanted.precision - wanted.scale >= whole
    return held.name != "string" and target == held.name.upper()  # Lengths and collations are strings to sqlglot, too.
