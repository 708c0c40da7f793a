"""Bounds contain every value: random tables, every type, against the rows themselves."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiers
from hypothesis import given
from hypothesis import strategies as st


def whole_millis(at: dt.datetime) -> dt.datetime:
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[object]]] = {
    "boolean": (pa.bool_(), st.booleans()),
    "byte": (pa.int8(), st.integers(-128, 127)),
    "short": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "integer": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": (pa.float32(), st.floats(width=32)),
    "double": (pa.float64(), st.floats()),
    "string": (pa.string(), st.text(max_size=3) | st.text(min_size=60, max_size=80)),
    "binary": (pa.binary(), st.binary(max_size=3) | st.just(b"\xff" * 70) | st.binary(min_size=60, max_size=70)),
    "date": (pa.date32(), st.dates()),
    "timestamp": (pa.timestamp("us", tz="UTC"), st.datetimes(timezones=st.just(dt.timezone.utc))),
    "timestamp_ntz": (
        pa.timestamp("ms"),
        st.datetimes().map(whole_millis),
    ),
    "decimal(9,2)": (pa.decimal128(9, 2), st.decimals(-9999999, 9999999, places=2)),
    "decimal(18,0)": (pa.decimal128(18, 0), st.integers(-(10**18) + 1, 10**18 - 1).map(decimal.Decimal)),
    "decimal(38,3)": (pa.decimal128(38, 3), st.integers(-(10**34), 10**34).map(decimal.Decimal)),
}
DECIMAL_AS_INTEGER = {"store_decimal_as_integer": True} if int(pa.__version__.split(".")[0]) >= 17 else {}
UNSIGNED = {"short": pa.uint8(), "integer": pa.uint16(), "long": pa.uint32(), "decimal(20,0)": pa.uint64()}


@pytest.mark.parametrize("kind", KINDS)
@tiers.examples(15, quick=6)
@given(data=st.data())
def test_bounds_contain_every_value(kind, data, storage_class, indexed, truth):
    arrow, values = KINDS[kind]
    check_files(storage_class, indexed, truth, kind, arrow, data.draw(column_files(values)))


@pytest.mark.parametrize("kind", UNSIGNED)
@tiers.examples(10, quick=4)
@given(data=st.data())
def test_bounds_contain_every_unsigned_value(kind, data, storage_class, indexed, truth):
    arrow = UNSIGNED[kind]
    files = data.draw(column_files(st.integers(0, 2**arrow.bit_width - 1)))
    check_files(storage_class, indexed, truth, kind, arrow, files)


def column_files(values):
    return st.lists(st.lists(st.none() | values, max_size=6), min_size=1, max_size=3)


def check_files(storage_class, indexed, truth, kind, arrow, files):
    with tempfile.TemporaryDirectory() as root:
        storage = storage_class(Path(root))
        for i, values in enumerate(files):
            inner = pa.array([{"in": v} for v in values], pa.struct([("in", arrow)]))
            table = pa.table({"a": pa.array(values, arrow), "s.t": inner})
            pq.write_table(table, f"{root}/{i}.parquet", row_group_size=2, **(DECIMAL_AS_INTEGER if i == 1 else {}))
        bound = indexed(storage, {"a": kind, "s.t": "struct<in:any>"})
        assert bound.rows.tolist() == [len(values) for values in files]
        for path in (("a",), ("s.t", "in")):
            stats = bound.column(path)
            for i, values in enumerate(files):
                if stats is None:
                    assert not values
                else:
                    truth.of(values, kind).check(stats, i)
                    assert stats.nulls[i] == values.count(None)


def test_exact_bounds_are_found_where_the_writer_gives_them(storage, indexed, tmp_path):
    table = pa.table({"a": [3, None, 1], "f": [1.5, math.nan, -2.0], "t": ["b", "a", None]})
    pq.write_table(table, tmp_path / "x.parquet")
    bound = indexed(storage, {"a": "long", "f": "double", "t": "string"})
    a, f, t = (bound.column((name,)) for name in "aft")
    assert (a.lower[0], a.upper[0], a.nulls[0], a.bounded[0], a.may_nan[0]) == (1, 3, 1, True, False)
    assert (f.lower[0], f.upper[0], f.nulls[0], f.bounded[0], f.may_nan[0]) == (-2.0, 1.5, 0, True, True)
    assert (t.lower[0], t.upper[0], t.nulls[0], t.bounded[0]) == (b"a", b"b", 1, True)


def test_a_row_group_without_bounds_leaves_the_file_unbounded(storage, indexed, tmp_path):
    table = pa.table({"a": [1.0, 2.0, math.nan, math.nan, 5.0, 6.0]})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=2)
    stats = indexed(storage, {"a": "double"}).column(("a",))
    assert not stats.bounded[0]
    assert stats.nulls[0] == 0


def test_columns_without_statistics_are_unknown(storage, indexed, tmp_path):
    pq.write_table(pa.table({"a": [1, None], "b": [1, 2]}), tmp_path / "x.parquet", write_statistics=["b"])
    bound = indexed(storage, {"a": "long", "b": "long"})
    assert bound.column(("a",)) is None
    assert bound.column(("b",)).bounded.all()


def test_lists_maps_and_nanoseconds_are_never_indexed(storage, indexed, tmp_path):
    table = pa.table(
        {
            "l": pa.array([[1], []]),
            "ls": pa.array([[{"x": 1, "y": "q"}], None]),
            "m": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
            "n": pa.array([1, 2], pa.timestamp("ns")),
            "h": pa.array(np.array([1, 2], np.float16)),
            "t": pa.array([1, 2], pa.time64("us")),
            "i": pa.array([1, 2]),
        }
    )
    pq.write_table(table, tmp_path / "x.parquet")
    fields = dict.fromkeys(table.column_names, "long")
    bound = indexed(storage, fields)
    assert [name for name in fields if bound.column((name,)) is not None] == ["i"]
    assert all(bound.column(path) is None for path in [("l", "element"), ("ls", "x"), ("m", "key_value", "key")])


@pytest.mark.parametrize(("utc", "values", "kind", "bounds"), [
    (False, [1_250_000, 86_399_999_999], "time(6)", (1_250_000, 86_399_999_999)),
    (False, [1_250_000, 1_999_999], "time(0)", (1_000_000, 1_999_999)),
    (False, [-1, 5], "time(6)", None),
    (False, [1, 86_400_000_000], "time(6)", None),
    (True, [1, 2], "time(6)", None),
])  # fmt: skip
def test_times_of_day(storage, indexed, tmp_path, utc, values, kind, bounds):
    """Spark may cut what has more digits than the table's type; times in UTC and those beyond a day are not for it."""
    table = pa.table({"t": pa.array(values, pa.int64()).view(pa.time64("us"))})
    pq.write_table(table, tmp_path / "x.parquet", write_time_adjusted_to_utc=utc)
    stats = indexed(storage, {"t": kind}).column(("t",))
    if bounds is None:
        assert stats is None or not stats.bounded.any()
    else:
        assert (stats.lower[0], stats.upper[0]) == bounds


def test_int96_has_no_bounds(storage, indexed, tmp_path):
    table = pa.table({"t": pa.array([1, 2], pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "x.parquet", use_deprecated_int96_timestamps=True)
    assert indexed(storage, {"t": "timestamp"}).column(("t",)) is None


@pytest.mark.parametrize("writer", ["polars", "duckdb"])
def test_other_writers(writer, storage, indexed, truth, tmp_path):
    library = pytest.importorskip(writer)
    columns: dict[str, tuple[str, list[object], pa.DataType]] = {
        "f": ("double", [1.0, math.nan, -2.0, None], pa.float64()),
        "n": ("double", [math.nan, math.nan, math.nan, math.nan], pa.float64()),
        "t": ("string", ["é" * 100, "a" * 200, "", None], pa.string()),
        "d": ("decimal(38,2)", [decimal.Decimal("1.50"), decimal.Decimal("-2.50"), None, None], pa.decimal128(38, 2)),
        "e": ("decimal(9,2)", [decimal.Decimal("1.50"), decimal.Decimal("-2.50"), None, None], pa.decimal128(9, 2)),
        "u": ("decimal(20,0)", [1, 2**64 - 1, None, 2**63], pa.uint64()),
        "day": ("date", [dt.date(2020, 1, 1), None, dt.date(1950, 1, 1), dt.date(2030, 1, 1)], pa.date32()),
        "b": ("binary", [b"\xff" * 100, b"", b"a", None], pa.binary()),
    }
    arrow = pa.table({name: pa.array(values, kind) for name, (_, values, kind) in columns.items()})
    target = str(tmp_path / "x.parquet")
    if writer == "polars":
        library.from_arrow(arrow).write_parquet(target, row_group_size=2)
    else:
        library.connect().from_arrow(arrow).write_parquet(target)
    fields = {name: kind for name, (kind, _, _) in columns.items()}
    bound = indexed(storage, fields)
    for name, (kind, values, _) in columns.items():
        stats = bound.column((name,))
        if stats is not None:
            truth.of(values, kind).check(stats, 0)
    assert bound.column(("day",)).nulls[0] == 1
