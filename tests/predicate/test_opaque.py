"""Opaque terms: the same expression is the same term however it is written, and no other one is."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from zskip.errors import ColumnError, InputError, PredicateError
from zskip.predicate import (
    Attributes,
    Columns,
    Compare,
    Contains,
    Opaque,
    columns_of,
    columns_under,
    opaque,
    parse,
    parse_term,
    register_function,
    term_sql,
    to_sql,
)
from zskip.records import Field
from zskip.types import DataType

FIELDS = [
    Field(name=name, type=DataType(type_name))
    for name, type_name in {
        "a": "integer",
        "s": "string",
        "Email": "string",
        "d": "date",
        "ts": "timestamp",
        "n": "timestamp_ntz",
        "lat": "double",
        "lon": "double",
        "ch": "char(5)",
        "co": "string collate",
        "bi": "binary",
    }.items()
]
COLUMNS = Columns(FIELDS)
ATTRIBUTES = Attributes(FIELDS, {f"t.{field.name}": field.name for field in FIELDS})


@pytest.mark.parametrize(
    ("written", "catalyst", "canonical"),
    [
        ("LCASE( email )", "lower(t.Email)", "lower(Email)"),
        ("upper(Trim(s))", "upper(TRIM(BOTH FROM t.s))", "upper(trim(s))"),
        ("ltrim(s)", "TRIM(LEADING FROM t.s)", "ltrim(s)"),
        ("char_length(s)", "length(t.s)", "length(s)"),
        ("get_json_object(s, '$.a')", "get_json_object(t.s, '$.a')", "get_json_object(s, '$.a')"),
        ("month(ts)", "month(CAST(t.ts AS DATE))", "month(CAST(ts AS DATE))"),
        ("day(d)", "dayofmonth(t.d)", "day(d)"),
        ("md5(s)", "md5(CAST(t.s AS BINARY))", "md5(s)"),
        ("sha1(bi)", "sha(t.bi)", "sha(bi)"),
        ("hour(ts)", "hour(t.ts)", "hour(ts)"),
        ("concat(s, '-', email)", "concat(t.s, '-', t.Email)", "concat(s, '-', Email)"),
        ("substring_index(s, '@', -1)", "substring_index(t.s, '@', -1)", "substring_index(s, '@', -1)"),
        ("date_trunc('day', ts)", "date_trunc('DAY', t.ts)", "date_trunc('DAY', ts)"),
    ],
)
def test_one_expression_is_one_term(written: str, catalyst: str, canonical: str) -> None:
    term = parse_term(written, COLUMNS, timezone="Europe/Berlin")
    assert term_sql(term) == canonical
    assert parse_term(canonical, COLUMNS, timezone="Europe/Berlin") == term
    predicate = parse(f"({catalyst} IS NULL)", ATTRIBUTES, timezone="Europe/Berlin", lenient=True)
    assert predicate == parse(f"{written} IS NULL", COLUMNS, timezone="Europe/Berlin")
    assert predicate.term == term  # type: ignore[union-attr]


def test_expressions_that_differ_are_different_terms() -> None:
    texts = [
        "get_json_object(s, '$.a')",
        "get_json_object(s, 'a')",
        "get_json_object(s, '$[\\'a\\']')",
        "get_json_object(s, '$.A')",
        "get_json_object(email, '$.a')",
        "lower(s)",
        "lower(trim(s))",
        "trim(lower(s))",
        "ltrim(s)",
        "concat(s, '1')",
        "concat(s, s)",
        "concat('1', s)",
        "sha2(s, 256)",
        "sha2(s, 512)",
    ]
    assert len({parse_term(text, COLUMNS) for text in texts}) == len(texts)
    berlin, utc = (parse_term("hour(ts)", COLUMNS, timezone=zone) for zone in ("Europe/Berlin", "UTC"))
    assert berlin != utc
    assert parse_term("hour(n)", COLUMNS, timezone="Europe/Berlin") == parse_term("hour(n)", COLUMNS)


@pytest.mark.parametrize(
    "text",
    [
        "lower(a)",
        "lower(ch)",
        "lower(co)",
        "lower('x')",
        "lower(s, s)",
        "lower()",
        "trim(BOTH 'x' FROM s)",
        "month(s)",
        "hour(d)",
        "get_json_object(s, s)",
        "concat(s, 1)",
        "concat(s, NULL)",
        "rand()",
        "soundex(s)",
        "lower(s) || 'x'",
        "a = 1",
        "lower(s) = 'x'",
        "count(s)",
        "(SELECT s)",
        "s s",
        "",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(PredicateError):
        parse_term(text, COLUMNS)


def test_unknown_columns_are_told() -> None:
    with pytest.raises(ColumnError, match='did you mean "Email"'):
        parse_term("lower(emial)", COLUMNS)


def test_leaves_speak_of_opaque_terms() -> None:
    predicate = parse("lower(email) LIKE '%x%' AND length(s) > 3 AND hour(ts) BETWEEN 5 AND 6", COLUMNS)
    text = "contains(lower(Email), 'x') AND length(s) > 3 AND hour(ts) >= 5 AND hour(ts) <= 6"
    assert to_sql(predicate) == text
    assert [column.path for column in columns_of(predicate)] == [("Email",), ("s",), ("ts",)]
    both = parse_term("concat(s, email)", COLUMNS)
    assert [column.path for column in columns_under(both)] == [("s",), ("Email",)]


def test_users_bring_their_own_functions() -> None:
    register_function("Last_Letter", "string", lambda text: pc.utf8_slice_codeunits(text, -1))
    try:
        term = parse_term("last_letter(s)", COLUMNS)
        assert term == Opaque("last_letter", (COLUMNS.find(["s"]),), DataType("string"))  # type: ignore[arg-type]
        assert parse("LAST_LETTER(s) = 'x'", COLUMNS) == Compare("=", term, b"x")
        assert parse("contains(last_letter(s), 'x')", COLUMNS) == Contains(term, b"x")
        evaluate = opaque.evaluator("last_letter")
        assert evaluate is not None
        assert evaluate(pa.array(["abc"])).to_pylist() == ["c"]
    finally:
        opaque._USER_FUNCTIONS.pop("last_letter")
    assert opaque.evaluator("last_letter") is None


@pytest.mark.parametrize(
    ("name", "result", "message"),
    [
        ("lower", "string", "choose another name"),
        ("trim", "string", "choose another name"),
        ("substring", "string", "choose another name"),
        ("Soundex", "string", "choose another name"),
        ("my func", "string", "is no name"),
        ("cell", "array<int>", "no type that can be indexed"),
    ],
)
def test_functions_that_cannot_be_are_refused(name: str, result: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        register_function(name, result, len)
