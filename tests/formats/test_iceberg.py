"""Iceberg tables by their path: no row is lost by what manifests say, and what zskip would read wrongly is refused."""

from __future__ import annotations

import datetime as dt
import json
import random
import struct
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

import zskip
from zskip.errors import UnsupportedError
from zskip.storage import LocalStorage

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")
pytest.importorskip("pyiceberg_core")

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import (
    DataFile,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, Transform, TruncateTransform
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


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    (tmp_path / "wh").mkdir()
    found = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/wh")
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


def literal(value: Any) -> str:
    if isinstance(value, float):
        return "CAST('NaN' AS DOUBLE)" if value != value else f"CAST({value!r} AS DOUBLE)"
    if isinstance(value, dt.datetime):
        kind = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP"
        return f"{kind}'{value.replace(tzinfo=None).isoformat(sep=' ')}'"
    if isinstance(value, dt.date):
        return f"DATE'{value.isoformat()}'"
    return f"'{value}'" if isinstance(value, str) else str(value)


def predicates(rng: random.Random, rows: pa.Table, count: int) -> list[str]:
    """Random predicates on values of the rows, in SQL that Spark and DuckDB read alike."""
    names = [name for name in rows.column_names if name not in ("u", "bin", "fx", "tm", "n", "l")]

    def leaf() -> str:
        name = rng.choice(names)
        if rng.random() < 0.15:
            return f"{name} IS {rng.choice(['', 'NOT '])}NULL"
        held = [v for v in rows[name].to_pylist() if v is not None]
        values = [literal(rng.choice(held)) for _ in range(3)]
        if rng.random() < 0.2:
            return f"{name} IN ({', '.join(values)})"
        if rng.random() < 0.2 and name == "s":
            return f"s LIKE '{values[0][1:4]}%'"
        return f"{name} {rng.choice(['=', '<', '<=', '>', '>=', '<>'])} {values[0]}"

    def tree(depth: int) -> str:
        if depth == 0 or rng.random() < 0.4:
            return leaf()
        if rng.random() < 0.2:
            return f"NOT ({tree(depth - 1)})"
        return f"({tree(depth - 1)}) {rng.choice(['AND', 'OR'])} ({tree(depth - 1)})"

    return [tree(2) for _ in range(count)]


def refuse_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(self: LocalStorage, path: str) -> Any:
        raise AssertionError(f"{path} was opened")

    monkeypatch.setattr(LocalStorage, "open", opened)


def check(table: Table, rng: random.Random, count: int = 40) -> int:
    """No row is lost, whatever is asked; returns the number of files skipped."""
    opened = zskip.open(str(path_of(table)))
    everything = opened.files()
    rows = read_files(table, everything)
    assert rows_of(rows.drop_columns(["file"])) == rows_of(table.scan().to_arrow())
    skipped = 0
    for where in predicates(rng, rows.drop_columns(["file"]), count):
        kept = set(map(str, opened.files(where)))
        assert set(matching(rows, where)) <= kept, where
        skipped += len(everything) - len(kept)
    return skipped


BY: dict[str, tuple[tuple[str, Transform[Any, Any]], ...]] = {
    "nothing": (),
    "text and truth": (("s", IdentityTransform()), ("b", IdentityTransform())),
    "date": (("d", IdentityTransform()),),
    "decimal": (("m", IdentityTransform()),),
    "times": (("ts", IdentityTransform()), ("tn", DayTransform())),
    "bucket": (("id", BucketTransform(3)), ("i", TruncateTransform(10))),
    "days": (("ts", DayTransform()), ("s", TruncateTransform(2))),
}


@pytest.mark.parametrize("by", BY)
def test_no_row_is_lost_and_no_file_opened(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    rng = random.Random(by)
    table = create(catalog, *BY[by])
    for start in (0, 10, 50, 90):
        table.append(content(rng, 12, start))
    refuse_opens(monkeypatch)
    assert check(table, rng) > 40


def test_nan_and_nulls_are_known(catalog: SqlCatalog) -> None:
    schema = Schema(
        NestedField(1, "x", DoubleType()), NestedField(2, "k", DoubleType()), NestedField(3, "s", StringType())
    )
    table = create(catalog, ("k", IdentityTransform()), schema=schema)
    nan = float("nan")
    for x, k, s in (([1.0, nan], 1.0, "a"), ([2.0, 3.0], 7.0, None), ([nan, nan], None, "c"), ([None, None], 2.0, "d")):
        table.append(
            pa.table(
                {
                    "x": pa.array(x, pa.float64()),
                    "k": pa.array([k] * 2, pa.float64()),
                    "s": pa.array([s] * 2, pa.string()),
                }
            )
        )
    opened = zskip.open(str(path_of(table)))
    rows = read_files(table, opened.files())

    def skipped(where: str) -> int:
        kept = set(map(str, opened.files(where)))
        assert set(matching(rows, where)) <= kept
        return 4 - len(kept)

    assert skipped("x > 5") == 1  # Of other files, nobody counted NaN, which is greater.
    assert skipped("x < 0.5") >= 2
    assert skipped("x IS NOT NULL") == 1
    assert skipped("k = 7") == 3
    assert skipped("k IS NULL") == 3
    assert skipped("s IS NULL") == 3
    assert skipped("s IS NOT NULL") == 1
    assert skipped("s = 'c'") == 3


def test_a_count_of_nan_is_exact(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = catalog.create_table("db.t", Schema(NestedField(1, "x", DoubleType())))
    for values in ([1.0, 2.0], [float("nan")] * 2, [1.0, float("nan")]):
        table.append(pa.table({"x": values}))
    counts = {2.0: 0, None: 2, 1.0: 1}

    def counted(file: DataFile) -> dict[int, int]:
        upper = file.upper_bounds.get(1)
        return {1: counts[None if upper is None else struct.unpack("<d", upper)[0]]}

    monkeypatch.setattr(DataFile, "nan_value_counts", property(counted))
    opened = zskip.open(str(path_of(table)))
    assert len(opened.files("x > 5")) == 2
    assert len(opened.files("x < 5")) == 2
    assert len(opened.files("x = CAST('NaN' AS DOUBLE)")) == 2


def test_a_value_count_that_is_not_the_number_of_rows_makes_nulls_unknown(
    catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = small(catalog)
    opened = zskip.open(str(path_of(table)))
    assert opened.files("a IS NULL") == []
    monkeypatch.setattr(DataFile, "value_counts", property(lambda _: {1: 2}))
    assert len(opened.files("a IS NULL")) == 2


def test_older_files_of_narrower_types_and_fewer_columns(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create(catalog, ("b", IdentityTransform()))
    rng = random.Random(7)
    table.append(content(rng, 20, 0))
    with table.update_schema() as update:
        update.update_column("i", LongType())
        update.update_column("f", DoubleType())
        update.update_column("m", DecimalType(18, 2))
        update.add_column("more", StringType())
        update.add_column(("n", "inner"), LongType())
        update.delete_column("tn")
    rows = content(rng, 20, 30).drop_columns(["tn"])
    rows = rows.set_column(1, "i", pa.array([2**40 + i for i in range(20)], pa.int64()))
    rows = rows.set_column(rows.column_names.index("f"), "f", rows["f"].cast(pa.float64()))
    rows = rows.append_column("more", pa.array([f"more {i}" for i in range(20)]))
    table.append(rows)
    with table.update_spec() as spec:
        spec.remove_field("p0")
        spec.add_field("d", IdentityTransform())
    table.append(content(rng, 20, 60).drop_columns(["tn"]))
    refuse_opens(monkeypatch)
    assert check(table, rng, 100) > 40
    opened = zskip.open(str(path_of(table)))
    assert opened.info().columns["i"] == "long"
    assert opened.info().columns["m"] == "decimal(18,2)"
    assert len(opened.files(f"i >= {2**40}")) < len(opened.files())


@pytest.mark.parametrize("change", ["rename", "rename inside", "add again", "add again in another case"])
def test_columns_whose_names_are_not_sure_are_refused(catalog: SqlCatalog, change: str) -> None:
    table = create(catalog)
    table.append(content(random.Random(1), 5, 0))
    with table.update_schema() as update:
        if change.startswith("rename"):
            update.rename_column("s" if change == "rename" else ("n", "r"), "other")
        else:
            update.delete_column("s")
    if change.startswith("add"):
        with table.update_schema() as update:
            update.add_column("s" if change == "add again" else "S", StringType())
    opened = zskip.open(str(path_of(table)))
    reason = 'called "(s|n.r)"' if change.startswith("rename") else '"s" was dropped and another'
    for read in (opened.files, opened.info, opened.index):
        with pytest.raises(UnsupportedError, match=reason):
            read()
    assert not (path_of(table) / "_zskip").exists()


def test_a_column_that_was_dropped_is_no_more(catalog: SqlCatalog) -> None:
    table = small(catalog)
    with table.update_schema() as update:
        update.delete_column("s")
    opened = zskip.open(str(path_of(table)))
    assert list(opened.info().columns) == ["a"]
    assert len(opened.files("a >= 100")) == 1


def test_history_that_expired_is_refused(catalog: SqlCatalog) -> None:
    table = small(catalog)
    with table.update_schema() as update:
        update.add_column("more", StringType())
    edit(table, lambda metadata: metadata["schemas"].pop(0))
    with pytest.raises(UnsupportedError, match="older schemas are expired"):
        zskip.open(str(path_of(table))).files()


def test_a_name_that_files_spell_otherwise_is_refused(catalog: SqlCatalog) -> None:
    table = catalog.create_table("db.t", Schema(NestedField(1, "a b", IntegerType())))
    table.append(pa.table({"a b": pa.array([1], pa.int32())}))
    with pytest.raises(UnsupportedError, match='"a b" is called "a_x20b" in its files'):
        zskip.open(str(path_of(table))).files()


def test_rows_deleted_by_rewriting_files_are_gone(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(3)
    table = create(catalog, ("b", IdentityTransform()))
    for start in (0, 11, 40):
        table.append(content(rng, 20, start))
    table.delete("id >= 5 and id < 15")
    table.delete("id >= 40 and id < 60")
    table.overwrite(content(rng, 20, 200), "id = 20")
    refuse_opens(monkeypatch)
    assert check(table, rng) > 0
