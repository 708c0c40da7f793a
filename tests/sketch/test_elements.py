"""Sketches of the elements of arrays and of maps against an oracle that looks at every element of every row."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from arrow_tables import arrow_type
from hypothesis import given
from hypothesis import strategies as st
from oracle import truth
from sketched import VALUES, column, encoded, leaves
from states_of_sketches import build_state
from tiers import examples

from zskip.errors import InputError, PredicateError
from zskip.predicate import And, Column, Columns, Compare, Exists, Not, Opaque, Or, Predicate, term_sql, to_sql
from zskip.predicate.elements import element_of, exists, implied_tests, keys_of, values_of
from zskip.predicate.tree import replace_terms
from zskip.prune import outcomes
from zskip.records import Field
from zskip.sketch import FileSketches, LeftOut, SketchOn, parse_sketch, parse_sketch_on, read_states
from zskip.types import DataType

Row = Mapping[tuple[str, ...], Any]
KINDS = ("values(100)", "values(3)", "bloom(0.01)", "ranges(2)", "ngram(2)", "prefix(2)")


class NoStats:
    """Nothing is known of columns, but for the rows of each file."""

    def __init__(self, rows: Sequence[int]) -> None:
        self.rows = np.array(rows, np.int64)

    def column(self, path: tuple[str, ...]) -> None:
        return None


def array_column(name: str) -> Column:
    return Column(("tags",), DataType("nested", elements=DataType(name)))


def element(array: Column | Opaque | None) -> Opaque:
    term = element_of(array)
    assert term is not None
    return term


def check(predicate: Predicate, rows: Sequence[Sequence[Row]], sketches: FileSketches) -> None:
    """No mask is unset for a truth value that some row has."""
    result = outcomes(predicate, NoStats([len(file) for file in rows]), sketches)
    for i, file in enumerate(rows):
        truths = {truth(predicate, row) for row in file}
        assert result.may_true[i] or True not in truths
        assert result.may_false[i] or False not in truths
        assert result.may_null[i] or None not in truths


def sketch(spec: str, term: Opaque, arrays: Sequence[pa.Array]) -> tuple[SketchOn, Any] | None:
    """The states of files with these arrays; None for elements that the sketch does not take."""
    on = SketchOn(parse_sketch(spec), (term,))
    if on.sketch.refusal(term.type) is not None:
        return None
    batches = [pa.RecordBatch.from_pydict({term_sql(term.arguments[0]): array}) for array in arrays]  # type: ignore[arg-type]
    states = [build_state(on.sketch, [on.recipe(term_sql)(batch)], term.type).data for batch in batches]
    return on, read_states(on.sketch, states)


@st.composite
def conditions(draw: st.DrawFn, term: Opaque, name: str, near: Sequence[Any]) -> Predicate:
    """Conditions on one element."""
    leaf = leaves(name, near).map(lambda one: replace_terms(one, {column(name): term}))
    parts = draw(st.lists(leaf | leaf.map(Not), min_size=1, max_size=3))
    kind = draw(st.sampled_from([And, Or]))
    test = parts[0] if len(parts) == 1 else kind(tuple(parts))
    return draw(st.sampled_from([test, Not(test)]))


@st.composite
def filters(draw: st.DrawFn, term: Opaque, name: str, near: Sequence[Any], depth: int = 2) -> Predicate:
    kind = draw(st.sampled_from(["exists", "exists", "and", "or", "not"] if depth else ["exists"]))
    if kind == "exists":
        predicate = exists(term, draw(conditions(term, name, near)), "?")
        assert predicate is not None
        return predicate
    if kind == "not":
        return Not(draw(filters(term, name, near, depth - 1)))
    children = draw(st.lists(filters(term, name, near, depth - 1), min_size=2, max_size=3))
    return (And if kind == "and" else Or)(tuple(children))


@pytest.mark.parametrize("name", ["string", "integer", "double", "boolean", "decimal(9,2)"])
@examples(200, 25)
@given(data=st.data())
def test_no_row_with_a_match_is_lost(name: str, data: st.DataObject) -> None:
    term = element(array_column(name))
    arrays = st.none() | st.lists(st.none() | VALUES[name], max_size=4)
    files = data.draw(st.lists(st.lists(arrays, max_size=4), min_size=1, max_size=4))
    near = [value for file in files for array in file if array is not None for value in array]
    columns = [pa.array(file, pa.list_(arrow_type(DataType(name)))) for file in files]
    built = sketch(data.draw(st.sampled_from(KINDS)), term, columns)
    if built is None:
        return
    rows = [
        [{("tags",): None if array is None else [encoded(value, name) for value in array]} for array in file]
        for file in files
    ]
    for _ in range(2):
        check(data.draw(filters(term, name, near)), rows, FileSketches(len(files), (built,)))


@examples(200, 20)
@given(data=st.data())
def test_a_value_of_a_map_has_its_key(data: st.DataObject) -> None:
    map_type = DataType("nested", keys=DataType("string"), values=DataType("integer"))
    entries_column = Column(("m",), map_type)
    entries = st.none() | st.dictionaries(st.sampled_from("abcd"), st.none() | st.integers(0, 5), max_size=3)
    files = data.draw(st.lists(st.lists(entries, max_size=4), min_size=1, max_size=4))
    some_key, some_value = element(keys_of(entries_column)), element(values_of(entries_column))
    lists = {
        some_key: [[None if m is None else list(m) for m in file] for file in files],
        some_value: [[None if m is None else list(m.values()) for m in file] for file in files],
    }
    sketches = FileSketches(
        len(files),
        tuple(
            built
            for term, columns in lists.items()
            for spec in data.draw(st.lists(st.sampled_from(["values(9)", "bloom(0.01)"]), max_size=1))
            if (built := sketch(spec, term, [pa.array(c, pa.list_(arrow_type(term.type))) for c in columns]))
        ),
    )
    rows = [[{("m",): None if m is None else {k.encode(): v for k, v in m.items()}} for m in file] for file in files]
    value = Opaque("element_at", (entries_column, "'a'"), DataType("integer"))
    for _ in range(4):
        leaf = replace_terms(data.draw(leaves("integer", range(6))), {column("integer"): value})
        check(data.draw(st.sampled_from([leaf, Not(leaf), And((leaf, Not(leaf))), Not(Not(leaf))])), rows, sketches)


def test_files_without_elements_are_skipped() -> None:
    term = element(array_column("string"))
    columns = [pa.array(file, pa.list_(pa.string())) for file in ([[], None], [None], [[]], [[None]], [["a"], None])]
    for spec in ("values(9)", "bloom(0.01)", "ngram(2)", "ranges(1)", "prefix(2)"):
        built = sketch(spec, term, columns)
        assert built is not None
        predicate = Exists(term, Compare("=", term, b"ab" if spec == "ngram(2)" else b"a"))
        kept = outcomes(predicate, NoStats([2, 1, 1, 1, 2]), FileSketches(5, (built,))).may_true.tolist()
        assert kept == [False, False, False, False, spec != "ngram(2)"], spec


def test_two_tests_may_be_of_two_elements() -> None:
    term = element(array_column("integer"))
    built = sketch("ranges(4)", term, [pa.array([[1, 9]]), pa.array([[4, 6]]), pa.array([[5]])])
    assert built is not None
    low, high = Compare(">", term, 4), Compare("<", term, 6)
    sketches, stats = FileSketches(3, (built,)), NoStats([1, 1, 1])
    two = And((Exists(term, low), Exists(term, high)))
    assert outcomes(two, stats, sketches).may_true.tolist() == [True, True, True]
    assert outcomes(Exists(term, And((low, high))), stats, sketches).may_true.tolist() == [False, False, True]
    assert outcomes(Not(two), stats, sketches).may_true.tolist() == [True, True, True]


def test_what_cannot_be_sketched_is_refused() -> None:
    map_type = DataType("nested", keys=DataType("string"), values=DataType("nested"))
    columns = Columns(
        [
            Field(name="tags", type=array_column("string").type),
            Field(name="m", type=map_type),
            Field(name="s", type=DataType("string")),
        ]
    )
    assert str(parse_sketch_on("Values:EXPLODE(Map_Keys(M))", columns)) == "values(100):explode(map_keys(m))"
    for spec in (
        "values:explode(s)",
        "values:explode(m)",
        "values:explode(map_values(m))",
        "values:lower(explode(tags))",
    ):
        with pytest.raises(PredicateError, match="no column and no expression that can be indexed"):
            parse_sketch_on(spec, columns)
    with pytest.raises(InputError, match=r"take its elements: explode\(tags\)"):
        parse_sketch_on("values:tags", columns)
    with pytest.raises(InputError, match="elements of arrays have no pairs"):
        parse_sketch_on("geo:explode(tags), explode(tags)", columns)


def test_days_that_calendars_read_differently_are_left_out() -> None:
    term = element(array_column("date"))
    on = SketchOn(parse_sketch("values(9)"), (term,))
    batch = pa.RecordBatch.from_pydict({"tags": pa.array([[dt.date(1850, 1, 1)], None], pa.list_(pa.date32()))})
    with pytest.raises(LeftOut, match="days before 1901"):
        on.recipe(term_sql)(batch)


def test_a_part_that_is_not_understood_stays_beside_the_rest() -> None:
    term = element(array_column("integer"))
    known, other = Compare("=", term, 1), Compare("=", Column(("a",), DataType("integer")), 2)
    assert to_sql(exists(term, And((known, other)), "text")) == "exists(tags, x -> x = 1) AND (text)"  # type: ignore[arg-type]
    assert exists(term, Or((known, other)), "text") is None
    assert exists(term, other, "text") is None
    assert implied_tests(known) == ()
