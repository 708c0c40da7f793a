"""The rows of a plan in DuckDB."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from zskip.table.read.stored_columns import FILE, FileGroup, StoredColumn, StoredRows

if TYPE_CHECKING:
    import duckdb

_ROW = "file_row_number"


def to_relation(rows: StoredRows, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    """The live rows of the files of a plan."""
    empty = connection.from_arrow(rows.schema.empty_table())
    if not rows.groups:
        return empty
    types = dict(zip(empty.columns, map(str, empty.types), strict=True))
    return functools.reduce(
        lambda one, other: one.union(other), [_read(connection, group, rows, types) for group in rows.groups]
    )


def _read(
    connection: duckdb.DuckDBPyConnection, group: FileGroup, rows: StoredRows, types: dict[str, str]
) -> duckdb.DuckDBPyRelation:
    files = ", ".join(_text(re.sub(r"([*?\[])", r"[\1]", file)) for file in group.files)
    columns = [_expression(column, types[column.name]) for column in group.columns]
    # A table may have a column of that name, which DuckDB would refuse.
    numbered, row = (f", {_ROW} = true", [_ROW]) if group.deleted else ("", [])
    source = f"read_parquet([{files}], hive_partitioning = false, filename = {_text(FILE)}{numbered})"
    relation = connection.sql(f"SELECT {', '.join([*columns, FILE, *row])} FROM {source}").set_alias("stored")
    if group.deleted:
        numbers = list(group.deleted.values())
        paths = np.repeat(list(group.deleted), [len(some) for some in numbers])
        deleted = pa.table({FILE: pa.array(paths, pa.string()), _ROW: np.concatenate(numbers)})
        same_row = f"stored.{FILE} = deleted.{FILE} AND stored.{_ROW} = deleted.{_ROW}"
        relation = relation.join(connection.from_arrow(deleted).set_alias("deleted"), same_row, "anti")
        relation = relation.set_alias("stored")
    names = [f"stored.{_name(column.name)}" for column in group.columns]
    if rows.partitions is not None:
        values = connection.from_arrow(rows.partitions).set_alias("partition_values")
        relation = relation.join(values, f"stored.{FILE} = partition_values.{FILE}", "inner")
        names += [f"partition_values.{_name(name)}" for name in rows.partitions.column_names[1:]]
    return relation.project(", ".join(names))


def _expression(column: StoredColumn, kind: str) -> str:
    """The SQL that reads a column of the table from files."""
    if column.stored is None:
        return f"CAST(NULL AS {kind}) AS {_name(column.name)}"
    stored = _name(column.stored)
    if not column.is_zoned:
        stored = f"timezone('UTC', CAST({stored} AS TIMESTAMP))"
    return f"CAST({stored} AS {kind}) AS {_name(column.name)}"


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
