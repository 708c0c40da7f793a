"""Comparisons with literals of any size against an oracle that reckons in fractions."""

import decimal
import math
import operator
from fractions import Fraction

import pytest
import tiers
from hypothesis import given, settings
from hypothesis import strategies as st

from zskip.predicate import Column, Columns, Compare, Constant, In, Or, Unknown, parse, to_sql
from zskip.predicate.literals import Literal, compare
from zskip.records import Field
from zskip.types import INTEGERS, DataType, decode_decimal

OPS = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
TYPES = [*INTEGERS, "decimal(1,0)", "decimal(1,1)", "decimal(9,2)", "decimal(18,18)", "decimal(20,5)", "decimal(38,38)"]
WIDE = decimal.Context(prec=400)


def ends(data_type):
    if data_type.is_decimal:
        return 1 - 10**data_type.precision, 10**data_type.precision - 1
    return -(2 ** (INTEGERS[data_type.name] - 1)), 2 ** (INTEGERS[data_type.name] - 1) - 1


def holds(predicate, unscaled, data_type):
    """Whether a bound predicate is true of a value that is not null."""
    if isinstance(predicate, In):
        return any(decode_decimal(v, data_type) == unscaled for v in predicate.values)
    return OPS[predicate.op](unscaled, decode_decimal(predicate.value, data_type))


@st.composite
def literals(draw):
    kind = draw(st.sampled_from(["int", "decimal", "double"]))
    if kind == "double":
        return Literal(kind, draw(st.floats() | st.integers(-(2**70), 2**70).map(float)))
    digits = draw(st.integers(-20, 20) | st.integers(-(2**65), 2**65) | st.integers(-(10**50), 10**50))
    if kind == "int":
        return Literal(kind, digits)
    scale = draw(st.integers(-3, 40))
    return Literal(kind, decimal.Decimal(digits).scaleb(-scale, WIDE))


@tiers.examples(500, quick=60)
@given(st.data(), st.sampled_from(TYPES), st.sampled_from(sorted(OPS)), literals())
def test_settled_comparisons_are_exact(data, name, op, literal):
    data_type = DataType(name)
    predicate = compare(op, Column(("a",), data_type), literal, "UTC")
    if predicate is None:
        return
    least, most = ends(data_type)
    scale = data_type.scale if data_type.is_decimal else 0
    values = st.integers(least, most) | st.sampled_from([least, most])
    if not isinstance(literal.value, float) or math.isfinite(literal.value):
        near = math.floor(Fraction(literal.value) * 10**scale)
        values = (
            values | st.integers(near - 2, near + 2).filter(lambda n: least <= n <= most)
            if (least - 2 <= near <= most + 2)
            else values
        )
    for unscaled in data.draw(st.lists(values, min_size=1, max_size=5)):
        value = Fraction(unscaled, 10**scale)
        if isinstance(literal.value, float) and not math.isfinite(literal.value):
            expected = op in ("<", "<=") if not literal.value < 0 else op in (">", ">=")
        elif literal.kind == "double":
            expected = OPS[op](float(value), literal.value)
        else:
            expected = OPS[op](value, Fraction(literal.value))
        assert holds(predicate, unscaled, data_type) == expected, (unscaled, predicate)


@pytest.mark.parametrize("value", [0, 7, -(2**31), 2**53 - 1])
def test_common_literals_are_settled(value):
    for name in (*INTEGERS, "decimal(9,2)", "decimal(18,3)"):
        column = Column(("a",), DataType(name))
        assert compare("<", column, Literal("int", value), "UTC") is not None
        assert compare("<", column, Literal("decimal", decimal.Decimal(value)), "UTC") is not None
        if not column.type.is_decimal:
            assert compare("<", column, Literal("double", float(value)), "UTC") is not None


def test_null_and_other_types():
    column = Column(("a",), DataType("integer"))
    assert compare("=", column, Literal("null", None), "UTC") == Constant(None)
    assert compare("=", column, Literal("string", "1"), "UTC") is None
    assert compare("=", Column(("a",), DataType("array<integer>")), Literal("int", 1), "UTC") is None
    assert compare("=", Column(("a",), DataType("interval day")), Literal("int", 1), "UTC") is None


@tiers.examples(150, quick=50)
@given(
    st.sampled_from(["long", "integer", "decimal(20,5)"]),
    st.lists(
        st.sampled_from(["1", "2.5", "-3L", "9007199254740993", "0.99999999999999999999", "1e0", "12345678901BD"])
    ),
)
def test_lists_are_compared_in_their_common_type(name, written):
    if not written:
        return
    columns = Columns([Field(name="a", type=DataType(name))])
    predicate = parse(f"a IN ({', '.join(written)})", columns)
    if isinstance(predicate, Unknown):
        return
    values = [Fraction(text.rstrip("LBD")) for text in written]
    if "1e0" in written:
        values = [Fraction(float(value)) for value in values]
    parts = predicate.children if isinstance(predicate, Or) else (predicate,)
    scale = 5 if name.startswith("decimal") else 0
    for candidate in {-3, 1, 2, Fraction(5, 2), 12345678901, 2**53, 2**53 + 1}:
        unscaled = candidate * 10**scale
        low, high = ends(DataType(name))
        if unscaled != int(unscaled) or not low <= unscaled <= high:
            continue
        as_compared = Fraction(float(candidate)) if "1e0" in written else candidate
        expected = as_compared in values
        assert any(holds(part, int(unscaled), DataType(name)) for part in parts) == expected


@settings(deadline=None)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.booleans())
def test_single_literals(value, negative):
    columns = Columns([Field(name="f", type=DataType("float"))])
    predicate = parse(f"f = CAST('{value!r}' AS FLOAT)", columns)
    if value:
        assert predicate == Compare("=", Column(("f",), DataType("float")), value)
    # 2**-24 above 1 is in the middle of two singles, and just above it the upper one is nearer.
    assert isinstance(parse("f = CAST('1.000000059604644775390625000000001' AS FLOAT)", columns), Unknown)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ds < INTERVAL '5' DAY", 5 * 86_400_000_000),
        ("ds < INTERVAL '-1 02:03:04.5' DAY TO SECOND", -(26 * 3600 + 184) * 1_000_000 - 500_000),
        ("ds < INTERVAL '-106751991 04:00:54.775808' DAY TO SECOND", -(2**63)),
        ("ds < INTERVAL '25:30' HOUR TO MINUTE", 25 * 3_600_000_000 + 1_800_000_000),
        ("ds < INTERVAL '00.000001' SECOND", 1),
        ("INTERVAL 3 HOURS > ds", 3 * 3_600_000_000),
        ("ym < INTERVAL '-2-6' YEAR TO MONTH", -30),
        ("ym < INTERVAL '7' YEAR", 84),
        ("ym < INTERVAL '7' MONTH", 7),
        ("ds < INTERVAL '7' MONTH", None),
        ("ym < INTERVAL '7' DAY", None),
        ("ds < INTERVAL '7 days 3 hours'", None),
        ("ds < INTERVAL '1' WEEK", None),
        ("ds < INTERVAL '1 2' YEAR TO MONTH", None),
        ("ds < INTERVAL '1' SECOND TO DAY", None),
        ("ds < 5", None),
        ("ds < '5'", None),
        ("n < INTERVAL '5' DAY", None),
        ("n + INTERVAL '5' DAY < 5", None),
        ("t < INTERVAL '5' DAY", None),
    ],
)
def test_intervals(text: str, value: int | None) -> None:
    types = {"ds": "interval day to second", "ym": "interval year to month", "n": "long", "t": "timestamp"}
    columns = Columns([Field(name=k, type=DataType(v)) for k, v in types.items()], case_sensitive=False, where="t")
    predicate = parse(text, columns, timezone="UTC")
    if value is None:
        assert isinstance(predicate, Unknown)
    else:
        name = "ym" if text.startswith("ym") else "ds"
        assert predicate == Compare("<", Column((name,), DataType(types[name])), value)
        assert parse(to_sql(predicate), columns, timezone="UTC") == predicate


@pytest.mark.parametrize("text", ["\0", "\0a", "a\0"])
def test_a_text_may_begin_with_any_character(text: str) -> None:
    columns = Columns([Field(name="s", type=DataType("string"))])
    assert parse(f"s = '{text}'", columns) == Compare("=", Column(("s",), DataType("string")), text.encode())
    assert isinstance(parse(rf"s = '{text}\x41'", columns), Unknown), "Spark and sqlglot differ about this escape"
