"""Types of terms: casts that keep the order, and the common type in which Spark compares two terms."""

from __future__ import annotations

from zskip.predicate import functions, opaque
from zskip.predicate.functions.numbers import cast_result
from zskip.predicate.literals import WHOLE_DIGITS
from zskip.predicate.tree import Call, Opaque, Term
from zskip.predicate.type_names import named_type, sql_name
from zskip.types import INTEGERS, DataType


def cast_term(term: Term, target: str, timezone: str, *, strict: bool = False) -> Term | None:
    """Cast a term; None for casts that do not keep the order.

    strict: whether it is known that the cast follows ANSI, as `try_cast` does, so that '1.5' is no INT.
    """
    if target == sql_name(term.type):
        return term if term.type.name != "string" else None  # Lengths and collations are strings to sqlglot, too.
    if term.type.is_time and (clock := DataType(target.lower())).is_time:
        return term if clock.time_unit <= term.type.time_unit else None
    if term.type.name == "variant" or (isinstance(term, Opaque) and term.type.name == "string"):
        return opaque.cast(term, target, timezone, strict=strict)
    return functions.cast(term, named_type(target), timezone)


def strip_casts(term: Term) -> tuple[Term, list[str]]:
    """Strip casts that change no comparison; returns the term below and the target types, outermost first."""
    casts = []
    while isinstance(term, Call) and term.function == "cast" and _widens(term.term.type, term.type):
        casts.append(sql_name(term.type))
        term = term.term
    return term, casts


def to_common_type(left: Term, right: Term, timezone: str) -> tuple[Term, Term] | None:
    """Cast two terms to one type, as Spark does; None if the type is uncertain or values may change."""
    if left.type != right.type:
        common_type = _common_type(left.type, right.type)
        if common_type is None:
            return None
        left_cast, right_cast = (cast_term(term, sql_name(common_type), timezone) for term in (left, right))
        if left_cast is None or right_cast is None:
            return None
        left, right = left_cast, right_cast
    return (left, right) if left.type.form is not None else None


def _common_type(left: DataType, right: DataType) -> DataType | None:
    if left.is_integer and right.is_integer:
        return max(left, right, key=lambda t: INTEGERS[t.name])
    names = {left.name, right.name}
    if names == {"float", "double"} or ("double" in names and names & {"byte", "short", "integer"}):
        return DataType("double")
    if "date" in names and names & {"timestamp", "timestamp_ntz"}:
        return left if right.name == "date" else right
    sizes = [_digits(t) for t in (left, right)]
    if None in sizes:
        return None
    whole, scale = (max(parts) for parts in zip(*(size for size in sizes if size), strict=True))
    return DataType(f"decimal({whole + scale},{scale})") if whole + scale <= 38 else None


def _digits(data_type: DataType) -> tuple[int, int] | None:
    if data_type.is_decimal:
        return data_type.precision - data_type.scale, data_type.scale
    return (WHOLE_DIGITS[data_type.name], 0) if data_type.is_integer else None


def _widens(data_type: DataType, target: DataType) -> bool:
    """Whether a cast keeps every value and their order."""
    if target.name == "double":
        return data_type.name in ("float", "double", "byte", "short", "integer")
    return cast_result(data_type, target)
