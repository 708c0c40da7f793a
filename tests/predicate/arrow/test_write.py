"""Filters for pyarrow keep just the rows that the oracle keeps, and come back as they were."""

import random

import arrow_tables
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import random_tables
import tiers
from fuzz import possible

from zskip.errors import UnsupportedError
from zskip.predicate import (
    And,
    Column,
    Compare,
    CompareTerms,
    Constant,
    In,
    IsNull,
    Like,
    Not,
    Or,
    StartsWith,
    Unknown,
    from_pyarrow,
    nodes,
    to_pyarrow,
)
from zskip.prune import outcomes
from zskip.types import DataType

NAN = float("nan")
A, D, S = Column(("a",), DataType("integer")), Column(("d",), DataType("double")), Column(("s",), DataType("string"))


def exactly(predicate):
    """The exact expression; None where there is none."""
    try:
        return to_pyarrow(predicate, exact=True)
    except UnsupportedError:
        return None


def pairs(seeds):
    for seed in seeds:
        rng = random.Random(seed)
        table = random_tables.table(rng)
        for _ in range(10):
            yield seed, table, random_tables.predicate(rng, table)


@pytest.mark.parametrize("part", tiers.first(range(4)))
def test_the_rows_are_those_of_the_oracle(part):
    exact = 0
    for seed, table, predicate in pairs(range(part * 100, part * 100 + 100)):
        rows = arrow_tables.rows_of(table)
        arrow = arrow_tables.table_of(table.columns, rows)
        kept = set(arrow.filter(to_pyarrow(predicate))["row"].to_pylist())
        values = [possible(predicate, row) for row in rows]
        must = {i for i, value in enumerate(values) if True in value}
        assert must <= kept, (seed, predicate)
        if exactly(predicate) is not None:
            exact += 1
            no_value = {i for i, value in enumerate(values) if not value}
            assert kept - no_value == must, (seed, predicate)
    assert exact > 400


def test_they_come_back():
    same = 0
    for seed, table, predicate in pairs(range(1_000, 1_150)):
        expression = exactly(predicate)
        if expression is None:
            continue
        again = from_pyarrow(expression, arrow_tables.known(table.columns))
        unsure = any(isinstance(node, Unknown) for node in nodes(again))
        for row in arrow_tables.rows_of(table):
            before, after = True in possible(predicate, row), possible(again, row)
            assert before <= (True in after), (seed, predicate)
            assert unsure or before == (True in after), (seed, predicate)
        kept, kept_again = outcomes(predicate, table).may_true, outcomes(again, table).may_true
        same += (kept == kept_again).all()
    assert same > 700


LEAVES = [
    (Compare("=", A, 3), pc.field("a") == 3),
    (Not(Compare(">=", A, 3)), ~(pc.field("a") >= 3)),
    (Compare(">", A, -(2**63)), pc.field("a").is_valid() | pc.scalar(pa.scalar(None, pa.bool_()))),
    (Compare(">", D, 1.5), (pc.field("d") > 1.5) | pc.is_nan(pc.field("d"))),
    (Compare("<", D, NAN), ~pc.is_nan(pc.field("d"))),
    (In(A, (1, 2)), pc.field("a").isin(pa.array([1, 2], pa.int64()))),
    (IsNull(S), pc.field("s").is_null()),
    (StartsWith(S, b"ab"), pc.starts_with(pc.field("s"), "ab")),
    (Like(S, "a_c%"), pc.match_like(pc.field("s"), "a_c%")),
    (Compare("=", Column(("p", "q"), DataType("date")), 1), pc.field("p", "q") == pa.scalar(1, pa.date32())),
    (And(()), pc.scalar(True)),
    (Constant(None), pc.scalar(pa.scalar(None, pa.bool_()))),
]


@pytest.mark.parametrize(("predicate", "expression"), LEAVES)
def test_the_expressions(predicate, expression):
    assert to_pyarrow(predicate, exact=True).equals(expression)


def test_what_cannot_be_said_keeps_the_row():
    table = pa.table({"s": ["x", None], "t": ["y", "y"], "row": [0, 1]})
    like = Like(S, "a\\_%x")
    for predicate, kept in (
        (Unknown("f(x)"), [0, 1]),
        (Not(Unknown("f(x)")), [0, 1]),
        (And((Unknown("f(x)"), IsNull(S))), [1]),
        (Not(Or((Unknown("f(x)"), IsNull(S)))), [0]),
        (like, [0]),
        (Not(like), [0]),
        (StartsWith(S, b"\xff"), [0]),
    ):
        assert table.filter(to_pyarrow(predicate))["row"].to_pylist() == kept
        with pytest.raises(UnsupportedError, match="pyarrow cannot express"):
            to_pyarrow(predicate, exact=True)


def test_bytes_that_are_no_text():
    table = pa.table({"s": ["a", "é", None]})
    assert table.filter(to_pyarrow(Compare("<", S, b"\xff"), exact=True)).num_rows == 2


def test_thousands_of_parts():
    table = pa.table({"a": pa.array([5, 20_000], pa.int32())})
    many = [Compare("=", A, i) for i in range(10_000)]
    assert table.filter(to_pyarrow(Or(tuple(many[:1_000])), exact=True))["a"].to_pylist() == [5]
    deep = many[5]
    for _ in range(5_000):
        deep = Not(deep)
    for predicate in (Or(tuple(many)), deep):
        assert 5 in table.filter(to_pyarrow(predicate))["a"].to_pylist()
        with pytest.raises(UnsupportedError, match="so long or deep"):
            to_pyarrow(predicate, exact=True)


def test_two_columns_with_nan():
    left, right = D, Column(("e",), DataType("double"))
    values = [None, NAN, 1.0, 2.0, -0.0, 0.0]
    table = pa.table({"d": [v for v in values for _ in values], "e": values * len(values)})
    for op in ("=", "<", "<=", ">", ">="):
        for predicate in (CompareTerms(op, left, right), Not(CompareTerms(op, left, right))):
            rows = [{("d",): r["d"], ("e",): r["e"]} for r in table.to_pylist()]
            expected = sum(True in possible(predicate, row) for row in rows)
            assert table.filter(to_pyarrow(predicate, exact=True)).num_rows == expected
