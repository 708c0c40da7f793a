"""Texts of predicates and what is understood of them, from tests/fixtures/predicates.txt.

Each case is a text, then `-> ` and the tree as SQL; `?` stands for parts that are Unknown. Lines that start with `#`
are comments; `# zone X` sets the session's time zone, `# lenient` reads texts that Catalyst printed, `# strict` others.
Set REWRITE_FIXTURES=1 to write the trees anew.
"""

import datetime as dt
import os
import pickle
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tiers

from zskip.errors import ColumnError, PredicateError
from zskip.predicate import And, Attributes, Columns, Constant, In, Not, Or, Unknown, nodes, parse, to_sql
from zskip.prune import outcomes
from zskip.records import Field
from zskip.types import DataType

PATH = Path(__file__).parents[1] / "fixtures" / "predicates.txt"
TYPES = {
    "a": "integer",
    "b": "long",
    "by": "byte",
    "sh": "short",
    "f": "float",
    "x": "double",
    "d": "decimal(12,2)",
    "w": "decimal(38,10)",
    "v": "decimal(38,0)",
    "s": "string",
    "bi": "binary",
    "bo": "boolean",
    "dt": "date",
    "ts": "timestamp",
    "n": "timestamp_ntz",
    "tm": "time(3)",
    "st": "struct<q:int>",
    "odd name": "integer",
    "o`k": "integer",
}
FIELDS = [Field(name=name, type=DataType(name_of)) for name, name_of in TYPES.items()]
COLUMNS = Columns(FIELDS)
ATTRIBUTES = Attributes(FIELDS, {f"t.`{name.replace('`', '``')}`": name for name in TYPES})


def describe(predicate):
    if isinstance(predicate, Unknown):
        return "?"
    if isinstance(predicate, And | Or):
        word = " AND " if isinstance(predicate, And) else " OR "
        return "(" + word.join(map(describe, predicate.children)) + ")"
    if isinstance(predicate, Not):
        return f"NOT {describe(predicate.child)}"
    if isinstance(predicate, In) and not predicate.values:
        return f"never {predicate.term.path[0]}"
    return to_sql(predicate)


def answer(sql, timezone, lenient):
    try:
        columns = ATTRIBUTES if lenient else COLUMNS
        return describe(parse(sql, columns, timezone=timezone, lenient=lenient))
    except (ColumnError, PredicateError) as error:
        text = str(error) if isinstance(error, ColumnError) else str(error).rsplit(": ", 1)[0]
        return f"{type(error).__name__}: {text}"


def cases():
    timezone, lenient, sql = "UTC", False, ""
    for number, line in enumerate(PATH.read_text(encoding="utf-8").splitlines()):
        if line.startswith("# zone "):
            timezone = line.removeprefix("# zone ")
        elif line in ("# lenient", "# strict"):
            lenient = line == "# lenient"
        elif line.startswith("->"):
            yield number, sql, timezone, lenient, line[3:]
        elif line and not line.startswith("#"):
            sql = line


@pytest.mark.skipif("REWRITE_FIXTURES" not in os.environ, reason="writes the fixtures only when asked to")
def test_rewrite():
    lines = PATH.read_text(encoding="utf-8").splitlines()
    for number, sql, timezone, lenient, _ in cases():
        lines[number] = f"-> {answer(sql, timezone, lenient)}"
    PATH.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.parametrize(("sql", "timezone", "lenient", "expected"), [pytest.param(*c[1:], id=c[1]) for c in cases()])
def test_text(sql, timezone, lenient, expected):
    assert answer(sql, timezone, lenient) == expected


def test_long_or_chain():
    predicate = parse(" OR ".join(f"a = {i}" for i in range(3000)), COLUMNS)
    assert isinstance(predicate, Or)
    assert len(predicate.children) == 3000


def test_nested_chains_are_read():
    for start, end in (("(" * 24 + "(t.a = 0)", " OR (t.a = {}))"), ("(t.a = 0)", " OR ((t.a = {})" + ")")):
        sql = start + "".join(end.format(i) for i in range(1, 25))
        predicate = parse(sql, ATTRIBUTES, lenient=True)
        assert isinstance(predicate, Or)
        assert len(predicate.children) == 25
    assert parse("NOT " * 25 + "a = 1", COLUMNS) == parse("NOT a = 1", COLUMNS)
    assert parse("NOT (" * 24 + "a = 1" + ")" * 24, COLUMNS) == parse("(" * 24 + "a = 1" + ")" * 24, COLUMNS)
    assert parse("(" * 24 + "a = 1" + ")" * 24, COLUMNS) == parse("a = 1", COLUMNS)


DEEP = {
    "AND and OR": "(" * 5000 + "a = 0" + "".join(f" {'AND' if i % 2 else 'OR'} a = {i})" for i in range(5000)),
    "to the right": "".join(f"a = {i} {'AND' if i % 2 else 'OR'} (" for i in range(5000)) + "a = 0" + ")" * 5000,
    "NOT": "NOT (" * 10_000 + "a = 1 OR b = 2" + ")" * 10_000,
    "functions": "abs(" * 10_000 + "a" + ")" * 10_000 + " = 1",
    "parentheses of a term": "(" * 10_000 + "a" + ")" * 10_000 + " = 1",
    "minus": "a = " + "- " * 10_000 + "1",
    "plus": "a" + " + 1" * 10_000 + " = 1",
    "concat": "s" + " || s" * 10_000 + " = 'a'",
    "case": "CASE WHEN " * 10_000 + "a = 1" + " THEN 1 END" * 10_000 + " = 1",
    "brackets": "a = m" + "[m" * 10_000 + "]" * 10_000,
    "comparisons": "a = " * 10_000 + "a",
    "queries": "a IN (SELECT 1 WHERE " * 5000 + "a = 1" + ")" * 5000,
    "unbalanced": "(" * 10_000 + "a = 1",
    "unbalanced to the right": "a = 1" + ")" * 10_000,
}


@pytest.mark.parametrize("name", tiers.only(DEEP, ["NOT", "to the right", "plus", "queries", "unbalanced"]))
def test_deep_nesting_is_given_up_or_refused(name):
    """Never a crash, and nothing that is too deep for what walks along the tree."""
    for lenient in (False, True):
        try:
            predicate = parse(DEEP[name], COLUMNS, lenient=lenient)
        except (PredicateError, ColumnError):
            assert not lenient
            continue
        to_sql(predicate)
        outcomes(predicate, SimpleNamespace(rows=np.array([1]), column=lambda path: None))
        pickle.loads(pickle.dumps(predicate))
        assert predicate == parse(DEEP[name], COLUMNS, lenient=lenient)
        assert repr(predicate)
        assert hash(predicate) is not None


@pytest.mark.parametrize(
    ("name", "literal", "count"),
    [
        ("a", "{}", 10_000),
        ("s", "'{}'", 1_000),
        ("b", "{}L", 1_000),
        ("f", "CAST('{}.5' AS FLOAT)", 1_000),
        ("dt", "date '{date}'", 1_000),
        ("ts", "TIMESTAMP '{date} 01:02:03.5'", 1_000),
        ("cast(a as bigint)", "{}", 1_000),
    ],
)
def test_long_list(name, literal, count):
    start = dt.date(1980, 1, 1)
    values = [literal.format(i, date=start + dt.timedelta(days=i), number=i) for i in range(count)]
    begun = time.process_time()
    predicate = parse(f"{name} IN ({', '.join(values)})", COLUMNS)
    assert time.process_time() - begun < 20  # Far more than it takes: only to notice what is quadratic.
    assert isinstance(predicate, In)
    assert len(predicate.values) == count
    some = values[:: count // 20]
    one_by_one = [parse(f"{name} = {value}", COLUMNS).value for value in some]
    assert parse(f"{name} IN ({', '.join(some[:19])})", COLUMNS).values == tuple(sorted(one_by_one[:19]))
    assert set(one_by_one) <= set(predicate.values)
    assert parse(f"{name} NOT IN ({', '.join(values)})", COLUMNS) == Not(predicate)


def test_lists_with_more_than_literals():
    for odd in ("b", "a + 1", "rand()", "'x'", "(SELECT 1)", "1 + 1"):
        assert isinstance(parse(f"a IN (1, -2, 3L, {odd})", COLUMNS), Unknown)
    for odd in ("1", "DATE '2024-01-01'", "X'00'", "true"):
        assert isinstance(parse(f"s IN ('a', 'b', {odd})", COLUMNS), Unknown)
        assert isinstance(parse(f"s IN ({odd}, 'a', 'b')", COLUMNS), Unknown)
    assert parse("s IN ('a', 'b', NULL, NULL)", COLUMNS).children[1] == Constant(None)
    with pytest.raises(ColumnError):
        parse("a IN (1, 2, nowhere)", COLUMNS)


def test_names_and_strings_of_all_kinds():
    names = [
        "a b",
        "a.b",
        "a`b",
        "a'b",
        'a"b',
        "ä€😀",
        "select",
        "1a",
        "a\\b",
        "AND",
        "--",
        "/*",
        ";",
        "a\nb",
        "x)",
        "%",
    ]
    columns = Columns([Field(name=name, type=DataType("string")) for name in names])
    for name in names:
        quoted = "`" + name.replace("`", "``") + "`"
        for text in [
            "x",
            "it's",
            'say "x"',
            "back\\slash",
            "`tick`",
            ") OR (1=1",
            "-- x",
            "/* x",
            "ä€😀",
            "a;b",
            "%_",
            "\n",
            "",
        ]:
            literal = "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
            predicate = parse(f"NOT ({quoted} = {literal} AND {quoted} > {literal})", columns).child.children[0]
            assert (predicate.term.path, predicate.value) == ((name,), text.encode())
            assert parse(to_sql(predicate), columns) == predicate
            doubled = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
            assert parse(f"{quoted} = {doubled}", columns) == predicate
            if name.isidentifier() and name.isascii() and name not in ("select", "AND"):
                assert parse(f"{name} = {literal}", columns) == predicate


def test_one_condition_only():
    for sql in ("a = 1; a = 2", "a = 1;", "a = 1; DROP TABLE t", ";"):
        with pytest.raises(PredicateError, match="semicolon"):
            parse(sql, COLUMNS)
        assert isinstance(parse(sql, COLUMNS, lenient=True), Unknown)
    for sql in (
        "",
        " ",
        "-- nothing",
        "()",
        "a = 1 AND ()",
        "AND a = 1",
        "a = 1 OR OR a = 2",
        "NOT",
        "a = 1)",
        "(a = 1",
        "a b",
    ):
        with pytest.raises(PredicateError, match=r"cannot read|is no predicate"):
            parse(sql, COLUMNS)
        assert any(isinstance(node, Unknown) for node in nodes(parse(sql, COLUMNS, lenient=True))), sql


def test_errors_of_strange_numbers_stay_inside_in_lenient_mode():
    for sql in ("t.x = " + "9" * 400, "t.a = " + "9" * 5000, "t.x < 1e999", "t.v = 1.5e9999999999BD", "t.a = X'0g'"):
        assert parse(sql, ATTRIBUTES, lenient=True) is not None
        parse(sql.replace("t.", ""), COLUMNS) if "0g" not in sql and "9999999999BD" not in sql else None


def test_names_in_two_cases():
    columns = Columns([Field(name="a", type=DataType("long")), Field(name="A", type=DataType("long"))])
    with pytest.raises(ColumnError, match="could be any of a, A"):
        parse("a = 1", columns)
    exact = Columns(columns.fields, case_sensitive=True)
    assert parse("A = 1", exact) != parse("a = 1", exact)
    with pytest.raises(ColumnError):
        parse("B = 1", exact)
