"""Small tables that the tests of `Table` share."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

ROWS = 6_000
"""Rows of `make_events`."""
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def events(rows: int = ROWS, seed: int = 1) -> pa.Table:
    """A table with a column of each common type, nulls in most of them."""
    rng = np.random.default_rng(seed)
    day = dt.date(2024, 1, 1)
    table = pa.table(
        {
            "id": pa.array(rng.permutation(rows)),
            "user": pa.array(rng.integers(0, 500, rows), mask=rng.random(rows) < 0.05),
            "day": pa.array([day + dt.timedelta(days=int(d)) for d in rng.integers(0, 300, rows)]),
            "at": pa.array(rng.integers(1_700_000_000, 1_710_000_000, rows) * 1_000_000, pa.timestamp("us", tz="UTC")),
            "score": pa.array(np.where(rng.random(rows) < 0.02, np.nan, rng.normal(size=rows))),
            "name": pa.array([f"name-{x:04d}" for x in rng.integers(0, 3000, rows)], mask=rng.random(rows) < 0.05),
            "price": pa.array(rng.integers(0, 10_000, rows)).cast(pa.decimal128(22, 0)).cast(pa.decimal128(12, 2)),
            "flag": pa.array(rng.random(rows) < 0.3),
            "tags": pa.array([["a", "b"][: int(k)] for k in rng.integers(0, 3, rows)]),
        }
    )
    return table


def make_events(path: Path, files: int = 6, rows: int = ROWS, seed: int = 1) -> Path:
    """Write `events` as a plain directory of some files."""
    path.mkdir(parents=True)
    table = events(rows, seed)
    step = -(-rows // files)
    for i in range(files):
        pq.write_table(table.slice(i * step, step), path / f"part-{i:05d}.parquet")
    return path


def make_partitioned(path: Path, rows: int = ROWS) -> Path:
    """Write `events` in Hive partitions of a string with awkward characters and an integer, one of them null."""
    rng = np.random.default_rng(5)
    region = pa.array(np.array(["eu", "us east", "a=b/c%"])[rng.integers(0, 3, rows)], mask=rng.random(rows) < 0.1)
    table = events(rows).append_column("region", region).append_column("y", pa.array(rng.integers(2023, 2025, rows)))
    ds.write_dataset(
        table,
        path,
        format="parquet",
        partitioning=ds.partitioning(pa.schema([("region", pa.string()), ("y", pa.int64())]), flavor="hive"),
        max_rows_per_file=400,
        max_rows_per_group=400,
    )
    return path


def visible(path: Path) -> list[Path]:
    """The files that any Parquet reader sees."""
    found = (f for f in path.rglob("*.parquet") if not any(p.startswith(("_", ".")) for p in f.relative_to(path).parts))
    return sorted(found)


def ids(path: Path) -> list[int]:
    """All values of `id` that a reader of the visible files sees, sorted."""
    return sorted(
        x for f in visible(path) for x in pq.read_table(f, columns=["id"], partitioning=None)["id"].to_pylist()
    )


def make_all_types(path: Path) -> Path:
    """Four files of every type with an order, extremes, nulls and NaN among the values; one file of nulls."""
    rng = random.Random(5)
    floats = [math.nan, math.inf, -math.inf, -0.0, 0.0, 1.5, -1.5e300]
    kinds: list[tuple[str, pa.DataType, Callable[[], Any]]] = [
        ("boolean", pa.bool_(), lambda: rng.random() < 0.5),
        ("tiny", pa.int8(), lambda: rng.randint(-128, 127)),
        ("small", pa.int16(), lambda: rng.choice([-(2**15), 2**15 - 1, 0, 7])),
        ("whole", pa.int32(), lambda: rng.choice([-(2**31), 2**31 - 1, 0, 7])),
        ("large", pa.int64(), lambda: rng.choice([-(2**63), 2**63 - 1, 0, 7])),
        ("single", pa.float32(), lambda: rng.choice([*floats[:-1], 0.1])),
        ("double", pa.float64(), lambda: rng.choice([*floats, 0.1])),
        ("short decimal", pa.decimal128(9, 2), lambda: decimal.Decimal(rng.randint(-(10**9) + 1, 10**9 - 1)) / 100),
        ("long decimal", pa.decimal128(38, 10), lambda: decimal.Decimal(rng.randint(-(10**27), 10**27)) / 10),
        ("text", pa.string(), lambda: rng.choice(["", "é", "zß" * 50, "a'b\\c", "%_", "\U0010ffff" * 30])),
        ("bytes", pa.binary(), lambda: rng.choice([b"", b"\xff" * 80, b"\x00", b"a'b"])),
        ("day", pa.date32(), lambda: dt.date(1970, 1, 1) + dt.timedelta(rng.randint(-700_000, 2_900_000))),
        ("at", pa.timestamp("us", "UTC"), lambda: EPOCH + dt.timedelta(microseconds=rng.randint(-(10**16), 10**17))),
        ("local", pa.timestamp("us"), lambda: dt.datetime(2024, 1, 1) + dt.timedelta(seconds=rng.randint(0, 10**8))),
    ]
    path.mkdir()
    for file in range(4):
        null = 1.0 if file == 3 else 0.2
        columns = {
            name: pa.array([None if rng.random() < null else value() for _ in range(60)], kind)
            for name, kind, value in kinds
        }
        columns["of.struct"] = pa.StructArray.from_arrays([columns["whole"], columns["text"]], ["x", "a `b`"])
        columns["list"] = pa.array([[1]] * 60)
        columns["map"] = pa.array([[("k", 1)]] * 60, pa.map_(pa.string(), pa.int32()))
        pq.write_table(pa.table(columns), path / f"part-{file}.parquet")
    return path
