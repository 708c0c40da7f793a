"""Sketches on expressions are used by predicates that use the same expression, and by no others."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import tiers
from hypothesis import given
from hypothesis import strategies as st
from oracle import truth, value
from sketched import computed
from states_of_sketches import ask_on, build_state

from zskip.errors import ColumnError, InputError, PredicateError
from zskip.predicate import And, Columns, Predicate, TermLeaf, opaque, parse, register_function, term_sql
from zskip.records import Field
from zskip.sketch import LeftOut, SketchOn, geo_distance, parse_sketch, parse_sketch_on, read_states, sketch_on
from zskip.types import DataType

COLUMNS = Columns(
    [
        Field(name=name, type=DataType(type_name))
        for name, type_name in {
            "s": "string",
            "Email": "string",
            "ts": "timestamp",
            "lat": "double",
            "lon": "double",
        }.items()
    ]
)


def leaves(predicate: Predicate) -> list[TermLeaf]:
    return list(predicate.children) if isinstance(predicate, And) else [predicate]  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("bloom:s", "bloom(0.01):s"),
        ("values(9) : LOWER( email )", "values(9):lower(Email)"),
        ("ngram(3):get_json_object(s, '$.a,b')", "ngram(3):get_json_object(s, '$.a,b')"),
        ("geo(16):lat,LON", "geo(16):lat, lon"),
        ("ranges(4):date_trunc('day', ts)", "ranges(4):date_trunc('DAY', ts)"),
        ("values:concat(s, ',', email)", "values(100):concat(s, ',', Email)"),
    ],
)
def test_what_a_sketch_is_on(text: str, printed: str) -> None:
    sketch_on = parse_sketch_on(text, COLUMNS)
    assert str(sketch_on) == printed
    assert parse_sketch_on(printed, COLUMNS) == sketch_on


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("bloom", InputError, "names no column"),
        ("bloom:", InputError, "names no column"),
        ("bloom:t", ColumnError, 'no column "t"'),
        ("bloom:s, email", InputError, "give one column or expression"),
        ("geo:lat", InputError, "give 2 of them"),
        ("geo:s,email", InputError, "geo takes two columns"),
        ("ngram:ts", InputError, "knows nothing of values of type timestamp; leave it out"),
        ("bloom:rand()", PredicateError, "cannot|can be indexed"),
        ("blom:s", InputError, 'did you mean "bloom"'),
    ],
)
def test_what_cannot_be_is_refused(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        parse_sketch_on(text, COLUMNS)


TEXTS = st.lists(st.one_of(st.none(), st.text("abAB@", max_size=5)), max_size=8)


@tiers.examples(60, quick=20)
@given(
    files=st.lists(TEXTS, min_size=1, max_size=4),
    where=st.sampled_from(
        [
            "lower(s) = 'ab'",
            "lower(s) IN ('a', 'b@')",
            "lower(s) LIKE 'a%b'",
            "lower(s) >= 'b'",
            "lower(s) IS NULL",
            "lower(s) LIKE '%ab%'",
            "lower(s) LIKE 'a%' AND lower(s) LIKE '%b'",
        ]
    ),
    spec=st.sampled_from(["values(100)", "bloom(0.1)", "ngram(2)", "prefix(1)", "ranges(2)"]),
)
def test_no_match_of_an_expression_is_hidden(files: list[list[str | None]], where: str, spec: str) -> None:
    on = parse_sketch_on(f"{spec}:lower(s)", COLUMNS)
    rows = [[{("s",): None if text is None else text.encode()} for text in file] for file in files]
    blobs = []
    for file in rows:
        values = [value(on.terms[0], row) for row in file]
        blobs.append(build_state(on.sketch, [pa.array(values, pa.binary())], on.type).data)
    parts = leaves(parse(where, COLUMNS))
    answer = ask_on(on, parts, read_states(on.sketch, blobs), len(files))
    if answer is None:
        return
    for i, file in enumerate(rows):
        matches = [row for row in file if all(truth(leaf, row) is True for leaf in parts)]
        assert answer.may_match[i] or not matches


def test_other_expressions_are_not_answered() -> None:
    on = parse_sketch_on("values(100):lower(s)", COLUMNS)
    states = read_states(on.sketch, [build_state(on.sketch, [pa.array(["a"])], on.type).data])
    for where in ("s = 'x'", "upper(s) = 'x'", "lower(email) = 'x'", "lower(trim(s)) = 'x'", "lower(s) = lower(email)"):
        assert ask_on(on, leaves(parse(where, COLUMNS)), states, 1) is None
    answer = ask_on(on, leaves(parse("lcase(S) = 'x'", COLUMNS)), states, 1)
    assert answer is not None
    assert not answer.may_match[0]


def test_functions_of_users_are_computed_here() -> None:
    register_function("domain", "string", lambda text, mark: pc.list_element(pc.split_pattern(text, mark), 1))
    try:
        on = parse_sketch_on("values(100):domain(email, '@')", COLUMNS)
        columns = {"Email": pa.array(["a@x.org", None, "b@y.org"])}
        values = computed(on, columns)
        assert values.to_pylist() == ["x.org", None, "y.org"]
        assert [column.path for column in on.columns] == [("Email",)]
        states = read_states(on.sketch, [build_state(on.sketch, [values], on.type).data])
        for where, kept in (("domain(Email, '@') = 'y.org'", True), ("DOMAIN(email, '@') = 'z.org'", False)):
            answer = ask_on(on, leaves(parse(where, COLUMNS)), states, 1)
            assert answer is not None
            assert answer.may_match.tolist() == [kept]
        assert ask_on(on, leaves(parse("domain(Email, '.') = 'z.org'", COLUMNS)), states, 1) is None
        opaque._USER_FUNCTIONS["domain"] = opaque._UserFunction(DataType("string"), lambda text, mark: text[:1])
        with pytest.raises(LeftOut, match="gave 1 values for 3 rows"):
            computed(on, columns)
        for nested in ("lower(domain(email, '@'))", "left(domain(email, '@'), 2)", "concat(s, domain(email, '@'))"):
            with pytest.raises(InputError, match=r"Spark, which computes this, does not know domain; register one"):
                parse_sketch_on(f"values(100):{nested}", COLUMNS)
    finally:
        opaque._USER_FUNCTIONS.pop("domain")


def test_boxes_and_circles_are_answered_by_sql() -> None:
    rng = np.random.default_rng(1)
    on = parse_sketch_on("geo(64):lat,lon", COLUMNS)
    centers = rng.uniform((-80, -180), (80, 180), (100, 2))
    files = [
        (np.clip(rng.normal(a, 0.5, 200), -90, 90), np.clip(rng.normal(b, 0.5, 200), -180, 180)) for a, b in centers
    ]
    blobs = []
    for lat, lon in files:
        arrays = {"lat": pa.array(lat), "lon": pa.array(lon)}
        blobs.append(build_state(on.sketch, [computed(on, arrays)], on.type).data)
    states, kept = read_states(on.sketch, blobs), 0
    for a, b in [*centers[:30], (0.0, 179.9), (89.0, 0.0)]:
        where = f"geo_distance(lat, lon, {a:.4f}, {b:.4f}) < 100000 AND lat > {a - 1:.4f}"
        answer = ask_on(on, leaves(parse(where, COLUMNS)), states, 100)
        assert answer is not None
        for i, (lat, lon) in enumerate(files):
            near = geo_distance(lat, lon, round(a, 4), round(b, 4)) < 100_000
            assert answer.may_match[i] or not (near & (lat > round(a - 1, 4))).any()
        kept += int(answer.may_match.sum())
    assert kept < 32 * 4
    swapped = leaves(parse("geo_distance(lon, lat, 1.0, 2.0) < 1000", COLUMNS))
    assert ask_on(on, swapped, states, 100) is None
    far = leaves(parse("geo_distance(lat, lon, 1.0, 2.0) > 1000", COLUMNS))
    assert ask_on(on, far, states, 100) is None


def test_sketches_of_terms_are_equal_only_with_their_zone() -> None:
    sketch = parse_sketch("values(24)")
    berlin, utc = (sketch_on(sketch, ["hour(ts)"], COLUMNS, timezone=zone) for zone in ("Europe/Berlin", "UTC"))
    assert berlin != utc
    assert str(berlin) == str(utc) == "values(24):hour(ts)"
    assert isinstance(berlin, SketchOn)
    assert term_sql(berlin.terms[0]) == "hour(ts)"
    with pytest.raises(LeftOut):
        sketch.build(pa.array(range(30)), DataType("integer"))
