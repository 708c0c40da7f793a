"""Filters for pyiceberg keep just the rows that the oracle keeps, by pyiceberg's evaluator and by pyarrow."""

import random
import sys

import arrow_tables
import pytest
import random_tables
import tiers
from fuzz import possible

from zskip.errors import MissingDependencyError, UnsupportedError
from zskip.predicate import (
    And,
    Column,
    Compare,
    CompareTerms,
    Constant,
    Contains,
    EndsWith,
    In,
    IsNull,
    Like,
    Not,
    Or,
    StartsWith,
    Unknown,
    to_iceberg,
)
from zskip.types import DataType, decode_decimal

pytest.importorskip("pyiceberg")
from pyiceberg import types
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, visitors
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record

NAN, INF = float("nan"), float("inf")
A, D = Column(("a",), DataType("integer")), Column(("d",), DataType("double"))
F, S = Column(("f",), DataType("float")), Column(("s",), DataType("string"))
TYPES = {
    "boolean": types.BooleanType(),
    "byte": types.IntegerType(),
    "short": types.IntegerType(),
    "integer": types.IntegerType(),
    "long": types.LongType(),
    "float": types.FloatType(),
    "double": types.DoubleType(),
    "string": types.StringType(),
    "binary": types.BinaryType(),
    "date": types.DateType(),
    "timestamp": types.TimestamptzType(),
    "timestamp_ntz": types.TimestampType(),
}


def iceberg_type(data_type):
    if data_type.is_decimal:
        return types.DecimalType(data_type.precision, data_type.scale)
    return TYPES[data_type.name]


def schema_of(columns):
    fields = [types.NestedField(i + 1, c.path[0], iceberg_type(c.type)) for i, c in enumerate(columns)]
    return Schema(*fields)


def record_of(columns, row):
    """The values as pyiceberg has them."""
    return Record(*[_value(column.type, row[column.path]) for column in columns])


def _value(data_type, value):
    if value is None:
        return None
    if data_type.is_decimal:
        return arrow_tables.unscaled_decimal(decode_decimal(value, data_type), data_type)
    if data_type.name == "string":
        return value.decode()
    return bool(value) if data_type.name == "boolean" else value


def exactly(predicate):
    try:
        return to_iceberg(predicate, exact=True)
    except UnsupportedError:
        return None


@pytest.mark.parametrize("part", tiers.first(range(4)))
def test_the_rows_are_those_of_the_oracle(part):
    exact = 0
    for seed in range(part * 60, part * 60 + 60):
        rng = random.Random(seed)
        table = random_tables.table(rng)
        schema, rows = schema_of(table.columns), arrow_tables.rows_of(table)
        records = [record_of(table.columns, row) for row in rows]
        arrow = arrow_tables.table_of(table.columns, rows)
        for _ in range(8):
            predicate = random_tables.predicate(rng, table)
            expression = to_iceberg(predicate)
            matches = visitors.expression_evaluator(schema, expression, case_sensitive=True)
            kept = {i for i, record in enumerate(records) if matches(record)}
            values = [possible(predicate, row) for row in rows]
            must = {i for i, value in enumerate(values) if True in value}
            assert must <= kept, (seed, predicate)
            filtered = expression_to_pyarrow(visitors.bind(schema, expression, case_sensitive=True))
            assert must <= set(arrow.filter(filtered)["row"].to_pylist()), (seed, predicate)
            if exactly(predicate) is not None:
                exact += 1
                assert kept - {i for i, value in enumerate(values) if not value} == must, (seed, predicate)
    assert exact > 100


LEAVES = [
    (Compare("=", A, 3), "a = 3"),
    (Not(Compare("=", A, 3)), "a != 3 AND a IS NOT NULL"),
    (Not(Compare("<", A, 3)), "a >= 3"),
    (Compare(">=", A, -(2**63)), "a IS NOT NULL"),
    (In(A, ()), "false"),
    (Not(In(A, (1, 2))), "a NOT IN (1, 2) AND a IS NOT NULL"),
    (Compare(">", D, 1.5), "d > 1.5 OR d IS NAN"),
    (Compare("<=", D, NAN), "d IS NOT NULL"),
    (Compare("<", D, NAN), "d IS NOT NAN AND d IS NOT NULL"),
    (IsNull(D), "d IS NULL"),
    (Not(IsNull(A)), "a IS NOT NULL"),
    (StartsWith(S, b"ab"), "s LIKE 'ab%'"),
    (Compare("=", Column(("p", "q"), DataType("integer")), 1), "p.q = 1"),
    (Or((Compare("=", A, 1), Not(And((IsNull(D), Compare("=", A, 2)))))),
     "a = 1 OR (d IS NOT NULL OR (a != 2 AND a IS NOT NULL))"),
]  # fmt: skip


@pytest.mark.parametrize(("predicate", "text"), LEAVES)
def test_the_expressions(predicate, text):
    assert to_sql_of(to_iceberg(predicate, exact=True)) == text


def to_sql_of(expression):
    """An expression in the words of SQL."""
    name = type(expression).__name__
    if expression in (AlwaysTrue(), AlwaysFalse()):
        return str(expression == AlwaysTrue()).lower()
    if name in ("And", "Or"):
        sides = [to_sql_of(side) for side in (expression.left, expression.right)]
        return f" {name.upper()} ".join(f"({s})" if " OR " in s or " AND " in s else s for s in sides)
    term = expression.term.name
    if name in ("IsNull", "NotNull", "IsNaN", "NotNaN"):
        words = {"IsNull": "NULL", "NotNull": "NOT NULL", "IsNaN": "NAN", "NotNaN": "NOT NAN"}
        return f"{term} IS {words[name]}"
    if name in ("In", "NotIn"):
        values = ", ".join(sorted(str(literal) for literal in expression.literals))
        return f"{term} {'NOT IN' if name == 'NotIn' else 'IN'} ({values})"
    if name == "StartsWith":
        return f"{term} LIKE '{expression.literal}%'"
    names = {"EqualTo": "=", "NotEqualTo": "!=", "LessThan": "<", "LessThanOrEqual": "<=", "GreaterThan": ">"}
    return f"{term} {names.get(name, '>=')} {expression.literal}"


def test_what_cannot_be_said_is_implied():
    for predicate, text in (
        (Unknown("f(x)"), "true"),
        (Not(Unknown("f(x)")), "true"),
        (And((Unknown("f(x)"), IsNull(S))), "s IS NULL"),
        (EndsWith(S, b"x"), "s IS NOT NULL"),
        (Not(Contains(S, b"x")), "s IS NOT NULL"),
        (Like(S, "ab\\_c%d"), "s IS NOT NULL AND s LIKE 'ab_c%'"),
        (Not(Like(S, "ab%d_")), "s IS NOT NULL"),
        (CompareTerms("<", A, Column(("b",), DataType("integer"))), "a IS NOT NULL AND b IS NOT NULL"),
        (StartsWith(S, b"\xff"), "s IS NOT NULL"),
        (Compare("=", F, INF), "f IS NOT NULL"),
        (In(F, (1.0, INF)), "f IS NOT NULL"),
    ):
        assert to_sql_of(to_iceberg(predicate)) == text
        with pytest.raises(UnsupportedError, match="Iceberg cannot express"):
            to_iceberg(predicate, exact=True)
    assert to_iceberg(Constant(None), exact=True) == AlwaysFalse()


def test_floats_of_32_bits():
    """0.1 lies between two of them: rounded to either, a comparison would take or leave a row too many."""
    schema = schema_of([F])
    values = [None, NAN, INF, -INF, 0.0, -0.0, 3.4028234663852886e38, 0.10000000149011612, 0.09999999403953552]
    for literal in (0.1, -0.1, 1e39, -1e39, INF, -INF, NAN, 0.0, 0.10000000149011612, 3.4028234663852886e38):
        for op in ("=", "<", "<=", ">", ">="):
            for predicate in (Compare(op, F, literal), Not(Compare(op, F, literal))):
                matches = visitors.expression_evaluator(schema, to_iceberg(predicate), case_sensitive=True)
                for value in values:
                    expected, actual = True in possible(predicate, {("f",): value}), matches(Record(value))
                    assert expected == actual if exactly(predicate) is not None else expected <= actual


def test_thousands_of_parts():
    wide = to_iceberg(Or(tuple(Compare("=", A, i) for i in range(5_000))), exact=True)
    assert visitors.expression_evaluator(schema_of([A]), wide, case_sensitive=True)(Record(4_999))
    deep = Compare("=", A, 5)
    for _ in range(1_000):
        deep = And((Not(deep), Constant(True)))
    to_iceberg(deep)
    with pytest.raises(UnsupportedError, match="so deep"):
        to_iceberg(deep, exact=True)


def test_without_pyiceberg(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    monkeypatch.setitem(sys.modules, "pyiceberg.expressions", None)
    with pytest.raises(MissingDependencyError, match=r"zskip\[iceberg\]"):
        to_iceberg(Constant(True))
