"""Whether a whole predicate is null, against the truth values that the oracle finds row by row."""

import random
from collections import Counter

import pytest
import random_tables
import tiers
from oracle import NoValue, truth

from zskip.predicate import Columns, Not, Unknown, nodes, parse, to_sql
from zskip.predicate.nullness import equals, is_null
from zskip.records import Field
from zskip.types import DataType

TYPES = {"a": "integer", "b": "integer", "flag": "boolean", "s": "string"}
COLUMNS = Columns([Field(name=name, type=DataType(kind)) for name, kind in TYPES.items()])


@pytest.mark.scaled
def test_of_random_predicates():
    counts = Counter()
    for seed in range(tiers.count(600, quick=150)):
        rng = random.Random(seed)
        table = random_tables.table(rng)
        for _ in range(5):
            predicate = random_tables.predicate(rng, table)
            null, *of_flags = is_null(predicate), equals(predicate, True), equals(predicate, False)
            assert equals(predicate, None) == null
            if any(isinstance(node, Unknown) for node in nodes(predicate)):
                assert null is None
                continue
            for row in (row for file in table.files for row in file):
                try:
                    value = truth(predicate, row)
                except NoValue:
                    continue
                for flag, test in zip((None, True, False), (null, *of_flags), strict=True):
                    if test is not None:
                        assert truth(test, row) is (value is flag), (predicate, row)
                        counts[flag, value] += 1
    assert len(counts) == 9
    assert min(counts.values()) > tiers.count(300, quick=50)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("(a > 3) IS NULL", "a IS NULL"),
        ("(NOT a > 3) is null", "a IS NULL"),
        ("NOT (a > 3) IS NOT NULL", "a IS NULL"),
        ("(a > 3) <=> NULL", "a IS NULL"),
        ("(a > 3) IS UNKNOWN", "a IS NULL"),
        ("a > 3 IS NULL", "a IS NULL"),
        ("((a > 3) IS NULL) IS NULL", "false"),
        ("(a > b) IS NULL", "a IS NULL OR b IS NULL"),
        ("(a > 1 AND a < 9) IS NULL", "a IS NULL"),
        (
            "(a > 1 OR b > 2) IS NULL",
            "(a IS NULL OR b IS NULL) AND (NOT (a > 1) OR a IS NULL) AND (NOT (b > 2) OR b IS NULL)",
        ),
        ("(a > 3) IS TRUE", "a > 3 AND a IS NOT NULL"),
        ("(a > 3) <=> FALSE", "NOT (a > 3) AND a IS NOT NULL"),
        ("(flag) IS TRUE", "flag IS NOT NULL AND flag = true"),
        ("(a) IS NULL", "a IS NULL"),
        ("(lower(s) = 'a') IS NULL", "lower(s) IS NULL"),
    ],
)
def test_texts(text, meaning):
    assert to_sql(parse(text, COLUMNS)) == meaning
    assert to_sql(parse(f"({text}) AND b = 5", COLUMNS)).endswith(" AND b = 5")


@pytest.mark.parametrize(
    "text",
    [
        "(soundex(s) = 'a') IS NULL",
        "(a > 3 AND soundex(s) = 'a') IS NOT TRUE",
        "(a, b) IS NULL",
        "(SELECT true) IS NULL",
        "(a > 3) = b IS NULL",
    ],
)
def test_anything_else_is_unknown(text):
    predicate = parse(text, COLUMNS)
    assert isinstance(predicate.child if isinstance(predicate, Not) else predicate, Unknown)


def test_long_ones_are_unknown():
    sql = " AND ".join(f"(a > {i} OR b < {i})" for i in range(50))
    assert isinstance(parse(f"({sql}) IS NULL", COLUMNS), Unknown)
    assert to_sql(parse(f"({sql.replace('b', 'a')}) IS NULL", COLUMNS)) == "a IS NULL"
    sql = "a > 1"
    for _ in range(40):
        sql = f"({sql}) IS NOT TRUE"
    assert isinstance(parse(sql, COLUMNS), Unknown | Not)
    assert sum(1 for _ in nodes(parse(sql, COLUMNS))) < 200
