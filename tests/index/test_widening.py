"""Statistics of files of older schemas, in the table's types, against the values themselves."""

from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zskip.index.resolve import widening
from zskip.types import DataType, Encoded, Form, encode

DTYPES = {Form.INT: np.int64, Form.FLOAT: np.float64, Form.BYTES: np.object_}


def decimals(precision: int, scale: int) -> st.SearchStrategy[decimal.Decimal]:
    most = 10**precision - 1
    wide = decimal.Context(prec=60)
    return st.integers(-most, most).map(lambda n: decimal.Decimal(n).scaleb(-scale, wide))


HELD = {
    "byte": st.integers(-128, 127),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "date": st.dates(),
    "decimal(9,2)": decimals(9, 2),
    "decimal(18,6)": decimals(18, 6),
    "decimal(30,4)": decimals(30, 4),
}


def as_wanted(value: object, wanted: str) -> object:
    """What a value of a file is in the table, found without the code under test."""
    if isinstance(value, dt.date):
        return dt.datetime.combine(value, dt.time())
    return float(value) if wanted == "double" else value


def array(values: list[Encoded], data_type: DataType) -> np.ndarray:
    result = np.empty(len(values), DTYPES[data_type.form])
    result[:] = values
    return result


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        ("byte", "short"), ("byte", "decimal(3,0)"), ("byte", "double"), ("integer", "long"), ("integer", "double"),
        ("integer", "decimal(10,0)"), ("integer", "decimal(18,5)"), ("integer", "decimal(38,10)"),
        ("long", "decimal(20,0)"), ("long", "decimal(38,19)"), ("float", "double"), ("date", "timestamp_ntz"),
        ("decimal(9,2)", "decimal(18,2)"), ("decimal(9,2)", "decimal(20,2)"), ("decimal(9,2)", "decimal(18,11)"),
        ("decimal(18,6)", "decimal(38,20)"), ("decimal(30,4)", "decimal(38,4)"), ("decimal(30,4)", "decimal(38,12)"),
    ],
)  # fmt: skip
@given(data=st.data())
def test_widened_values_are_those_of_the_table(held, wanted, data):
    values = data.draw(st.lists(HELD[held], min_size=1, max_size=5))
    before = array([encode(v, DataType(held)) for v in values], DataType(held))
    widen = widening(held, DataType(wanted))
    assert widen is not None
    after = widen(before)
    assert after.tolist() == [encode(as_wanted(v, wanted), DataType(wanted)) for v in values]


@pytest.mark.parametrize("wanted", ["decimal(38,2)", "decimal(20,4)", "decimal(18,2)"])
def test_old_files_answer_in_the_types_of_the_table(wanted, storage, indexed):
    old = [decimal.Decimal("-1.50"), None, decimal.Decimal("9999999.99")]
    pq.write_table(pa.table({"a": pa.array(old, pa.decimal128(9, 2))}), f"{storage.root}/0.parquet")
    pq.write_table(pa.table({"a": pa.array([None, None], pa.decimal128(9, 2))}), f"{storage.root}/1.parquet")
    stats = indexed(storage, {"a": wanted}).column(("a",))
    assert stats.bounded.tolist() == [True, False]
    assert [stats.lower[0], stats.upper[0]] == [encode(v, DataType(wanted)) for v in (old[0], old[2])]
    assert stats.nulls.tolist() == [1, 2]


def test_days_beyond_microseconds_do_not_wrap():
    widen = widening("date", DataType("timestamp_ntz"))
    assert widen is not None
    micros = widen(np.array([-(2**31), 0, 2**31 - 1]))
    assert micros[0] < 0 == micros[1] < micros[2]
