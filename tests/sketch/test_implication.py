"""A filter implies a condition only if each row that makes it true makes the condition true."""

from __future__ import annotations

import itertools

import pytest
import tiers
from hypothesis import given
from hypothesis import strategies as st
from oracle import truth

from zskip.predicate import And, Columns, Not, Or, Predicate, Unknown, conjuncts, parse
from zskip.records import Field
from zskip.sketch.implication import goal_subjects, implies, is_exact, normal, subjects
from zskip.types import DataType

FIELDS = {"a": "long", "b": "long", "d": "double", "s": "string"}
COLUMNS = Columns([Field(name=name, type=DataType(kind)) for name, kind in FIELDS.items()])
LEAVES = [
    *(f"{column} {op} {value}" for column in "ab" for op in ("=", "<", "<=", ">", ">=", "!=") for value in (1, 2)),
    *(f"d {op} {value}" for op in ("=", "<", ">=") for value in ("1D", "CAST('NaN' AS DOUBLE)", "-0.0D")),
    *(f"s LIKE '{pattern}'" for pattern in ("%x%", "x%", "%x", "x%y", "_", "xy", "%xy%")),
    *("s IS NULL", "a IS NOT NULL", "a IN (1, 2)", "a IN (2)", "a IN (0, 1, 2)", "a < b", "b > a", "b = a", "a <=> 1"),
]
ROWS = [
    {("a",): a, ("b",): b, ("d",): d, ("s",): s}
    for a, b, d, s in itertools.product(
        (None, 0, 1, 2), (None, 1, 3), (None, float("nan"), 0.0, 1.0), (None, b"", b"x", b"xy", b"axyb")
    )
]
PREDICATES = st.recursive(
    st.sampled_from(LEAVES).map(lambda text: parse(text, COLUMNS)),
    lambda inner: st.one_of(
        inner.map(Not),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: And(tuple(parts))),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: Or(tuple(parts))),
    ),
    max_leaves=5,
)


def implied(filter_text: str, condition: str) -> bool:
    facts, goal = (normal(parse(text, COLUMNS)) for text in (filter_text, condition))
    return implies(tuple(conjuncts(facts)), goal)


@tiers.examples(3000, quick=300)
@given(PREDICATES, PREDICATES, st.booleans())
def test_what_is_implied_is_true(facts: Predicate, goal: Predicate, narrower: bool) -> None:
    facts = And((facts, goal)) if narrower else facts
    parts = tuple(conjuncts(normal(facts)))
    if implies(parts, normal(goal)):
        assert all(truth(goal, row) is True for row in ROWS if truth(facts, row) is True)
        assert subjects(facts) & goal_subjects(normal(goal)), "by which the condition is looked up"
    if narrower:
        assert implies(parts, normal(goal))


@given(PREDICATES)
def test_the_normal_form_is_true_of_the_same_rows(predicate: Predicate) -> None:
    assert all(truth(predicate, row) is truth(normal(predicate), row) for row in ROWS)


@pytest.mark.parametrize(
    ("filter_text", "condition"),
    [
        ("b = 2 AND s LIKE '%x%y%'", "s LIKE '%x%y%'"),
        ("a IN (1, 2)", "a IN (3, 2, 1)"),
        ("a = 2", "a IN (1, 2)"),
        ("a = 5 AND b = 2", "b = 2 AND a > 4"),
        ("a > 4", "a >= 4"),
        ("a BETWEEN 3 AND 4", "a >= 2 AND a <= 4 AND a IS NOT NULL"),
        ("NOT (a < 3 OR b > 2)", "b <= 2"),
        ("a = 1 OR a = 2", "a IN (1, 2)"),
        ("a < b", "b > a AND b IS NOT NULL"),
        ("s = 'abc'", "s LIKE 'a%c'"),
        ("s LIKE 'abc%'", "contains(s, 'bc')"),
        ("b = 1 AND (a = 1 OR s = 'x')", "s = 'x' OR a = 1"),
        ("a = 3", "a != 4"),
        ("date_add(CAST('2024-01-01' AS DATE), 1) IS NULL OR a = 1", "a = 1 OR a = 2"),
    ],
)
def test_conditions_that_are_noticed(filter_text: str, condition: str) -> None:
    assert implied(filter_text, condition) is ("date_add" not in filter_text)


@pytest.mark.parametrize(
    ("filter_text", "condition"),
    [
        ("a >= 4", "a > 4"),
        ("a IN (1, 9)", "a IN (1, 2)"),
        ("a = 1 OR b = 1", "a = 1"),
        ("a IS NULL", "a IS NOT NULL"),
        ("NOT (a = 1)", "a = 1"),
        ("d > CAST('NaN' AS DOUBLE)", "d > 3D"),
        ("s RLIKE 'x'", "s RLIKE 'x'"),
    ],
)
def test_conditions_that_are_not_implied(filter_text: str, condition: str) -> None:
    assert not implied(filter_text, condition)


def test_what_zskip_does_not_understand_is_known_by_its_key() -> None:
    one, same, other, nameless = (
        Unknown("f(a)", key="k"),
        Unknown("f(t.a)", key="k"),
        Unknown("f(a)", key="l"),
        Unknown("f(a)"),
    )
    assert implies([normal(one)], normal(same))
    assert implies([Not(normal(one))], normal(Not(same)))
    assert not implies([normal(one)], normal(other))
    assert not implies([normal(one)], normal(Not(same)))
    assert not implies([normal(nameless)], normal(nameless))
    assert is_exact(one)
    assert not is_exact(And((one, nameless)))
    assert subjects(And((one, nameless))) == {"k"}
