"""Leaves of terms and literals, whoever read those: the same for SQL text and for Catalyst's own trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from zskip.predicate import opaque
from zskip.predicate.calls import Side
from zskip.predicate.casts import cast_term, strip_casts, to_common_type
from zskip.predicate.literals import Literal, common, compare, is_nan, never
from zskip.predicate.tree import (
    And,
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
)
from zskip.predicate.type_names import sql_name
from zskip.types import INTEGERS, UTF8_LCASE, Encoded, Form, value_range

TextTest: TypeAlias = type[StartsWith | EndsWith | Contains]
_EXCHANGED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def compare_sides(op: str, left: Side, right: Side, timezone: str) -> Predicate | None:
    """Bind `left op right` of a term and a literal in either order, or of two terms; None for anything else."""
    if left is None or right is None:
        return None
    if isinstance(left, Literal):
        return None if isinstance(right, Literal) else compare_sides(_EXCHANGED[op], right, left, timezone)
    if isinstance(right, Literal):
        keys = _by_key(left, [right])
        side = None if keys is None else align(keys[0], keys[1][0], timezone)
        return None if side is None else compare(op, *side, timezone)
    sides = to_common_type(left, right, timezone)
    return None if sides is None else CompareTerms(op, *sides)


def _by_key(term: Term, literals: Sequence[Literal]) -> tuple[Term, Sequence[Literal]] | None:
    """Replace a text with the collation UTF8_LCASE, and literals, by their keys; None where a key is uncertain."""
    key = opaque.collation_key(term)
    if key is None:
        return term, literals
    keys: list[Literal] = []
    for literal in literals:
        if literal.kind == "null":
            keys.append(Literal("null", None))
            continue
        is_text = literal.kind in ("string", UTF8_LCASE) and isinstance(literal.value, str)
        value = opaque.lower_case_key(str(literal.value)) if is_text else None
        if value is None:
            return None
        keys.append(Literal("binary", value))
    return key, keys


def align(term: Term, literal: Literal | None, timezone: str) -> tuple[Term, Literal] | None:
    """Align a term and a literal: strip casts that change nothing, add those that Spark adds."""
    if literal is None:
        return None
    if term.type.name == "date" and literal.kind in ("timestamp", "timestamp_ntz"):
        wider = cast_term(term, literal.kind.upper(), timezone)
        return None if wider is None else (wider, literal)
    inner, casts = strip_casts(term)
    if not casts:
        return term, literal
    cast_literals = common(inner, [literal], casts)
    return None if cast_literals is None else (inner, cast_literals[0])


def not_equal(left: Side, right: Side, timezone: str) -> Predicate | None:
    """Bind `left != right`."""
    if left == right and left is not None and not isinstance(left, Literal):
        return never(left)
    equal = compare_sides("=", left, right, timezone)
    return None if equal is None else Not(equal)


def null_safe_equal(left: Side, right: Side, timezone: str) -> Predicate | None:
    """Bind `left <=> right`: both null, or neither and equal; never null itself."""
    if isinstance(left, Literal):
        left, right = right, left
    if left is None or right is None or isinstance(left, Literal):
        return None
    if isinstance(right, Literal):
        side = align(left, right, timezone)
        if side is None:
            return None
        term, literal = side
        if literal.kind == "null":
            return IsNull(term) if literal.value in (None, sql_name(term.type)) else None
        equal = compare("=", term, literal, timezone)
        return None if equal is None else And((Not(IsNull(term)), equal))
    sides = to_common_type(left, right, timezone)
    if sides is None:
        return None
    left_null, right_null = map(is_null, sides)
    return Or((And((left_null, right_null)), And((Not(left_null), Not(right_null), CompareTerms("=", *sides)))))


def is_null(term: Term) -> IsNull:
    """Bind `term IS NULL`."""
    return IsNull(strip_casts(term)[0])


def is_true(term: Term | None) -> Predicate | None:
    """Bind a boolean term as a condition; None for others."""
    return Compare("=", term, 1) if term is not None and term.type.name == "boolean" else None


def is_nan_value(term: Term | None) -> Predicate | None:
    """Bind `isnan(term)`, which is never null; other numbers are cast to double and are never NaN."""
    if term is None:
        return None
    term, _ = strip_casts(term)
    if term.type.form is Form.FLOAT:
        return And((Not(IsNull(term)), Compare("=", term, float("nan"))))
    return And((Not(IsNull(term)), never(term))) if term.type.is_integer or term.type.is_decimal else None


def is_in(term: Term, literals: Sequence[Literal], timezone: str) -> Predicate | None:
    """Bind `term IN (...)`; None if some value cannot be compared exactly."""
    keys = _by_key(term, literals)
    if keys is None:
        return None
    term, casts = strip_casts(keys[0])
    of_one_type = common(term, list(keys[1]), casts)
    if of_one_type is None:
        return None
    values: set[Encoded] = set()
    extra: list[Predicate] = []
    for literal in of_one_type:
        equal = compare("=", term, literal, timezone)
        if equal is None:
            return None
        if isinstance(equal, Compare) and not is_nan(equal.value):
            values.add(equal.value)
        elif equal != never(term) and equal not in extra:
            extra.append(equal)
    membership = In(term, tuple(sorted(values)))
    return Or((membership, *extra)) if extra else membership


def is_in_values(term: Term, data_type: str, values: Sequence[Any]) -> Predicate | None:
    """Bind `term IN (...)` of values of the term's type, as long lists come from Spark; None if `is_in` has to.

    data_type: Spark's name of the type; values: strings or integers, None for null.
    """
    term, casts = strip_casts(term)
    if data_type == term.type.name == "string" and not casts:
        return None if None in values else In(term, tuple(sorted({value.encode() for value in values})))
    if data_type not in INTEGERS or term.type.name not in INTEGERS or None in values:
        return None
    least, most = value_range(term.type)
    return In(term, tuple(sorted({value for value in values if least <= value <= most})))


def has_part(leaf: TextTest, term: Term | None, literal: Literal | None) -> Predicate | None:
    """Bind a test of a string's start, end or parts; None for other types."""
    if term is None or literal is None or term.type.name != "string" or literal.kind not in ("string", "null"):
        return None
    return Constant(None) if literal.kind == "null" else leaf(term, str(literal.value).encode())
