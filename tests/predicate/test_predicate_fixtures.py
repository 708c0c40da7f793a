"""Texts of predicates and what is understood of them, from tests/fixtures/predicates.txt.

Each case is a text, then `-> ` and the tree as SQL; `?` stands for parts that are Unknown. Lines that start with `#`
are comments; `# zone X` sets the session's time zone, `# lenient` reads texts that Catalyst printed, `# strict` others.
Set REWRITE_FIXTURES=1 to write the trees anew.
"""

import os
import time
from pathlib import Path

import pytest

from zskip.errors import ColumnError, PredicateError
from zskip.predicate import And, Attributes, Columns, In, Not, Or, Unknown, nodes, parse, parse_many, to_sql
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
    "st": "struct<q:int>",
    "odd name": "integer",
    "o`k": "integer",
}
FIELDS = [Field(name=name, type=DataType(name_of)) for name, name_of in TYPES.items()]
COLUMNS = Columns(FIELDS)
ATTRIBUTES = Attributes(FIELDS, {f"t.`{name.replace('`', '``')}`": name for name in TYPES})


def shown(predicate):
    if isinstance(predicate, Unknown):
        return "?"
    if isinstance(predicate, And | Or):
        word = " AND " if isinstance(predicate, And) else " OR "
        return "(" + word.join(map(shown, predicate.children)) + ")"
    if isinstance(predicate, Not):
        return f"NOT {shown(predicate.child)}"
    if isinstance(predicate, In) and not predicate.values:
        return f"never {predicate.term.path[0]}"
    return to_sql(predicate)


def answer(sql, timezone, lenient):
    try:
        columns = ATTRIBUTES if lenient else COLUMNS
        return shown(parse(sql, columns, timezone=timezone, lenient=lenient))
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
    found = parse(" OR ".join(f"a = {i}" for i in range(3000)), COLUMNS)
    assert isinstance(found, Or)
    assert len(found.children) == 3000


def test_nested_chains_are_read_or_given_up():
    sql = "(" * 2999 + "(t.a = 0)" + "".join(f" OR (t.a = {i}))" for i in range(1, 3000))
    assert isinstance(parse(sql, ATTRIBUTES, lenient=True), Or | Unknown)
    assert isinstance(parse("NOT " * 3000 + "a = 1", COLUMNS), Not | Unknown)
    sql = "(" * 40 + "(t.a = 0)" + "".join(f" OR (t.a = {i}))" for i in range(1, 41))
    assert len(list(nodes(parse(sql, ATTRIBUTES, lenient=True)))) == 42


@pytest.mark.parametrize(
    ("name", "literal"), [("a", "{}"), ("s", "'{}'"), ("d", "{}.25BD"), ("b", "{}L"), ("x", "{}.5D"), ("a", "-{}")]
)
def test_long_list(name, literal):
    sql = f"{name} IN ({', '.join(literal.format(i) for i in range(5000))})"
    start = time.perf_counter()
    found = parse(sql, COLUMNS)
    assert time.perf_counter() - start < 20  # Far more than it takes: only to notice what is quadratic.
    assert isinstance(found, In)
    assert len(found.values) == 5000


def test_errors_of_strange_numbers_stay_inside_in_lenient_mode():
    for sql in ("t.x = " + "9" * 400, "t.a = " + "9" * 5000, "t.x < 1e999", "t.v = 1.5e9999999999BD", "t.a = X'0g'"):
        assert parse(sql, ATTRIBUTES, lenient=True) is not None
        parse(sql.replace("t.", ""), COLUMNS) if "0g" not in sql and "9999999999BD" not in sql else None


def test_several():
    assert shown(parse_many(["a > 1", "b < 2"], COLUMNS)) == "(a > 1 AND b < 2L)"
    assert shown(parse_many(["a > 1"], COLUMNS)) == "a > 1"
    assert shown(parse_many([], COLUMNS)) == "true"


def test_names_in_two_cases():
    columns = Columns([Field(name="a", type=DataType("long")), Field(name="A", type=DataType("long"))])
    with pytest.raises(ColumnError, match="could be any of a, A"):
        parse("a = 1", columns)
    exact = Columns(columns.fields, case_sensitive=True)
    assert parse("A = 1", exact) != parse("a = 1", exact)
    with pytest.raises(ColumnError):
        parse("B = 1", exact)
