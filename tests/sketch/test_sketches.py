"""No sketch ever hides a file with a match, whatever becomes of it on the way."""

from __future__ import annotations

import dataclasses
import math
import random
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sketched
import tiers
from hypothesis import given
from hypothesis import strategies as st
from oracle import truth
from states_of_sketches import ask, build_state

from zskip.errors import IndexFormatError, InputError
from zskip.predicate import And, Column, Columns, Compare, Contains, In, IsNull, Like, Not, StartsWith, parse
from zskip.records import Field
from zskip.sketch import LeftOut, Matches, Sketch, kinds, pack_arrays, parse_sketch, read_states, register, seal
from zskip.types import DataType

SPECS = ["ranges(1)", "ranges(3)", "bloom(0.1)", "values(100)", "prefix(2)", "prefix(5)", "ngram(2)", "ngram(3)"]
PAIRS = [
    (spec, name) for spec in SPECS for name in sketched.VALUES if parse_sketch(spec).refusal(DataType(name)) is None
]


def masks(sketch: Sketch, states: list[Any], leaf: Any) -> list[bool] | None:
    answer = sketch.might_match(leaf, sketch.stack(states))
    return None if answer is None else answer.may_match.tolist()


@pytest.mark.parametrize(("spec", "name"), PAIRS)
@tiers.examples(25, quick=6)
@given(data=st.data())
def test_no_match_is_hidden(spec: str, name: str, data: st.DataObject) -> None:
    sketch, data_type = parse_sketch(spec), DataType(name)
    files = data.draw(sketched.files(name))
    leaf = data.draw(sketched.leaves(name, [value for file in files for value in file]))
    matches = [sketched.holds(leaf, file, name) for file in files]
    arrays = [sketched.array(file, name) for file in files]
    states = [sketch.build(array, data_type) for array in arrays]
    built = masks(sketch, states, leaf)
    again = [sketch.from_bytes(sketch.to_bytes(state)) for state in states]
    assert masks(sketch, again, leaf) == built
    assert [sketch.size(state) for state in states] == [len(sketch.to_bytes(state)) for state in states]
    whole = sketch.merge(states)
    batches = None
    for array in arrays:
        batches = sketch.add(batches, array, data_type)
    together = [whole, sketch.finish(batches), sketch.build(pa.concat_arrays(arrays), data_type)]
    if built is None:
        return
    assert all(kept or not match for kept, match in zip(built, matches, strict=True)), leaf
    merged = masks(sketch, together, leaf)
    assert merged is not None
    assert all(merged) or not any(matches)
    if spec.startswith(("values", "prefix", "ngram")):
        assert merged == [any(built)] * 3 or isinstance(leaf, Like | Contains | Compare | In | StartsWith)
        assert len(set(merged)) == 1
    if spec.startswith("values"):
        assert built == matches
    missing = masks(sketch, [None, *states], leaf)
    assert missing == [True, *built]


@pytest.mark.parametrize("name", sketched.VALUES)
def test_sketches_skip(name: str) -> None:
    """What is in no file is found in none, but for mistakes of the Bloom filter."""
    rng = random.Random(7)
    example = {
        "string": lambda i: f"value {i:05}",
        "binary": lambda i: f"value {i:05}".encode(),
        "boolean": lambda i: i % 2 == 0,
        "byte": lambda i: i % 100,
    }
    import datetime as dt
    import decimal

    def value(i: int) -> Any:
        if name in example:
            return example[name](i)
        if name == "date":
            return dt.date(2000, 1, 1) + dt.timedelta(days=i)
        if name.startswith("timestamp"):
            return dt.datetime(2000, 1, 1) + dt.timedelta(seconds=i)
        if name.startswith("interval"):
            return dt.timedelta(seconds=i)
        return decimal.Decimal(i) if name.startswith("decimal") else float(i) if name in ("float", "double") else i

    files = [[value(2 * rng.randrange(1000) % 100 if name == "byte" else 2 * rng.randrange(1000)) for _ in range(50)]]
    absent = [value(i) for i in range(1, 99 if name == "byte" else 1999, 2)]
    for spec in ("bloom(0.01)", "values(100)", "ranges(60)"):
        sketch = parse_sketch(spec)
        stack = sketch.stack([sketch.build(sketched.array(files[0], name), DataType(name))])
        hits = [
            sketch.might_match(Compare("=", sketched.column(name), sketched.encoded(v, name)), stack).may_match[0]
            for v in absent
        ]
        assert np.mean(hits) <= (0.05 if name != "boolean" else 1), spec


def test_bytes_of_anything_else_are_refused() -> None:
    rng = random.Random(3)
    for spec in [*SPECS, "geo(16)"]:
        sketch = parse_sketch(spec)
        data = sketch.to_bytes(_some_state(sketch))
        sketch.from_bytes(data)
        for _ in range(300):
            broken = bytearray(data)
            for _ in range(rng.randint(1, 3)):
                broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
            if bytes(broken) != data:
                with pytest.raises(IndexFormatError, match="build the index again"):
                    sketch.from_bytes(bytes(broken))
        for length in range(len(data)):
            with pytest.raises(IndexFormatError):
                sketch.from_bytes(data[:length])
        for other in (b"", rng.randbytes(40), data + b"x", b"\x80\x04N."):
            with pytest.raises(IndexFormatError):
                sketch.from_bytes(other)


@pytest.mark.parametrize("spec", [*SPECS, "geo(16)"])
def test_a_forged_payload_raises_or_reads(spec: str) -> None:
    """Bytes with a right checksum and a wrong payload: never another error than ours."""
    from zskip.sketch import seal, unseal

    sketch, rng = parse_sketch(spec), random.Random(11)
    payload = unseal(spec, sketch.to_bytes(_some_state(sketch)))
    for _ in range(500):
        forged = bytearray(payload)
        for _ in range(rng.randint(1, 4)):
            forged[rng.randrange(min(len(forged), 30))] = rng.randrange(256)
        try:
            sketch.from_bytes(seal(spec, bytes(forged[: rng.randint(0, len(forged))])))
        except IndexFormatError:
            continue


def test_the_state_of_one_sketch_is_not_read_as_another() -> None:
    data = parse_sketch("bloom(0.01)").to_bytes(_some_state(parse_sketch("bloom(0.01)")))
    with pytest.raises(IndexFormatError, match="another kind"):
        parse_sketch("bloom(0.02)").from_bytes(data)


def test_a_newer_format_is_told() -> None:
    sketch = parse_sketch("values(9)")
    data = bytearray(sketch.to_bytes(_some_state(sketch)))
    data[3] = 9
    with pytest.raises(IndexFormatError, match="format 9"):
        sketch.from_bytes(bytes(data))


def test_a_bomb_of_zeros_is_not_unpacked() -> None:
    import zlib

    spec = "values(100)"
    packed = zlib.compress(bytes(1 << 24), 9)
    rest = struct.pack("<BI", 1, 100) + packed
    data = struct.pack("<3sBI", b"zsk", 1, zlib.crc32(rest)) + rest
    with pytest.raises(IndexFormatError, match="length"):
        parse_sketch(spec).from_bytes(data)


def _some_state(sketch: Sketch) -> Any:
    if sketch.arity == 2:
        points = pa.StructArray.from_arrays([pa.array([1.0, 50.0, -3.0]), pa.array([2.0, 9.0, 100.0])], ["a", "b"])
        data_type = DataType("nested", (("a", DataType("double")), ("b", DataType("double"))))
        return sketch.build(points, data_type)
    return sketch.build(pa.array(["some", "thing", None, "other"]), DataType("string"))


@tiers.examples(100, quick=20)
@given(
    st.lists(st.lists(st.sampled_from((True, False, None)), min_size=1, max_size=30), min_size=1, max_size=9),
    st.integers(0, 5),
    st.data(),
)
def test_matches_tell_where_in_a_file(batches: list[list[bool | None]], k: int, data: st.DataObject) -> None:
    sketch, rows = Matches(k), [row for batch in batches for row in batch]
    built = build_state(sketch, [pa.array(batch, pa.bool_()) for batch in batches], DataType("boolean")).data
    assert built is not None
    assert sketch.stack([sketch.from_bytes(built)]).tolist() == [any(rows)]
    ends = sorted(data.draw(st.sets(st.integers(1, len(rows)), max_size=8)) | {len(rows)})
    found = sketch.might_match_in(built, np.array(ends))
    parts = [rows[first:end] for first, end in zip([0, *ends], ends, strict=False)]
    assert found[[any(part) for part in parts]].all(), "no part with a match is ruled out"
    runs = sum(one is True and other is not True for one, other in zip(rows, [*rows[1:], None], strict=True))
    if k and runs <= k:
        assert found.tolist() == [any(part) for part in parts], "all ranges are kept"
    more = np.array([*ends, len(rows) + 1])
    assert sketch.might_match_in(built, more).all(), "of a file with other rows"
    assert sketch.might_match_in(built[:-1], np.array(ends)).all()


@pytest.mark.parametrize("lengths", [(), (1,), (2, 0, 0), (1, 1, 2), (1, 3, 3), (1, 2, 2)])
def test_other_arrays_are_no_ranges_of_rows(lengths: tuple[int, ...]) -> None:
    payload = pack_arrays([np.zeros(length, np.int64) for length in lengths])
    with pytest.raises(IndexFormatError, match="damaged matches"):
        Matches(2).from_bytes(seal("matches(2)", payload))


def test_specs_are_read_and_printed() -> None:
    assert kinds() == ["bloom", "geo", "matches", "ngram", "prefix", "ranges", "values"]
    for spec in SPECS:
        assert str(parse_sketch(spec)) == spec
    assert str(parse_sketch(" BLOOM ( 1e-3 ) ")) == "bloom(0.001)"
    assert str(parse_sketch("ranges()")) == "ranges(8)"
    assert parse_sketch(str(parse_sketch("bloom(1e-06)"))) == parse_sketch("bloom(0.000001)")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("blom(0.01)", 'no sketch "blom"; did you mean "bloom"'),
        ("zone", "register it, or take one of bloom, geo"),
        ("bloom(0)", r"bloom\(0\): give the share .* bloom\(0.01\)"),
        ("bloom(nan)", "give the share"),
        ("bloom(1, 2)", "bloom takes fpp"),
        ("ranges(2.5)", r"ranges\(8\)"),
        ("ranges(0)", "from 1 to 1024"),
        ("values(x)", r"values\(100\)"),
        ("ngram(99)", "from 2 to 8"),
        ("prefix(-1)", "from 1 to 64"),
        ("geo(1)", "from 4 to 65536"),
        ("bloom(0.01", "is no sketch; write a name"),
        ("bloom('a')", "neither a number nor a word"),
        ("", "is no sketch"),
    ],
)
def test_bad_specs_say_the_way_out(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_sketch(spec)


def test_what_cannot_be_sketched_is_left_out_with_a_reason() -> None:
    array = pa.array([str(i) for i in range(200)])
    cases = {
        ("values(100)", "string"): "more than 100 distinct values",
        ("ngram(3)", "long"): "knows nothing of values of type long",
        ("bloom(0.01)", "char(5)"): "knows nothing of values of type char",
        ("bloom(0.01)", "string collate"): "knows nothing",
        ("bloom(0.01)", "long"): "values of string are not of type long",
        ("ranges(4)", "timestamp"): "values of string are not of type timestamp",
        ("geo(16)", "string"): "geo takes two columns",
    }
    for (spec, name), reason in cases.items():
        state = build_state(parse_sketch(spec), [array], DataType(name))
        assert state.data is None
        assert reason in state.reason
    tight = build_state(parse_sketch("bloom(0.01)"), [array], DataType("string"), budget=100)
    assert tight.data is None
    assert "where the budget is 100" in tight.reason
    assert build_state(parse_sketch("bloom(0.01)"), [array], DataType("string"), budget=1000).data is not None


@pytest.mark.parametrize("spec", SPECS)
def test_arrays_of_every_encoding_say_the_same(spec: str) -> None:
    sketch, text = parse_sketch(spec), ["abc", None, "xyz", "abc", ""]
    plain = sketch.to_bytes(sketch.build(pa.array(text), DataType("string")))
    for array in (
        pa.array(text, pa.large_string()),
        pa.array(text).dictionary_encode(),
        pa.chunked_array([text[:2], text[2:]], pa.string()),
        pa.array(["no", *text]).slice(1),
        pa.array(text, pa.string_view()),
        pa.array([t and t.encode() for t in text], pa.binary()),
    ):
        assert sketch.to_bytes(sketch.build(array, DataType("string"))) == plain
    nothing = sketch.build(pa.nulls(3), DataType("string"))
    leaf = Compare("=", Column(("c",), DataType("string")), b"abcdef")
    assert masks(sketch, [nothing], leaf) == [False]
    assert masks(sketch, [nothing], IsNull(leaf.term)) == [True]


def test_null_and_nan_are_known() -> None:
    term = Column(("c",), DataType("double"))
    files = [[1.0, math.nan], [1.0, None], [2.0]]
    for spec in ("ranges(2)", "bloom(0.01)", "values(9)"):
        sketch = parse_sketch(spec)
        states = [sketch.build(pa.array(file, pa.float64()), DataType("double")) for file in files]
        assert masks(sketch, states, IsNull(term)) == [False, True, False]
        assert masks(sketch, states, Compare("=", term, math.nan)) == [True, False, False]
        assert masks(sketch, states, Compare("<", term, math.nan)) is None
    sketch = parse_sketch("ranges(2)")
    states = [sketch.build(pa.array(file, pa.float64()), DataType("double")) for file in files]
    assert masks(sketch, states, Compare(">", term, 5.0)) == [True, False, False]
    zeros = sketch.build(pa.array([-0.0]), DataType("double"))
    for spec in ("ranges(2)", "bloom(0.01)", "values(9)"):
        sketch = parse_sketch(spec)
        zeros = sketch.build(pa.array([-0.0]), DataType("double"))
        assert masks(sketch, [zeros], Compare("=", term, 0.0)) == [True]
        assert masks(sketch, [zeros], In(term, (-0.0, 3.0))) == [True]


@dataclasses.dataclass(frozen=True)
class LastDigit(Sketch):
    """A sketch that a user might write."""

    kind = "last_digit"
    base: int = 10

    def build(self, values: pa.Array, data_type: DataType) -> set[int]:
        if values.null_count == len(values):
            raise LeftOut("nothing but nulls")
        return {value % self.base for value in values.to_pylist() if value is not None}

    def merge(self, states: Any) -> set[int]:
        return set().union(*states)

    def to_bytes(self, state: set[int]) -> bytes:
        return bytes(sorted(state))

    def from_bytes(self, data: bytes) -> set[int]:
        if any(digit >= self.base for digit in data):
            raise IndexFormatError("no digit")
        return set(data)

    def might_match(self, leaf: Any, stack: Any) -> Any:
        from zskip.sketch import Answer

        if not isinstance(leaf, Compare) or leaf.op != "=":
            return None
        may_match = [state is None or leaf.value % self.base in state for state in stack]
        return Answer(np.array(may_match), "by the last digit")


def test_users_bring_their_own() -> None:
    register(LastDigit)
    try:
        sketch = parse_sketch("last_digit")
        assert str(sketch) == "last_digit(10)"
        term = Column(("c",), DataType("long"))
        built = [build_state(sketch, [pa.array(file)], term.type) for file in ([1, 11], [2], [3, 14])]
        states = read_states(sketch, [state.data for state in built] + [None, b"\xff"])
        answer = ask(sketch, [Compare("=", term, 104)], [term], states, 5)
        assert answer is not None
        assert answer.may_match.tolist() == [False, False, True, True, True]
        assert ask(sketch, [Compare("<", term, 104)], [term], states, 5) is None
        assert ask(sketch, [Compare("=", Column(("d",), term.type), 104)], [term], states, 5) is None
        assert build_state(sketch, [pa.array(["a"])], term.type).reason.startswith("last_digit(10) failed: TypeError")
        assert build_state(sketch, [pa.nulls(2)], term.type).reason == "nothing but nulls"
        # An answer that is none, or of other files, is none.
        assert ask(sketch, [Compare("=", term, "x")], [term], states, 5) is None  # type: ignore[arg-type]
        assert ask(sketch, [Compare("=", term, 104)], [term], states, 4) is None
    finally:
        from zskip.sketch import registry

        registry._KINDS.pop("last_digit")


def test_what_is_registered_must_be_a_sketch() -> None:
    with pytest.raises(InputError, match="give it a name"):
        register(type("Nameless", (Sketch,), {}))
    with pytest.raises(InputError, match="is no kind of sketch"):
        register(type("Hollow", (Sketch,), {"kind": "hollow"}))
    other = dataclasses.dataclass(frozen=True)(type("Other", (LastDigit,), {"kind": "bloom"}))
    with pytest.raises(InputError, match='there is a sketch "bloom" already'):
        register(other)


def test_the_leaves_of_one_and_are_asked_together() -> None:
    sketch, term = parse_sketch("values(9)"), Column(("c",), DataType("long"))
    states = read_states(sketch, [build_state(sketch, [pa.array(file)], term.type).data for file in ([1, 5], [3], [7])])
    answer = ask(sketch, [Compare(">", term, 1), Compare("<", term, 4)], [term], states, 3)
    assert answer is not None
    # The first file has a value above 1 and one below 4, but none that is both.
    assert answer.may_match.tolist() == [False, True, False]
    between = parse("c BETWEEN 2 AND 4 AND d = 7 AND f(c)", Columns([*FIELDS]), lenient=True)
    answer = ask(sketch, [between], [term], states, 3)
    assert answer is not None
    assert answer.may_match.tolist() == [False, True, False]
    for where, kept in {
        "c != 3": [True, False, True],
        "NOT c IN (3, 7)": [True, False, False],
        "NOT c > 5": [True, True, False],
        "c IS NOT NULL AND c = 7": [False, False, True],
        "c IS NULL AND c = 7": [False, False, False],
        "c IS NULL": [False, False, False],
    }.items():
        answer = ask(sketch, [parse(where, Columns([*FIELDS]))], [term], states, 3)
        assert answer is not None
        assert answer.may_match.tolist() == kept, where
    for where in ("c = 3 OR c = 4", "d = 3", "c = d", "NOT (c = 3 AND c = 4)", "f(c) = 3", "c IS NOT NULL"):
        assert ask(sketch, [parse(where, Columns([*FIELDS]), lenient=True)], [term], states, 3) is None


FIELDS = [Field(name=name, type=DataType("long")) for name in ("c", "d")]


@pytest.mark.parametrize("name", ["long", "double", "string", "decimal(38,5)"])
@tiers.examples(120, quick=20)
@given(data=st.data())
def test_no_match_of_all_parts_of_an_and_is_hidden(name: str, data: st.DataObject) -> None:
    specs = [spec for spec, type_name in PAIRS if type_name == name]
    sketch, term = parse_sketch(data.draw(st.sampled_from(specs))), sketched.column(name)
    files = data.draw(sketched.files(name))
    leaf = sketched.leaves(name, [value for file in files for value in file])
    parts = data.draw(st.lists(st.one_of(leaf, leaf.map(Not), leaf.map(lambda x: And((x,)))), min_size=1, max_size=4))
    built = [build_state(sketch, [sketched.array(file, name)], term.type).data for file in files]
    answer = ask(sketch, parts, [term], read_states(sketch, built), len(files))
    if answer is None:
        return
    for kept, file in zip(answer.may_match, files, strict=True):
        rows = [{("c",): sketched.encoded(value, name)} for value in file]
        matches = any(truth(And(tuple(parts)), row) is True for row in rows)
        assert kept or not matches
        if sketch.kind == "values":
            assert kept == matches
