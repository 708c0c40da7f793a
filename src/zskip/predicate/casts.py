"""The types of terms: casts that keep what they say, and the one type in which Spark compares two terms."""

from __future__ import annotations

from zskip.predicate import functions
from zskip.predicate.literals import INTEGER_TYPES
from zskip.predicate.tree import Call, Term
from zskip.types import INTEGERS, DataType

WHOLE_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
"""Of the decimals that Spark casts integers to; 19 would hold all of a long."""
_SQL_NAMES = {name: sql for sql, name in INTEGER_TYPES.items()}
_NAMES = {**INTEGER_TYPES, "TIMESTAMP_LTZ": "timestamp"}


def cast_term(term: Term, target: str, timezone: str) -> Term | None:
    """A term under a cast that keeps the order; None under any other."""
    if target == sql_name(term.type):
        return term if term.type.name != "string" else None  # Lengths and collations are strings to sqlglot, too.
    return functions.cast(term, DataType(_NAMES.get(target, target.lower().replace(" ", ""))), timezone)


def peeled(term: Term) -> tuple[Term, list[str]]:
    """What is below casts that change no comparison, and the names of their types, outermost first."""
    casts = []
    while isinstance(term, Call) and term.function == "cast" and _widens(term.term.type, sql_name(term.type)):
        casts.append(sql_name(term.type))
        term = term.term
    return term, casts


def alike(left: Term, right: Term, timezone: str) -> tuple[Term, Term] | None:
    """Two terms as Spark brings them to one type; None where it is not sure which, or values may change."""
    if left.type != right.type:
        wanted = _common_type(left.type, right.type)
        if wanted is None:
            return None
        one, other = (cast_term(term, sql_name(wanted), timezone) for term in (left, right))
        if one is None or other is None:
            return None
        left, right = one, other
    return (left, right) if left.type.form is not None else None


def sql_name(data_type: DataType) -> str:
    """A type as SQL names it.

    >>> sql_name(DataType("long")), sql_name(DataType("decimal(9,2)"))
    ('BIGINT', 'DECIMAL(9, 2)')
    """
    if data_type.is_decimal:
        return f"DECIMAL({data_type.precision}, {data_type.scale})"
    return _SQL_NAMES.get(data_type.name, data_type.name.upper())


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
    return False
