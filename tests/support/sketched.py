"""Files of values, leaves about them, and what is true of their rows: the ground that sketches are tested on."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from arrow_tables import arrow_type
from hypothesis import strategies as st
from oracle import truth

from zskip.predicate import Column, Compare, Contains, EndsWith, In, IsNull, Like, StartsWith, TermLeaf, term_sql
from zskip.sketch import SketchOn
from zskip.types import DataType, encode

File = list[Any]
"""The values of one file as Python has them; None is null."""

_LARGE = decimal.Context(prec=60)
_TEXTS = st.text(st.sampled_from("abcab %_\\é漢\U0001f600\0"), max_size=12)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "byte": st.integers(-128, 127),
    "integer": st.one_of(st.integers(-20, 20), st.sampled_from([-(2**31), 2**31 - 1])),
    "long": st.one_of(st.integers(-20, 20), st.integers(-(2**63), 2**63 - 1)),
    "float": st.one_of(st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 0.5]), st.floats(width=32)),
    "double": st.one_of(st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1e300, -1e300]), st.floats(-9, 9)),
    "string": _TEXTS,
    "binary": st.one_of(st.binary(max_size=6), st.sampled_from([b"\xff\xff", b"\xff" * 40, b"a" * 40 + b"\xff"])),
    "date": st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)),
    "timestamp": st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)),
    "timestamp_ntz": st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)),
    "interval day to second": st.timedeltas(dt.timedelta(days=-9), dt.timedelta(days=9)),
    "decimal(9,2)": st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: decimal.Decimal(n).scaleb(-2)),
    "decimal(38,5)": st.one_of(st.integers(-9, 9), st.integers(1 - 10**38, 10**38 - 1)).map(
        lambda n: decimal.Decimal(n).scaleb(-5, _LARGE)
    ),
}


def column(name: str) -> Column:
    return Column(("c",), DataType(name))


def array(file: Sequence[Any], name: str) -> pa.Array:
    return pa.array(file, arrow_type(DataType(name)))


def encoded(value: Any, name: str) -> Any:
    return None if value is None else encode(value, DataType(name))


def computed(on: SketchOn, columns: Mapping[str, pa.Array]) -> pa.Array:
    """The values of a sketch's columns, or of users' functions of them."""
    return on.recipe(term_sql)(pa.RecordBatch.from_pydict(dict(columns)))


def files(name: str) -> st.SearchStrategy[list[File]]:
    values = st.one_of(st.none(), VALUES[name])
    return st.lists(st.lists(values, max_size=12), min_size=1, max_size=5)


def leaves(name: str, near: Sequence[Any]) -> st.SearchStrategy[TermLeaf]:
    """Leaves about values of a type, mostly values that some file holds."""
    term = column(name)
    held = [value for value in near if value is not None]
    values = st.one_of(st.sampled_from(held), VALUES[name]) if held else VALUES[name]
    forms = values.map(lambda v: encoded(v, name))
    plain = forms.filter(lambda v: v == v)
    found: list[st.SearchStrategy[TermLeaf]] = [
        st.builds(lambda op, v: Compare(op, term, v), st.sampled_from(["=", "<", "<=", ">", ">="]), forms),
        st.builds(lambda v: Compare("=", term, v), forms),
        st.builds(lambda vs: In(term, tuple(sorted(set(vs)))), st.lists(plain, max_size=4)),
        st.just(IsNull(term)),
    ]
    if name in ("string", "binary"):
        cut = st.builds(lambda v, a, b: v[min(a, b) : max(a, b)], forms, st.integers(0, 12), st.integers(0, 12))
        cut = cut.filter(lambda part: name == "binary" or _is_text(part))
        found += [st.builds(lambda v, kind=kind: kind(term, v), cut) for kind in (StartsWith, EndsWith, Contains)]
    if name == "string":
        part = st.one_of(st.sampled_from(["%", "_"]), st.builds(_literally, values, st.integers(0, 9)))
        found.append(st.lists(part, max_size=4).map("".join).map(lambda pattern: Like(term, pattern)))
    return st.one_of(found)


def _literally(text: str, length: int) -> str:
    cut = text[:length]
    return "".join("\\" + c if c in "%_\\" else c for c in cut)


def _is_text(part: bytes) -> bool:
    try:
        part.decode()
    except UnicodeDecodeError:
        return False
    return True


def holds(leaf: TermLeaf, file: File, name: str) -> bool:
    """Whether some row of a file makes a leaf true: the oracle."""
    return any(truth(leaf, {("c",): encoded(value, name)}) is True for value in file)
