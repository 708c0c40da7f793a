"""Iceberg tables made by pyiceberg, read back by it and by pyarrow."""

from __future__ import annotations

import datetime as dt
import json
import random
import uuid
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")
pytest.importorskip("pyiceberg_core")

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import Transform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "i", IntegerType()),
    NestedField(3, "f", FloatType()),
    NestedField(4, "x", DoubleType()),
    NestedField(5, "s", StringType()),
    NestedField(6, "b", BooleanType()),
    NestedField(7, "d", DateType()),
    NestedField(8, "ts", TimestamptzType()),
    NestedField(9, "tn", TimestampType()),
    NestedField(10, "m", DecimalType(9, 2)),
    NestedField(11, "w", DecimalType(25, 3)),
    NestedField(12, "u", UUIDType()),
    NestedField(13, "bin", BinaryType()),
    NestedField(14, "fx", FixedType(4)),
    NestedField(15, "tm", TimeType()),
    NestedField(16, "n", StructType(NestedField(17, "q", LongType()), NestedField(18, "r", StringType()))),
    NestedField(19, "l", ListType(20, IntegerType(), element_required=False)),
)
UTC = dt.timezone.utc


def content(rng: random.Random, rows: int, start: int) -> pa.Table:
    """Rows that come clustered by `id`, with nulls, NaN and texts longer than bounds are."""
    day = dt.datetime(2024, 1, 1)

    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.15 else value

    ids = range(start, start + rows)
    some = rng.choice(["é" * 20, "z" * 30, "a/b %25=c", "\U0010ffff" * 17])
    columns: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
        "id": (pa.int64(), lambda i: i),
        "i": (pa.int32(), lambda i: maybe(i % 50 - 10)),
        "f": (pa.float32(), lambda i: maybe(rng.choice([float(i), 0.1, -0.0, float("nan")]))),
        "x": (pa.float64(), lambda i: maybe(float("nan") if start % 3 else i / 4)),
        "s": (pa.string(), lambda i: maybe(some[: rng.randrange(31)] + str(i))),
        "b": (pa.bool_(), lambda i: maybe(start % 2 == 0)),
        "d": (pa.date32(), lambda i: maybe(day.date() + dt.timedelta(days=i // 20))),
        "ts": (
            pa.timestamp("us", "UTC"),
            lambda i: maybe((day + dt.timedelta(hours=i, microseconds=1)).replace(tzinfo=UTC)),
        ),
        "tn": (pa.timestamp("us"), lambda i: maybe(day - dt.timedelta(hours=i))),
        "m": (pa.decimal128(9, 2), lambda i: maybe(Decimal(i - 60) / 4)),
        "w": (pa.decimal128(25, 3), lambda i: maybe(Decimal(i - 60) * 10**15 / 8)),
        "u": (pa.binary(16), lambda i: maybe(uuid.UUID(int=i << 96).bytes)),
        "bin": (pa.binary(), lambda i: maybe(bytes([255, i % 256]) * 10)),
        "fx": (pa.binary(4), lambda i: maybe(i.to_bytes(4, "big"))),
        "tm": (pa.time64("us"), lambda i: maybe(dt.time(i % 24, 1))),
        "n": (pa.struct([("q", pa.int64()), ("r", pa.string())]), lambda i: maybe({"q": i, "r": maybe(str(i))})),
        "l": (pa.list_(pa.int32()), lambda i: maybe([i, None])),
    }
    table = pa.table({name: pa.array([make(i) for i in ids], kind) for name, (kind, make) in columns.items()})
    return table.set_column(table.column_names.index("u"), "u", table["u"].combine_chunks().cast(pa.uuid()))


def catalog_at(path: Path) -> SqlCatalog:
    """A catalog whose tables lie below a directory."""
    (path / "wh").mkdir()
    found = SqlCatalog("c", uri=f"sqlite:///{path}/c.db", warehouse=f"file://{path}/wh")
    found.create_namespace("db")
    return found


def create(
    catalog: SqlCatalog, *by: tuple[str, Transform[Any, Any]], schema: Schema = SCHEMA, **properties: str
) -> Table:
    fields = [
        PartitionField(schema.find_field(name).field_id, 1000 + i, transform, f"p{i}")
        for i, (name, transform) in enumerate(by)
    ]
    return catalog.create_table("db.t", schema, partition_spec=PartitionSpec(*fields), properties=properties)


def small(catalog: SqlCatalog, rows: int = 3) -> Table:
    """A table of two columns in two files."""
    schema = Schema(NestedField(1, "a", IntegerType()), NestedField(2, "s", StringType()))
    table = catalog.create_table("db.t", schema)
    for start in (0, 100):
        table.append(
            pa.table({"a": pa.array(range(start, start + rows), pa.int32()), "s": [f"v{i}" for i in range(rows)]})
        )
    return table


def path_of(table: Table) -> Path:
    return Path(table.location().removeprefix("file://"))


def newest(table: Table) -> Path:
    return Path(table.metadata_location.removeprefix("file://"))


def edit(table: Table, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the JSON of the newest metadata in place."""
    described = json.loads(newest(table).read_text())
    change(described)
    newest(table).write_text(json.dumps(described))


def rows_of(table: pa.Table) -> Counter[str]:
    """The multiset of a table's rows."""
    return Counter(map(str, table.to_pylist()))


def matching(table: pa.Table, where: str) -> list[Any]:
    """The content of `file` in each row for which DuckDB, whose NaN sorts as Spark's, finds a predicate true."""
    where = where.replace("TIMESTAMP'", "TIMESTAMPTZ'").replace("TIMESTAMP_NTZ", "TIMESTAMP")
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone='UTC'")
        connection.register("rows", table.drop_columns([n for n in ("u", "l", "n") if n in table.column_names]))
        return [row[0] for row in connection.sql(f"SELECT file FROM rows WHERE {where}").fetchall()]


def read_files(table: Table, paths: list[Any]) -> pa.Table:
    """The rows of data files by the names of their columns, absent ones as nulls, and in `file` where they are from."""
    schema = table.scan().to_arrow().schema
    parts = [ds.dataset([str(path)], schema=schema, format="parquet").to_table() for path in paths]
    names = [pa.array([str(path)] * part.num_rows) for part, path in zip(parts, paths, strict=True)]
    found = [part.append_column("file", name) for part, name in zip(parts, names, strict=True)]
    return pa.concat_tables(found) if found else schema.append(pa.field("file", pa.string())).empty_table()
