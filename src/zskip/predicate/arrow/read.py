"""Translates pyarrow.compute expressions, which filter datasets, to predicates.

For each row, the predicate has the same truth value as the expression. Parts that are not understood become Unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zskip.errors import ZskipError
from zskip.predicate import functions
from zskip.predicate.arrow import values as arrow_values
from zskip.predicate.arrow.expression import fold
from zskip.predicate.casts import to_common_type
from zskip.predicate.columns import Columns
from zskip.predicate.literals import is_single, never
from zskip.predicate.nullness import is_null
from zskip.predicate.patterns import like
from zskip.predicate.tree import (
    And,
    Column,
    Compare,
    CompareTerms,
    Constant,
    Contains,
    EndsWith,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    Term,
    Unknown,
    nodes,
)
from zskip.types import INTEGERS, DataType, Encoded, Form

_OPERATORS = {
    "equal": ("=", "="),
    "not_equal": ("!=", "!="),
    "less": ("<", ">"),
    "less_equal": ("<=", ">="),
    "greater": (">", "<"),
    "greater_equal": (">=", "<="),
}
"""Operator, and the operator for exchanged sides."""
_DEEPEST = 200
"""The deepest nesting of calls: nobody writes more by hand, and readers of predicates are recursive."""
_LONGEST = 300
"""Most characters of the text of an unknown part."""
_COPIED = 64
"""Most nodes of an operand that may be repeated."""


def from_pyarrow(expression: pc.Expression, columns: Columns) -> Predicate:
    """Bind an expression of pyarrow to the columns of a table. Raises ColumnError for unknown columns.

    >>> from zskip.records import Field
    >>> columns = Columns([Field(name="a", type=DataType("integer"))])
    >>> from_pyarrow(pc.field("a") >= 2.5, columns)
    Compare(op='>', term=Column(path=('a',), type=DataType(name='integer')), value=2)
    """
    reader = _Reader(columns)
    try:
        operand = fold(expression, field=reader.field, literal=reader.literal, call=reader.call)
    except ZskipError:
        raise
    except ValueError:
        return Unknown(str(expression)[:_LONGEST])
    return _to_predicate(operand)


@dataclass(frozen=True, slots=True)
class _Chain:
    """The operands of a chain of ANDs or ORs, which may be thousands long."""

    kind: type[And] | type[Or]
    parts: list[Predicate]


@dataclass(frozen=True, slots=True)
class _Operand:
    """Part of an expression: a term, a pyarrow scalar, a predicate, a chain, or None if not understood."""

    value: Any
    text: str
    depth: int = 0

    @property
    def term(self) -> Term | None:
        return self.value if isinstance(self.value, Term) else None

    @property
    def scalar(self) -> Any:
        return self.value if isinstance(self.value, pa.Scalar) else None


class _Reader:
    """Turns the parts of an expression into operands."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def field(self, path: tuple[str, ...]) -> _Operand:
        return _Operand(_column(self._columns, path), ".".join(path))

    def literal(self, scalar: Any) -> _Operand:
        try:
            return _Operand(scalar, str(scalar)[:_LONGEST])
        except (ValueError, OverflowError):
            return _Operand(scalar, "...")

    def call(self, name: str, arguments: list[_Operand], options: Any) -> _Operand:
        text = f"{name}({', '.join(argument.text for argument in arguments)})"[:_LONGEST]
        kind = _CHAINS.get(name)
        if kind is not None:
            return _chain(kind, arguments, text)
        handler = _HANDLERS.get(name)
        depth = 1 + max((argument.depth for argument in arguments), default=0)
        if handler is None or depth > _DEEPEST:
            return _Operand(None, text)
        return _Operand(handler(arguments, options), text, depth)


def _column(columns: Columns, path: tuple[str, ...]) -> Term | None:
    field = columns.resolve(path[:1])
    return Column((field.name,), field.type) if len(path) == 1 else None


def _to_predicate(operand: _Operand) -> Predicate:
    """Turn an operand into a predicate."""
    value = operand.value
    if isinstance(value, _Chain):
        return value.kind(tuple(value.parts))
    if isinstance(value, Predicate):
        return value
    if isinstance(value, Term):
        return Compare("=", value, 1) if value.type.name == "boolean" else Unknown(operand.text)
    if isinstance(value, pa.Scalar) and not value.is_valid:
        return Constant(None)
    if isinstance(value, pa.BooleanScalar):
        return Constant(bool(value.as_py()))
    return Unknown(operand.text)


_Handler = Callable[[list[_Operand], Any], "Predicate | Term | None"]


def _comparison(op: str, exchanged: str) -> _Handler:
    def handler(arguments: list[_Operand], options: Any) -> Predicate | None:
        left, right = arguments
        if left.term is not None and right.term is not None:
            return _compare_terms(op, left.term, right.term)
        if left.term is not None and right.scalar is not None:
            return arrow_values.compare(op, left.term, right.scalar)
        if right.term is not None and left.scalar is not None:
            return arrow_values.compare(exchanged, right.term, left.scalar)
        return None

    return handler


def _compare_terms(op: str, left: Term, right: Term) -> Predicate | None:
    sides = to_common_type(left, right, "UTC")
    if sides is None:
        return None
    leaf = CompareTerms("=" if op == "!=" else op, *sides)
    exact = _exclude_nan(leaf) if left.type.form is Form.FLOAT or right.type.form is Form.FLOAT else leaf
    return Not(exact) if op == "!=" else exact


def _exclude_nan(leaf: CompareTerms) -> Predicate:
    """Make NaN compare as false, and null where either side is null."""
    numbers = tuple(Compare("<", side, arrow_values.NAN) for side in (leaf.left, leaf.right))
    return Or((And((leaf, *numbers)), And((leaf, Not(leaf)))))


def _chain(kind: type[And] | type[Or], arguments: list[_Operand], text: str) -> _Operand:
    """Join operands with AND or OR; each is used only once, so the chain of the first may grow."""
    first = arguments[0].value
    chain = first if isinstance(first, _Chain) and first.kind is kind else _Chain(kind, [_to_predicate(arguments[0])])
    depth = arguments[0].depth if chain is first else arguments[0].depth + 1
    for argument in arguments[1:]:
        is_same_kind = isinstance(argument.value, _Chain) and argument.value.kind is kind
        chain.parts.extend(argument.value.parts if is_same_kind else [_to_predicate(argument)])
        depth = max(depth, argument.depth + (not is_same_kind))
    return _Operand(chain, text, depth) if depth <= _DEEPEST else _Operand(None, text)


def _strict_join(kind: type[And] | type[Or]) -> _Handler:
    """Join like Arrow's `and` and `or`: null where any operand is null."""

    def handler(arguments: list[_Operand], options: Any) -> Predicate | None:
        parts = [_to_predicate(argument) for argument in arguments]
        if any(sum(1 for _ in nodes(part)) > _COPIED for part in parts):
            return None
        if kind is And:
            return Or((And(tuple(parts)), *(And((part, Not(part))) for part in parts)))
        return And((Or(tuple(parts)), *(Or((part, Not(part))) for part in parts)))

    return handler


def _and_not(arguments: list[_Operand], options: Any) -> Predicate:
    left, right = map(_to_predicate, arguments)
    return And((left, Not(right)))


def _invert(arguments: list[_Operand], options: Any) -> Predicate:
    part = _to_predicate(arguments[0])
    return part.child if isinstance(part, Not) else Not(part)


def _is_null(arguments: list[_Operand], options: Any) -> Predicate | None:
    term = arguments[0].term
    if term is None:
        return is_null(_to_predicate(arguments[0]))
    if options is not None and options["nan_is_null"].as_py() and term.type.form is Form.FLOAT:
        return Or((IsNull(term), Compare("=", term, arrow_values.NAN)))
    return IsNull(term)


def _is_valid(arguments: list[_Operand], options: Any) -> Predicate | None:
    null = is_null(_to_predicate(arguments[0])) if arguments[0].term is None else IsNull(arguments[0].term)
    return None if null is None else Not(null)


def _is_nan(arguments: list[_Operand], options: Any) -> Predicate | None:
    term = arguments[0].term
    if term is None or term.type.form is Form.FLOAT:
        return None if term is None else Compare("=", term, arrow_values.NAN)
    return never(term) if term.type.is_integer or term.type.is_decimal else None


def _is_finite(arguments: list[_Operand], options: Any) -> Predicate | None:
    term = arguments[0].term
    if term is None or term.type.form is not Form.FLOAT:
        return None
    return And((Compare(">", term, -float("inf")), Compare("<", term, float("inf"))))


def _is_inf(arguments: list[_Operand], options: Any) -> Predicate | None:
    term = arguments[0].term
    if term is None or term.type.form is not Form.FLOAT:
        return None
    return In(term, (-float("inf"), float("inf")))


def _is_in(arguments: list[_Operand], options: Any) -> Predicate | None:
    """Read `is_in`: a null matches a null of the set (0) or nothing (1), is null (2), or follows SQL (3)."""
    term = arguments[0].term
    if term is None or options is None:
        return None
    scalars = options["value_set"].values
    membership = _one_of(term, [scalar for scalar in scalars if scalar.is_valid])
    if membership is None:
        return None
    with_null, behavior = scalars.null_count > 0, options["null_matching_behavior"].as_py()
    if behavior == 0 and with_null:
        return Or((IsNull(term), membership))
    if behavior in (0, 1):
        return And((Not(IsNull(term)), membership))
    if behavior == 3 and with_null:
        return Or((membership, Constant(None)))
    return membership if behavior in (2, 3) else None


def _one_of(term: Term, scalars: list[Any]) -> Predicate | None:
    """Test membership, null for null. Arrow looks floats up by their bits, so NaN and zero are uncertain."""
    values: set[Encoded] = set()
    uncertain: set[float] = set()
    for scalar in scalars:
        equal = (
            Compare("=", term, arrow_values.NAN)
            if _is_nan_scalar(term, scalar)
            else arrow_values.compare("=", term, scalar)
        )
        if not isinstance(equal, Compare):
            return None
        value = equal.value
        if isinstance(value, float) and (value == 0 or value != value):
            uncertain.add(0.0 if value == 0 else arrow_values.NAN)
        elif term.type.name == "float" and isinstance(value, float) and not is_single(value):
            return None
        else:
            values.add(value)
    membership = In(term, tuple(sorted(values)))
    alternatives = [
        And((Compare("=", term, value), Unknown("is_in", "compared by its bits"))) for value in sorted(uncertain)
    ]
    return Or((membership, *alternatives)) if alternatives else membership


def _is_nan_scalar(term: Term, scalar: Any) -> bool:
    return term.type.form is Form.FLOAT and pa.types.is_floating(scalar.type) and scalar.as_py() != scalar.as_py()


def _text_test(leaf: type[StartsWith] | type[EndsWith] | type[Contains]) -> _Handler:
    def handler(arguments: list[_Operand], options: Any) -> Predicate | None:
        term, pattern = arguments[0].term, _pattern(options)
        if term is None or pattern is None or term.type.name != "string":
            return None
        return leaf(term, pattern.encode())

    return handler


def _match_like(arguments: list[_Operand], options: Any) -> Predicate | None:
    r"""Read `match_like`, except patterns with `\`, which versions of Arrow read differently."""
    term, pattern = arguments[0].term, _pattern(options)
    if term is None or pattern is None or term.type.name != "string" or "\\" in pattern:
        return None
    return like(term, pattern)


def _pattern(options: Any) -> str | None:
    """Return the text to search for; None if case is ignored."""
    if options is None or options["ignore_case"].as_py():
        return None
    pattern = options["pattern"].as_py()
    return pattern if isinstance(pattern, str) else None


def _cast(arguments: list[_Operand], options: Any) -> Term | None:
    """Read a cast that keeps all values."""
    term = arguments[0].term
    if term is None or options is None:
        return None
    target = options.type.field("to_type").type
    if _keeps_values(term.type, target):
        return term
    if target == pa.float64() and term.type.name in ("byte", "short", "integer"):
        return functions.cast(term, DataType("double"), "UTC")
    return None


def _keeps_values(data_type: DataType, target: pa.DataType) -> bool:
    """Whether a cast changes no comparison."""
    if data_type.is_integer:
        return bool(pa.types.is_signed_integer(target) and target.bit_width >= INTEGERS[data_type.name])
    if data_type.is_decimal:
        wide = pa.types.is_decimal(target) and target.scale >= data_type.scale
        return bool(wide and target.precision - target.scale >= data_type.precision - data_type.scale)
    if data_type.name == "date":
        return target == pa.date32() or target in (pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"))
    if data_type.name == "timestamp":
        return bool(pa.types.is_timestamp(target) and target.unit == "us" and target.tz is not None)
    return target in _SAME.get(data_type.name, ())


_BINARY = (pa.binary(), pa.large_binary())
_SAME: dict[str, tuple[pa.DataType, ...]] = {
    "boolean": (pa.bool_(),),
    "float": (pa.float32(), pa.float64()),
    "double": (pa.float64(),),
    "string": (pa.string(), pa.large_string(), *_BINARY),
    "binary": _BINARY,
    "timestamp_ntz": (pa.timestamp("us"),),
}
_CHAINS: dict[str, type[And] | type[Or]] = {"and_kleene": And, "or_kleene": Or}
_HANDLERS: dict[str, _Handler] = {
    **{name: _comparison(*operators) for name, operators in _OPERATORS.items()},
    **dict.fromkeys(("and", "and_"), _strict_join(And)),
    **dict.fromkeys(("or", "or_"), _strict_join(Or)),
    "and_not_kleene": _and_not,
    "invert": _invert,
    "is_null": _is_null,
    "is_valid": _is_valid,
    "is_nan": _is_nan,
    "is_finite": _is_finite,
    "is_inf": _is_inf,
    "is_in": _is_in,
    "starts_with": _text_test(StartsWith),
    "ends_with": _text_test(EndsWith),
    "match_substring": _text_test(Contains),
    "match_like": _match_like,
    "cast": _cast,
}
