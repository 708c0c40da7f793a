"""The settings of a table's session that decide how columns and predicates are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from zskip.errors import InputError
from zskip.predicate import Columns, Constant, Predicate, Unknown, columns_of, from_pyarrow, nodes, parse
from zskip.records import Snapshot
from zskip.table.handle import Handle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_case_sensitive(handle: Handle) -> bool:
    """Whether the session tells column names apart by case."""
    spark = handle.spark or handle.connected
    return spark is not None and is_session_case_sensitive(spark)


def is_session_case_sensitive(spark: SparkSession) -> bool:
    """Whether a session tells column names apart by case."""
    return str(spark.conf.get("spark.sql.caseSensitive")).lower() == "true"


def merges_schemas(handle: Handle) -> bool:
    """Whether the session unifies the schemas of files."""
    spark = handle.spark
    return spark is not None and str(spark.conf.get("spark.sql.parquet.mergeSchema")).lower() == "true"


def time_zone(handle: Handle) -> str:
    """The session's time zone, UTC without a session."""
    spark = handle.spark or handle.connected
    return "UTC" if spark is None else str(spark.conf.get("spark.sql.session.timeZone"))


def read_where(handle: Handle, snapshot: Snapshot, where: str | pc.Expression | None) -> Predicate:
    """Read a user's predicate; None is true of every row."""
    if where is None:
        return Constant(True)
    columns = table_columns(handle, snapshot)
    if isinstance(where, pc.Expression):
        return from_pyarrow(where, columns)
    if not isinstance(where, str):
        raise InputError(f"where={where!r} is neither SQL text nor an expression of pyarrow.compute")
    return parse(where, columns, timezone=time_zone(handle))


def table_columns(handle: Handle, snapshot: Snapshot) -> Columns:
    """All columns, by the names that a user writes."""
    return Columns(
        (*snapshot.fields, *snapshot.partition_fields),
        case_sensitive=is_case_sensitive(handle),
        where=f'"{handle.storage.root}"',
    )


def is_only_about(predicate: Predicate, names: set[tuple[str, ...]]) -> bool:
    """Whether zskip understands a predicate, and it mentions these columns and no others."""
    paths = {column.path for column in columns_of(predicate)}
    return bool(paths) and paths <= names and not any(isinstance(node, Unknown) for node in nodes(predicate))
