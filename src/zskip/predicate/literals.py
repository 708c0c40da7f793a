"""Comparisons of a term with a literal, with the exact meaning that they have in Spark.

Spark casts both sides to a common type first. Each function here handles one type of term: it returns an exact
equivalent in the form of that type, or None, and then the comparison becomes Unknown.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from zskip.predicate.tree import Column, Compare, Constant, In, Predicate, Term
from zskip.predicate.type_names import INTEGER_TYPES, named_type, sql_name
from zskip.predicate.zones import micros_of, zone_of
from zskip.types import DataType, Encoded, Form, encode_decimal, value_range

_EXACT_DOUBLE = 2**53
_EXACT_FLOAT = 2**24
MOST_DIGITS = 38
"""The most digits of a decimal in Spark."""
WHOLE_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
"""Digits of the decimals that Spark casts integers to; 19 would do for a long."""
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})", re.ASCII)
_AFTER_DAY = re.compile(r"(\d{4}-\d{2}-\d{2})[ T].*", re.ASCII | re.DOTALL)
_TIMESTAMP = re.compile(
    r"(\d{4}|[1-9]\d{4,5})(-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}:\d{2})(?:\.(\d{1,6}))?)?\s?(\S+)?", re.ASCII
)
_CLOCK = re.compile(r"(\d{2}:\d{2}:\d{2})(?:\.(\d{1,6}))?", re.ASCII)
_CYCLE, _CYCLE_MICROS = 400, 146_097 * 86_400 * 10**6
"""The calendar repeats after so many years, of so many microseconds."""
_FIRST_SAFE_YEAR = 1970
"""Before this year the zone data of Java and Python may differ, since they merge names in different ways."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal of SQL: its kind and Python value (timestamps as microseconds)."""

    kind: str
    """`int`, `decimal`, `double`, `float`, `string`, that of a collation, `binary`, `boolean`, `date`, `timestamp`,
    `timestamp_ntz`, `time` in nanoseconds, `micros` or `months` of an interval, or `null`."""
    value: object
    """For a null, the type that it is cast to, or None."""
    type: str = ""
    """Of an integer whose type is written, its name; `day` of an interval that has only days."""


def literal_text(literal: Literal) -> str | None:
    """Write a plain number, string, or boolean in its normal form; None for others.

    >>> literal_text(Literal("decimal", decimal.Decimal("1.50"))), literal_text(Literal("string", "it's"))
    ('1.50BD', "'it\\\\'s'")
    """
    value = literal.value
    if literal.kind == "string":
        return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"
    if literal.kind == "decimal" and isinstance(value, decimal.Decimal):
        return f"{value:f}BD"
    if literal.kind == "double" and isinstance(value, float) and math.isfinite(value):
        return f"{value!r}D"
    return str(value).lower() if literal.kind in ("int", "boolean") else None


def compare(op: str, term: Term, literal: Literal, timezone: str) -> Predicate | None:
    """`term op literal` for op one of `=`, `<`, `<=`, `>`, `>=`; None if Spark's meaning is uncertain.

    >>> from zskip.predicate.tree import Column
    >>> compare("<", Column(("a",), DataType("integer")), Literal("decimal", decimal.Decimal("1.5")), "UTC")
    Compare(op='<=', term=Column(path=('a',), type=DataType(name='integer')), value=1)
    """
    if literal.kind == "null":
        return Constant(None)
    for accepts, compare_type in _BY_TYPE:
        if accepts(term.type):
            return compare_type(op, term, literal, timezone)
    return None


def always(term: Term) -> Predicate:
    """True wherever the term is not null, else null."""
    if term.type.form is Form.FLOAT:
        return Compare(">=", term, -math.inf)
    if term.type.is_decimal:
        return Compare(">=", term, encode_decimal(value_range(term.type)[0], term.type))
    return Compare(">=", term, -(2**63) if term.type.form is Form.INT else b"")


def never(term: Term) -> Predicate:
    """False wherever the term is not null, else null."""
    return In(term, ())


def _whole(op: str, term: Term, literal: Literal, timezone: str) -> Predicate | None:
    value = literal.value
    if op != "=" and isinstance(value, int | decimal.Decimal) and not -(2**63) <= value <= 2**63 - 1:
        return None  # Spark folds it to true or false for every row, even where the column is null.
    if literal.kind == "int" and isinstance(value, int):
        return exact(op, term, Fraction(value))
    if literal.kind == "decimal" and isinstance(value, decimal.Decimal):
        return exact(op, term, Fraction(value)) if _fits(WHOLE_DIGITS[term.type.name], 0, value) else None
    if literal.kind in ("double", "float") and isinstance(value, float):
        if math.isnan(value) or math.isinf(value):
            above = not value < 0
            return always(term) if (op in ("<", "<=")) == above and op != "=" else never(term)
        most = _EXACT_FLOAT if literal.kind == "float" else _EXACT_DOUBLE
        return exact(op, term, Fraction(value)) if abs(value) < most else None
    return None


def _decimals(op: str, term: Term, literal: Literal, timezone: str) -> Predicate | None:
    value = literal.value
    if literal.kind == "int" and isinstance(value, int):
        value = decimal.Decimal(value)
    if literal.kind in ("int", "decimal") and isinstance(value, decimal.Decimal):
        if not isinstance(term, Column) and digits(value)[1] > term.type.scale:
            return None  # The type of a sum may have more digits than it has here, so that Spark rounds the literal.
        whole = term.type.precision - term.type.scale
        if _fits(max(whole, 20 if literal.kind == "int" else 0), term.type.scale, value):
            return exact(op, term, Fraction(value))
    return None


def common(term: Term, literals: list[Literal], casts: list[str]) -> list[Literal] | None:
    """Cast the literals of an IN list, or those compared with a term under casts, to one type as Spark does.

    One literal may change how others compare: next to a double, `9007199254740993` is rounded. None if Spark's common
    type is uncertain.
    """
    kinds = {literal.kind for literal in literals}
    nulls = [str(literal.value) for literal in literals if literal.kind == "null" and literal.value]
    if not all(_compares_directly(term.type, null) for null in nulls):
        return None
    casts = [*casts, *nulls]
    if "double" in kinds or "DOUBLE" in casts or {"float", "decimal"} <= kinds:
        return [_to_double(literal) for literal in literals]
    if "string" in kinds and term.type.name in ("timestamp", "timestamp_ntz"):
        return None
    if "float" in kinds and term.type.is_integer:
        return None  # A single may have rounded the others.
    if term.type.name == "date" and any(_is_no_date(literal) for literal in literals):
        return None  # Outside ANSI mode, Spark compares dates with a list of strings as strings.
    types = [term.type, *map(named_type, casts)]
    if term.type.form is Form.FLOAT or not ("decimal" in kinds or any(t.is_decimal for t in types)):
        return literals
    sizes = [(t.precision - t.scale, t.scale) for t in types if t.is_decimal]
    sizes += [(WHOLE_DIGITS["long"], 0)] * (term.type.is_integer or not INTEGER_TYPES.keys().isdisjoint(casts))
    for literal in literals:
        if isinstance(literal.value, int) and literal.kind == "int":
            sizes.append((10 if -(2**31) <= literal.value < 2**31 else max(20, len(str(abs(literal.value)))), 0))
        elif isinstance(literal.value, decimal.Decimal):
            sizes.append(digits(literal.value))
    fits = max(whole for whole, _ in sizes) + max(scale for _, scale in sizes) <= MOST_DIGITS
    return literals if fits else None


def _is_no_date(literal: Literal) -> bool:
    return literal.kind == "string" and date_days(literal.value) is None


def _compares_directly(data_type: DataType, cast: str) -> bool:
    """Whether a value cast to a type compares with a column as numbers do, or without any cast."""
    if data_type.is_integer or data_type.is_decimal or data_type.form is Form.FLOAT:
        return cast in INTEGER_TYPES or cast == "DOUBLE" or cast.startswith("DECIMAL(") or cast == sql_name(data_type)
    return cast == sql_name(data_type)


def _to_double(literal: Literal) -> Literal:
    if literal.kind in ("int", "decimal"):
        return Literal("double", float(str(literal.value)))
    return literal


def digits(value: decimal.Decimal) -> tuple[int, int]:
    """Count the digits of a number before and after the point."""
    _, digits, exponent = value.as_tuple()
    places = max(-int(exponent), 0)
    return max(len(digits) - places, 0) + max(int(exponent), 0), places


def _fits(whole: int, scale: int, value: decimal.Decimal) -> bool:
    """Whether the common type of a column and a decimal literal holds both without rounding."""
    before, places = digits(value)
    return max(whole, before) + max(scale, places) <= MOST_DIGITS


def exact(op: str, term: Term, value: Fraction) -> Predicate:
    """Compare a term of whole numbers, or of decimals, with any rational number."""
    scaled = value * 10**term.type.scale if term.type.is_decimal else value
    floor = math.floor(scaled)
    if floor != scaled:
        if op == "=":
            return never(term)
        op = "<=" if op in ("<", "<=") else ">"
    least, most = value_range(term.type)
    if floor < least:
        return always(term) if op in (">", ">=") else never(term)
    if floor > most:
        return always(term) if op in ("<", "<=") else never(term)
    return Compare(op, term, encode_decimal(floor, term.type) if term.type.is_decimal else floor)


def _floats(op: str, term: Term, literal: Literal, timezone: str) -> Predicate | None:
    value = literal.value
    single = term.type.name == "float"
    if literal.kind == "int" and isinstance(value, int):
        if single and abs(value) > _EXACT_FLOAT:
            return None
        return Compare(op, term, float(str(value)))
    if literal.kind == "decimal" and isinstance(value, decimal.Decimal):
        return Compare(op, term, float(value))
    if literal.kind in ("double", "float") and isinstance(value, float):
        return Compare(op, term, value)
    return None


def _booleans(op: str, term: Term, literal: Literal, timezone: str) -> Predicate | None:
    return Compare(op, term, int(bool(literal.value))) if literal.kind == "boolean" else None


def _strings(op: str, term: Term, literal: Literal, timezone: str) -> Predicate | None:
    value = literal.value
    return Compare(op, term, value.encode()) if literal.kind == "string" and isinstance(value, str) else None


def _binaries(op: str, term: Term, literal: Literal, timezone: str) -> Predicate | None:
    value = literal.value
    return Compare(op, term, value) if literal.kind == "binary" and isinstance(value, bytes) else None


def _dates(op: str, term: Term, literal: Literal, timezone: str) -> Predicate | None:
    days = date_days(day_of(str(literal.value))) if literal.kind in ("date", "string") else None
    return None if days is None else Compare(op, term, days)


def _timestamps(op: str, term: Term, literal: Literal, timezone: str) -> Predicate | None:
    plain = term.type.name == "timestamp_ntz"
    micros: int | None = None
    if literal.kind == term.type.name and isinstance(literal.value, int):
        micros = literal.value
    elif literal.kind in ("string", "date") and isinstance(literal.value, str):
        micros = timestamp_micros(literal.value, None if plain else timezone)
    return None if micros is None else Compare(op, term, micros)


def _times(op: str, term: Term, literal: Literal, timezone: str) -> Predicate | None:
    nanos = literal.value
    return exact(op, term, Fraction(nanos, 1000)) if literal.kind == "time" and isinstance(nanos, int) else None


def _intervals(op: str, term: Term, literal: Literal, timezone: str) -> Predicate | None:
    kind = "months" if term.type.is_months else "micros"
    return Compare(op, term, literal.value) if literal.kind == kind and isinstance(literal.value, int) else None


def date_days(text: object) -> int | None:
    """Read `yyyy-mm-dd` as days since 1970; None for any other form.

    >>> date_days("1970-01-11"), date_days("70-1-11")
    (10, None)
    """
    match = _DATE.fullmatch(text) if isinstance(text, str) else None
    try:
        return None if match is None else (dt.date(*map(int, match.groups())) - dt.date(1970, 1, 1)).days
    except ValueError:
        return None


def day_of(text: str) -> str:
    """Return the part of a string that a cast to a date reads: all up to a blank or a T after the day.

    >>> day_of("2021-01-01 18:00:00"), day_of("2021-01 18:00:00")
    ('2021-01-01', '2021-01 18:00:00')
    """
    match = _AFTER_DAY.fullmatch(text)
    return text if match is None else match[1]


def time_nanos(text: str) -> int | None:
    """Read `hh:mm:ss`, with at most six digits after the second, as nanoseconds since midnight; None for other forms.

    >>> time_nanos("00:01:00.5"), time_nanos("1:00")
    (60500000000, None)
    """
    match = _CLOCK.fullmatch(text)
    try:
        clock = None if match is None else dt.time.fromisoformat(match[1])
    except ValueError:
        return None
    if match is None or clock is None:
        return None
    seconds = (clock.hour * 60 + clock.minute) * 60 + clock.second
    return seconds * 10**9 + int((match[2] or "0").ljust(9, "0"))


def timestamp_micros(text: str, timezone: str | None) -> int | None:
    """Read a full date and an optional time as microseconds since 1970; without `timezone` a Z is ignored.

    None for other forms, for local times that a zone skips or repeats, and for times too long ago to be certain.

    >>> timestamp_micros("1970-01-01 00:00:01.5", "UTC"), timestamp_micros("1970-1-1", "UTC")
    (1500000, None)
    """
    match = _TIMESTAMP.fullmatch(text)
    if match is None or (match[5] and (not match[3] or (timezone is None and match[5] != "Z"))):
        return None
    year = int(match[1])
    cycles = (year - 2000) // _CYCLE if year > dt.MAXYEAR else 0
    try:
        local = dt.datetime.fromisoformat(f"{year - cycles * _CYCLE:04}{match[2]} {match[3] or '00:00:00'}")
    except ValueError:
        return None
    local = local.replace(microsecond=int((match[4] or "0").ljust(6, "0")))
    zone = "UTC" if timezone is None else match[5] or timezone
    if not isinstance(zone_of(zone), dt.timezone) and (year < _FIRST_SAFE_YEAR or cycles):
        return None
    micros = micros_of(local, zone)
    shifted = None if micros is None else micros + cycles * _CYCLE_MICROS
    return shifted if shifted is None or shifted < 2**63 else None


_Comparison = Callable[[str, Term, Literal, str], "Predicate | None"]
_BY_TYPE: tuple[tuple[Callable[[DataType], bool], _Comparison], ...] = (
    (lambda t: t.is_integer, _whole),
    (lambda t: t.is_decimal, _decimals),
    (lambda t: t.form is Form.FLOAT, _floats),
    (lambda t: t.name == "boolean", _booleans),
    (lambda t: t.name == "string", _strings),
    (lambda t: t.name == "binary", _binaries),
    (lambda t: t.name == "date", _dates),
    (lambda t: t.name in ("timestamp", "timestamp_ntz"), _timestamps),
    (lambda t: t.is_time, _times),
    (lambda t: t.is_interval, _intervals),
)


def is_nan(value: Encoded) -> bool:
    """Whether an encoded value is NaN."""
    return isinstance(value, float) and math.isnan(value)


def is_single(value: float) -> bool:
    """Whether a 32-bit float can hold this number."""
    with np.errstate(over="ignore"):
        return float(np.float32(value)) == value
