"""Random tables of a few rows, as files that Spark reads: with nulls, NaN, -0.0, empty files and duplicates.

Some have columns of structs, arrays, maps, JSON texts and variants, which `nested_values.py` describes.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nested_values
import pyarrow as pa
import pyarrow.parquet as pq
from nested_values import DAY, NESTED, TEXTS

MOMENT = dt.datetime(2020, 2, 20, 22, tzinfo=dt.timezone.utc)
POOLS: dict[str, list[Any]] = {
    "int": list(range(-2, 11)),
    "bigint": [*range(-2, 11), 2**40],
    "smallint": list(range(-2, 11)),
    "string": TEXTS,
    "date": [DAY + dt.timedelta(days=i) for i in range(12)],
    "timestamp": [MOMENT + dt.timedelta(hours=7 * i) for i in range(12)],
    "double": [-math.inf, -1.5, -0.0, 0.0, 1.0, 2.0, 2.5, 7.0, 9.0, math.inf, math.nan],
    "decimal(9,2)": [decimal.Decimal(i).scaleb(-1) for i in range(-10, 100, 9)],
    "boolean": [False, True],
}
"""Values in Spark's order, by the type's name."""
ARROW = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "smallint": pa.int16(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "double": pa.float64(),
    "decimal(9,2)": pa.decimal128(9, 2),
    "boolean": pa.bool_(),
    **{kind: nested.arrow for kind, nested in NESTED.items()},
}
NAMES = {kind: kind[0] + str(i) for i, kind in enumerate(POOLS)}
NAMES |= {kind: nested.column for kind, nested in NESTED.items()}
"""The column of each type is called the same in all tables."""
PARTITION = "p"


def pool_of(kind: str) -> list[Any]:
    """The values of a type."""
    return POOLS[kind] if kind in POOLS else NESTED[kind].pool


@dataclass(frozen=True)
class Table:
    """Files of rows."""

    name: str
    columns: tuple[tuple[str, str], ...]
    """Name and type of each; a partition column comes last."""
    files: tuple[tuple[tuple[Any, ...], ...], ...]
    """Of each file the rows, without the partition column."""
    partitions: tuple[int | None, ...] | None
    """Of each file the value of the partition column, if there is one."""

    @property
    def ddl(self) -> str:
        """The schema as SQL."""
        return ", ".join(f"{name} {ddl_of(kind)}" for name, kind in self.columns)

    def __str__(self) -> str:
        shown = [f"CREATE TABLE {self.name} ({self.ddl})"]
        for i, rows in enumerate(self.files):
            where = f" of partition {self.partitions[i]}" if self.partitions else ""
            shown.append(f"  file {i}{where}: {list(rows)}")
        return "\n".join(shown)


def ddl_of(kind: str) -> str:
    """A type as SQL."""
    return "string" if kind == "json" else kind


def table(rng: random.Random, name: str, nested: Sequence[str] = ()) -> Table:
    """One to eight files of none to eight rows, of which each may hold a part of each column's values, or all.

    nested: types of columns that it may have besides.
    """
    kinds = ["int", *rng.sample([k for k in POOLS if k != "int"], rng.randint(2, 4))]
    if nested:
        kinds += rng.sample(list(nested), min(len(nested), rng.choice([0, 1, 2, 3])))
    count = rng.randint(1, 8)
    windows = [[_window(rng, pool_of(kind), i, count) for kind in kinds] for i in range(count)]
    files = tuple(_rows(rng, columns) for columns in windows)
    columns = tuple((NAMES[kind], kind) for kind in kinds)
    if rng.random() < 0.3:
        values = tuple(rng.choice([0, 1, 2, None]) for _ in files)
        return Table(name, (*columns, (PARTITION, "int")), files, values)
    return Table(name, columns, files, None)


def _window(rng: random.Random, pool: list[Any], i: int, count: int) -> list[Any]:
    """The values of one file: a part of the pool, as in a clustered table, one, or all; maybe null, too, or alone."""
    kind = rng.random()
    if kind < 0.06:
        return [None]
    low = len(pool) * i // count
    part = pool if kind < 0.25 else pool[low : max(len(pool) * (i + 1) // count, low + 1)]
    if kind > 0.85:
        part = [rng.choice(part)]
    return [*part, None] if rng.random() < 0.25 else part


def _rows(rng: random.Random, columns: list[list[Any]]) -> tuple[tuple[Any, ...], ...]:
    rows = [tuple(map(rng.choice, columns)) for _ in range(rng.choice([0, 1, 2, 3, 5, 8]))]
    return tuple(rows + rows[:1] * rng.randint(0, 1))


def write(table: Table, path: Path) -> None:
    """Write the files as Parquet, in Hive's directories where there is a partition column."""
    of_files = table.columns[:-1] if table.partitions else table.columns
    schema = pa.schema([(name, ARROW[kind]) for name, kind in of_files])
    for i, rows in enumerate(table.files):
        directory = path
        if table.partitions:
            value = table.partitions[i]
            directory = path / f"{PARTITION}={'__HIVE_DEFAULT_PARTITION__' if value is None else value}"
        directory.mkdir(parents=True, exist_ok=True)
        arrays = [nested_values.to_arrow([row[j] for row in rows], field.type) for j, field in enumerate(schema)]
        pq.write_table(pa.table(arrays, schema=schema), directory / f"part-{i:05d}.parquet")


def write_whole(table: Table, path: Path) -> None:
    """Write all rows as one Parquet file, the partition column among the others."""
    partitions = table.partitions or (None,) * len(table.files)
    pairs = zip(table.files, partitions, strict=True)
    rows = [(*row, value) if table.partitions else row for file, value in pairs for row in file]
    schema = pa.schema([(name, ARROW[kind]) for name, kind in table.columns])
    path.mkdir(parents=True)
    arrays = [nested_values.to_arrow([row[j] for row in rows], field.type) for j, field in enumerate(schema)]
    pq.write_table(pa.table(arrays, schema=schema), path / "part-00000.parquet")
