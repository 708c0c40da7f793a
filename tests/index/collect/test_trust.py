"""Footers that must not be believed, or not in all they say."""

from __future__ import annotations

import datetime as dt
import io
import json
import math
import shutil
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from footer_leaves import leaves_of

from zskip.errors import ZskipWarning
from zskip.index import refresh
from zskip.index.collect.footers import MAX_BOUND_BYTES, FooterReader, plan_footers, read_group_stats, shorten_upper
from zskip.index.collect.trust import Trust, column_orders, judge
from zskip.index.store.leaves import read_leaves

SPARK = Path(__file__).parents[2] / "data" / "spark"


def rewrite_footer(table: pa.Table, old: bytes, new: bytes) -> tuple[io.BytesIO, int]:
    """Write a table and replace bytes of its footer."""
    stream = io.BytesIO()
    pq.write_table(table, stream)
    data = stream.getvalue()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer = data[start:-8]
    assert footer.count(old) == 1
    footer = footer.replace(old, new)
    changed = data[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    return io.BytesIO(changed), len(changed)


def stats_of(stream: io.BytesIO, size: int) -> dict[str, tuple[object, object, int]]:
    footer = FooterReader().read(stream, size)
    return {footer.columns[s.column].path[0]: (s.lower, s.upper, s.nulls) for s in leaves_of(footer)}


TABLE = pa.table({"i": [1, 2], "t": ["a", "é"], "u": pa.array([1, 2**32 - 1], pa.uint32()), "f": [0.5, 1.0]})


@pytest.mark.parametrize("columns", [1, 2, 14, 15, 16, 127, 128, 200])
def test_the_declared_order_is_recognized_in_real_footers(columns):
    stream = io.BytesIO()
    pq.write_table(pa.table({f"c{i}": ["x"] for i in range(columns)}), stream)
    data = stream.getvalue()
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    assert footer.endswith(column_orders(columns))
    assert judge(footer, columns, "any", None).ordered
    assert not judge(footer[:-1] + b"\x01", columns, "any", None).ordered


def test_without_a_declared_order_only_signed_numbers_are_bounded():
    stats = stats_of(*rewrite_footer(TABLE, column_orders(4), b"\x00"))
    assert all(stats[name][:2] == (None, None) for name in ("t", "u") if name in stats)
    assert stats_of(*rewrite_footer(TABLE, column_orders(4), column_orders(4)))["t"] == (b"a", "é".encode(), 0)


@pytest.mark.parametrize(
    ("created_by", "decimals", "floats"),
    [
        ("parquet-mr version 1.13.1 (build x)", True, True),
        ("parquet-mr version 1.8.0", False, True),
        ("parquet-cpp-arrow version 3.0.0", False, True),
        ("parquet-cpp-arrow version 26.0.1", True, True),
        ("parquet-cpp-zskip version 26.0.1", True, True),
        ("parquet-cpp version 1.5.1-SNAPSHOT", False, False),
        ("DuckDB version v1.2.0 (build x)", True, True),
        ("Polars", False, True),
        ("ClickHouse v24.1", False, True),
        ("", False, True),
        ("parquet-rs version 53.0.0", False, True),
    ],
)
def test_writers_with_wrong_bounds(created_by, decimals, floats):
    trust = judge(column_orders(1), 1, created_by, None)
    assert (trust.decimal_bytes, trust.floats) == (decimals, floats)


PARQUET_NET = ("Parquet.Net version 4.25.0", "Parquet.Net v6.0.3 (build 1a2b)", "parquet-dotnet 3.9.1")


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("writer", PARQUET_NET)
def test_the_times_of_parquet_net_are_not_bounded(writer, copied):
    """It shifts them by the writer's time zone, or ignores their unit; rows that other writers copied keep them."""
    moment = dt.datetime(2021, 1, 1, 12)
    times = {
        "d": pa.array([moment.date()]),
        "t": pa.array([moment.time()], pa.time64("us")),
        "ltz": pa.array([moment], pa.timestamp("us", "UTC")),
        "ntz": pa.array([moment], pa.timestamp("ms")),
    }
    table = pa.table({**times, "i": [1]})
    if copied:
        table = table.replace_schema_metadata({b"original.created.by": writer.encode()})
        stats = stats_of(stream := io.BytesIO(write(table)), len(stream.getvalue()))
    else:
        created = pq.ParquetFile(pa.BufferReader(write(table))).metadata.created_by.encode()
        stats = stats_of(*rewrite_footer(table, created, writer.encode().ljust(len(created))))
    assert {name: stats[name] for name in stats} == {**dict.fromkeys(times, (None, None, 0)), "i": (1, 1, 0)}


@pytest.mark.parametrize(
    ("keys", "proleptic"),
    [
        ({}, False),
        ({b"org.apache.spark.version": b"3.5.1"}, True),
        ({b"org.apache.spark.version": b"4.1.4"}, True),
        ({b"org.apache.spark.version": b"2.4.8"}, False),
        ({b"org.apache.spark.version": b"3.0.0", b"org.apache.spark.legacyDateTime": b""}, False),
        ({b"org.apache.spark.version": b"3.1.0", b"org.apache.spark.legacyINT96": b""}, False),
        ({b"org.apache.spark.version": b"who knows"}, False),
    ],
)
def test_calendars(keys, proleptic):
    assert judge(b"", 1, "parquet-mr version 1.13.1", keys).proleptic == proleptic


def test_timestamps_of_96_bits_are_in_utc_where_spark_leaves_them_alone():
    assert judge(b"", 1, "parquet-mr version 1.13.1", {}).utc_int96
    assert not judge(b"", 1, "impala version 4.1", {}).utc_int96


SPARK_KEYS = {b"org.apache.spark.version": b"4.1.4"}


@pytest.mark.parametrize(
    ("created_by", "keys", "counted"),
    [
        ("parquet-mr version 1.10.1 (build x)", SPARK_KEYS, True),
        ("parquet-mr version 1.17.1 (build x)", SPARK_KEYS, True),
        ("parquet-mr version 1.9.0 (build x)", SPARK_KEYS, False),
        ("parquet-mr version 1.18.0 (build x)", SPARK_KEYS, False),
        ("parquet-mr version 2.0.0 (build x)", SPARK_KEYS, False),
        ("parquet-mr version 1.16.0 (build x)", {}, False),
        ("parquet-mr version 1.16.0 (build x)", SPARK_KEYS | {b"original.created.by": b"parquet-cpp"}, False),
        ("parquet-mr compatible Photon version 1.16", SPARK_KEYS, False),
        ("parquet-mr-trino version 1.16", SPARK_KEYS, False),
        ("parquet-cpp-arrow version 26.0.1", SPARK_KEYS, False),
        ("parquet-cpp-zskip version 26.0.1", SPARK_KEYS, True),
        ("parquet-cpp-zskip version 26.0.1", SPARK_KEYS | {b"original.created.by": b"parquet-cpp"}, False),
        ("", SPARK_KEYS, False),
    ],
)
def test_writers_whose_upper_bounds_count_nan(created_by, keys, counted):
    assert judge(column_orders(1), 1, created_by, keys).nan_in_bounds == counted


@pytest.mark.parametrize("spark", [True, False])
def test_no_nan_is_known_only_of_writers_that_count_them(spark, storage, indexed):
    table = pa.table({"f": [0.5, 1.0], "g": pa.array([None, 2.0], pa.float32()), "i": [1, 2]})
    created = pq.ParquetFile(pa.BufferReader(write(table))).metadata.created_by.encode()
    named = b"parquet-mr version 1.16.0".ljust(len(created)) if spark else created
    stream, _ = rewrite_footer(table.replace_schema_metadata(SPARK_KEYS), created, named)
    (Path(storage.root) / "a.parquet").write_bytes(stream.getvalue())
    bound = indexed(storage, {"f": "double", "g": "float", "i": "long"})
    assert [bound.column((name,)).may_nan[0] for name in "fgi"] == [not spark, not spark, False]
    assert [bound.column((name,)).bounded[0] for name in "fgi"] == [True, True, True]


def write(table: pa.Table) -> bytes:
    stream = io.BytesIO()
    pq.write_table(table, stream)
    return stream.getvalue()


@pytest.mark.parametrize(("first", "bounded"), [(dt.date(1900, 1, 1), True), (dt.date(1899, 12, 31), False)])
def test_old_dates_of_unknown_writers_are_not_bounded(first, bounded):
    stream = io.BytesIO()
    days = pa.array([first, dt.date(2000, 1, 1)])
    pq.write_table(pa.table({"d": days, "t": days.cast(pa.timestamp("us"))}), stream)
    stats = stats_of(stream, stream.tell())
    assert [stats[name][0] is not None for name in ("d", "t")] == [bounded, bounded]
    assert stats["d"][2] == 0


def test_long_strings_are_shortened_to_bounds():
    for value in (b"a" * 100, b"a" * 10 + b"\xff" * 90, "é".encode() * 90, b"b" * 64, b"b" * 65):
        upper = shorten_upper(value)
        assert upper is not None
        assert upper >= value
        assert len(upper) <= MAX_BOUND_BYTES
    assert shorten_upper(b"\xff" * 65) is None


def test_floats_bounded_by_nan_are_not_bounded():
    one, nan = (b"\x18\x08" + __import__("struct").pack("<d", x) for x in (0.5, math.nan))
    stream, size = io.BytesIO(), 0
    pq.write_table(pa.table({"f": [0.5, 1.0]}), stream)
    data = stream.getvalue().replace(one[2:], nan[2:])
    stream, size = io.BytesIO(data), len(data)
    assert stats_of(stream, size)["f"] == (None, None, 0)


def test_unreadable_files_get_no_entry_and_one_warning(storage, snap, tmp_path):
    pq.write_table(TABLE, tmp_path / "good.parquet")
    data = (tmp_path / "good.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(data[:-20])
    (tmp_path / "text.parquet").write_text("not parquet, but long enough to be")
    (tmp_path / "short.parquet").write_bytes(b"PAR1")
    (tmp_path / "sealed.parquet").write_bytes(data[:-4] + b"PARE")
    (tmp_path / "zeroed.parquet").write_bytes(data[:-200] + bytes(150) + data[-50:])
    snapshot = snap(storage, {"i": "long"})
    with pytest.warns(ZskipWarning, match=r"no statistics of .* and 2 more") as caught:
        bound = refresh(storage, snapshot).bind(snapshot)
    assert len(caught) == 1
    assert bound.coverage == 1
    assert bound.rows.tolist() == [2 if path == "good.parquet" else -1 for path in snapshot.paths]


def spark_file(storage, indexed, name: str, fields: dict[str, str]):
    shutil.copy(SPARK / f"{name}.parquet", storage.root)
    return indexed(storage, fields)


SPARK_FIELDS = {
    "b": "byte",
    "s": "short",
    "i": "integer",
    "l": "long",
    "f": "float",
    "d": "double",
    "str": "string",
    "bin": "binary",
    "flag": "boolean",
    "day": "date",
    "ts": "timestamp",
    "ntz": "timestamp_ntz",
    "d4": "decimal(4,2)",
    "d18": "decimal(18,4)",
    "d38": "decimal(38,2)",
    "st": "struct<...>",
    "arr": "array<integer>",
    "m": "map<string,integer>",
}


@pytest.mark.parametrize("name", ["types", "int96", "millis", "legacy_format"])
def test_files_of_spark(name, storage, indexed, truth):
    bound = spark_file(storage, indexed, name, SPARK_FIELDS)
    table = pq.read_table(SPARK / f"{name}.parquet")
    for column, kind in SPARK_FIELDS.items():
        stats = bound.column((column,))
        if column in ("st", "arr", "m"):
            assert stats is None
        else:
            assert stats is not None, column
            truth.of(table[column].to_pylist(), kind).check(stats, 0)
            assert stats.nulls[0] == 1
            assert stats.bounded[0] or column in ("f", "d") or (column == "ts" and name == "int96")
    assert bound.column(("st", "x")).nulls[0] == 2
    assert bound.column(("st", "y.z")).lower[0] == b"b"
    assert bound.column(("st", "in", "k")).upper[0] == 5
    assert bound.column(("str",)).upper[0] == "zülü".encode()
    assert bound.column(("d38",)).bounded[0]


def test_ancient_days_of_spark(storage, indexed):
    fields = {"day": "date", "ts": "timestamp", "i": "integer"}
    bound = spark_file(storage, indexed, "ancient", fields)
    assert bound.column(("day",)).lower[0] == (dt.date(1500, 3, 1) - dt.date(1970, 1, 1)).days
    (Path(storage.root) / "ancient.parquet").unlink()
    bound = spark_file(storage, indexed, "ancient_legacy", fields)
    assert not bound.column(("day",)).bounded[0]
    assert not bound.column(("ts",)).bounded[0]
    assert bound.column(("i",)).bounded[0]


def test_recent_days_are_the_same_in_both_calendars(storage, indexed):
    bound = spark_file(storage, indexed, "recent_legacy", {"day": "date", "ts": "timestamp", "i": "integer"})
    assert bound.column(("day",)).upper[0] == (dt.date(2020, 1, 2) - dt.date(1970, 1, 1)).days
    assert bound.column(("ts",)).bounded[0]


def test_intervals_of_spark(storage, indexed):
    fields = {"ym": "interval year to month", "ds": "interval day to second"}
    bound = spark_file(storage, indexed, "intervals", fields)
    assert bound.column(("ym",)).lower[0] == 14
    assert bound.column(("ds",)).upper[0] == (26 * 3600 + 3 * 60 + 4) * 1_000_000


def test_collated_strings_are_not_indexed(storage, indexed):
    bound = spark_file(storage, indexed, "collated", {"c": "string", "plain": "string", "st": "struct<c:string>"})
    assert bound.column(("c",)) is None
    assert bound.column(("st", "c")) is None
    assert bound.column(("plain",)).bounded[0]


def test_a_column_with_a_default_is_not_null_in_files_without_it(storage, indexed, tmp_path):
    pq.write_table(pa.table({"a": pa.array([1], pa.int32())}), tmp_path / "before.parquet")
    bound = spark_file(storage, indexed, "defaults", {"a": "integer", "b": "integer"})
    nulls = bound.column(("b",)).nulls.tolist()
    assert dict(zip(bound.snapshot.paths, nulls, strict=True)) == {
        "before.parquet": -1,
        "defaults.parquet": 0,
    }


def test_the_fixture_has_the_default_in_its_footer():
    keys = pq.read_metadata(SPARK / "defaults.parquet").metadata
    fields = json.loads(keys[b"org.apache.spark.sql.parquet.row.metadata"])["fields"]
    assert [f["metadata"].get("EXISTS_DEFAULT") for f in fields] == [None, "5"]


def bounds(kind: pa.DataType, low: object, high: object, **distrust: bool) -> tuple[object, object]:
    """What one row group tells that states these raw bounds, however the reader came by them."""
    stream = io.BytesIO()
    pq.write_table(pa.table({"a": pa.array([], kind)}), stream)
    leaves = read_leaves(pq.ParquetFile(stream).schema)
    stats = SimpleNamespace(has_min_max=True, min_raw=low, max_raw=high, has_null_count=True, null_count=0)
    chunk = SimpleNamespace(statistics=stats, physical_type=leaves.indexed[0].physical_type)
    group = SimpleNamespace(num_rows=2, column=lambda ordinal: chunk)
    trust = {"ordered": True, "decimal_bytes": True, "floats": True, "times": True, "proleptic": True} | distrust
    lists = read_group_stats(plan_footers(leaves, Trust(**trust), frozenset()), group)
    return lists.lower[0], lists.upper[0]


def test_each_distrust_costs_its_types_their_bounds():
    none = (None, None)
    assert bounds(pa.string(), b"a", b"b") == (b"a", b"b")
    assert bounds(pa.string(), b"a", b"b", ordered=False) == none
    assert bounds(pa.uint32(), 1, -1) == (1, 2**32 - 1)
    assert bounds(pa.uint32(), 1, 2, ordered=False) == none
    assert bounds(pa.int64(), 1, 2, ordered=False, decimal_bytes=False, floats=False) == (1, 2)
    assert bounds(pa.decimal128(9, 2), b"\xff\xff\xff\xff", b"\0\0\0\1") == (-1, 1)
    assert bounds(pa.decimal128(9, 2), b"\xff\xff\xff\xff", b"\0\0\0\1", decimal_bytes=False) == none
    assert bounds(pa.float64(), 1.0, 2.0) == (1.0, 2.0)
    assert bounds(pa.float64(), 1.0, 2.0, floats=False) == none
    for kind in (pa.date32(), pa.time64("us"), pa.timestamp("us"), pa.timestamp("ms", "UTC")):
        assert bounds(kind, 1, 2) != none
        assert bounds(kind, 1, 2, times=False) == none


def test_bounds_that_cannot_be_are_no_bounds():
    none = (None, None)
    assert bounds(pa.int8(), -128, 127) == (-128, 127)
    assert bounds(pa.int8(), -129, 127) == none
    assert bounds(pa.uint8(), -1, 5) == none
    assert bounds(pa.int64(), 2, 1) == none
    assert bounds(pa.float32(), math.nan, 1.0) == none
    assert bounds(pa.decimal128(4, 0), (10**4).to_bytes(2, "big"), b"\0\0\0\1") == none
    assert bounds(pa.timestamp("ms"), -(2**63), 0) == none


def test_a_column_of_another_type_than_its_schema_makes_a_footer_unreadable():
    table, stream = pa.table({"a": pa.array([1, 2], pa.int64())}), io.BytesIO()
    pq.write_table(table, stream)
    data = stream.getvalue()
    # The metadata of a chunk begins with its type, INT64, and the list of its encodings.
    changed = data.replace(b"\x1c\x15\x04\x19", b"\x1c\x15\x0c\x19")
    assert data != changed
    with pytest.raises(ValueError, match="INT64 in its schema and BYTE_ARRAY"):
        FooterReader().read(io.BytesIO(changed), len(changed))
