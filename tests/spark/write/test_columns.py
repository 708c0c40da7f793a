"""Columns are the same after they were made small and large again."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zskip.spark.write.arrow.columns import grow, join, narrow, shrink, without_unused

EDGES = [sign * (1 << bits) - less for bits in (7, 15, 31) for sign in (-1, 1) for less in (0, 1)]
LONGS = st.one_of(st.none(), st.sampled_from(EDGES), st.integers(-(2**63), 2**63 - 1))
TEXTS = st.lists(st.one_of(st.none(), st.sampled_from(["a", "b", "", "\x00"])), min_size=1, max_size=9)


@given(st.lists(LONGS), st.integers(0, 3))
def test_integers_come_back(values: list[int | None], start: int) -> None:
    column = pa.array(values, pa.int64()).slice(start)
    assert grow(shrink(column), pa.int64()).equals(column)
    small = [v for v in values[start:] if v is not None]
    for kind in (pa.int8(), pa.int16(), pa.int32()):
        fits = all(-(1 << kind.bit_width - 1) <= v < 1 << kind.bit_width - 1 for v in small)
        assert fits == (shrink(column).type.bit_width <= kind.bit_width)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
        pa.array([dt.datetime(1, 1, 1), None, dt.datetime(2024, 1, 1)], pa.timestamp("us", "UTC")),
        pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("us")),
        pa.array([Decimal("-1.25"), None, Decimal("9999999999999999.99")], pa.decimal64(18, 2)),
        pa.array([1.5, None, float("nan")]),
        pa.array(["text", None]),
        pa.array([True, None]),
        pa.array([[1], None]),
    ],
    ids=lambda column: str(column.type),
)
def test_other_types_come_back(column: pa.Array) -> None:
    assert str(grow(shrink(column), column.type)) == str(column)
    assert shrink(column).type.id == column.type.id or shrink(column).nbytes <= column.nbytes


@given(st.lists(st.one_of(st.none(), st.integers(-(10**18) + 1, 10**18 - 1))), st.integers(0, 3))
def test_decimals_are_narrowed_exactly(values: list[int | None], start: int) -> None:
    decimals = [None if v is None else Decimal(v).scaleb(-2) for v in values]
    column = pa.array(decimals, pa.decimal128(18, 2)).slice(start)
    assert narrow(column).to_pylist() == decimals[start:]


@given(st.lists(st.tuples(TEXTS, st.booleans()), min_size=1, max_size=5))
def test_dictionaries_are_joined(parts: list[tuple[list[str | None], bool]]) -> None:
    columns = [
        pa.array(texts, pa.string()).dictionary_encode() if has_one else pa.array(texts, pa.string())
        for texts, has_one in parts
    ]
    columns = [grow(shrink(column), pa.string()) for column in columns]
    joined = join(columns)
    assert pa.types.is_dictionary(joined.type) == all(has_one for _, has_one in parts)
    assert joined.to_pylist() == [text for texts, _ in parts for text in texts]
    if pa.types.is_dictionary(joined.type):
        rows = without_unused(joined.slice(len(joined) // 2))
        assert rows.to_pylist() == joined.to_pylist()[len(joined) // 2 :]
        assert sorted(rows.dictionary.to_pylist()) == sorted({text for text in rows.to_pylist() if text is not None})
