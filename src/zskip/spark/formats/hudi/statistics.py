"""The column statistics in a Hudi table's metadata table, read by Hudi itself where the session has it loaded.

Hudi merges the statistics of a file's row groups, and treats a row group without statistics as all null. Writers of
Parquet omit statistics for long strings and for numbers with NaN, so bounds of such types are not trusted.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from zskip.formats import HudiFormat
from zskip.formats.hudi.protocol import metadata_parts
from zskip.index import CALENDAR_TYPES, first_unambiguous
from zskip.records import ColumnStats, Known, Snapshot, Values
from zskip.spark.jvm.failures import root_cause, text_with_causes
from zskip.types import DataType, Encoded, Form, encode_decimal

if TYPE_CHECKING:
    from pyspark.sql import Column, Row, SparkSession

_PART = "column_stats"
_TABLE = ".hoodie/metadata"
_RECORD_TYPE = 3
"""The type of a record with the statistics of one column in one file."""
_TYPES = {"integer": (3, 1), "long": (4, 2), "date": (12, 1), "timestamp": (16, 2)}
"""From type to Hudi's number for it, and to the branch of the union that holds its values."""
_OLD_BRANCHES = {"integer": 1, "long": 2, "date": 7}
"""The branches in tables of older versions, which do not record the type."""
_DECIMAL = (10, 5)
_LOG = logging.getLogger("zskip.hudi")


def add_statistics(spark: SparkSession, table: HudiFormat, snapshot: Snapshot) -> Snapshot:
    """Add the bounds that Hudi keeps; a Spark job reads a column's bounds on first use."""
    known = snapshot.known
    if known is None or _PART not in metadata_parts(table.options()):
        return snapshot
    types = {field.name: field.type for field in snapshot.fields}

    @functools.cache
    def column(name: str) -> ColumnStats | None:
        stats = known.column(name)
        return _column_stats(spark, snapshot, name, types[name]) if stats is None else stats

    return dataclasses.replace(snapshot, known=Known(rows=known.rows, column=column))


def _column_stats(spark: SparkSession, snapshot: Snapshot, name: str, data_type: DataType) -> ColumnStats | None:
    type_and_branch = _DECIMAL if data_type.is_decimal else _TYPES.get(data_type.name)
    # A dot may mean a field in a struct.
    if type_and_branch is None or "." in name:
        return None
    try:
        return _align(_read(spark, snapshot.root, name, data_type, *type_and_branch), snapshot, data_type)
    except Exception as error:
        # Statistics only save work, and Hudi reports its errors itself when the table is read.
        _LOG.warning('no statistics of "%s" in "%s": %s', name, snapshot.root, root_cause(text_with_causes(error)))
        return None


def _read(spark: SparkSession, root: str, name: str, data_type: DataType, type_number: int, branch: int) -> list[Row]:
    """File name, rows, nulls, least and greatest value of a column in each file.

    type_number, branch: Hudi's number for the type, and the branch of the union with its values.
    """
    from pyspark.sql import functions as F

    stats = F.col("ColumnStatsMetadata")
    type_ordinal = stats["valueType"]["typeOrdinal"]
    same_type = type_ordinal == type_number
    if data_type.is_decimal:
        same_type &= stats["valueType"]["additionalInfo"] == f"{data_type.precision},{data_type.scale}"

    def bound(end: str) -> Column:
        value = F.when(same_type, stats[end][f"member{branch}"]["value"])
        if data_type.name in _OLD_BRANCHES:
            old_value = stats[end][f"member{_OLD_BRANCHES[data_type.name]}"]["value"]
            value = value.when(type_ordinal.isNull(), old_value)
        return value

    records = spark.read.format("hudi").load(f"{root.rstrip('/')}/{_TABLE}").where(F.col("type") == _RECORD_TYPE)
    rows = records.where((stats["columnName"] == name) & ~stats["isDeleted"]).select(
        stats["fileName"], stats["valueCount"], stats["nullCount"], bound("minValue"), bound("maxValue")
    )
    return rows.collect()


def _align(rows: Sequence[Row], snapshot: Snapshot, data_type: DataType) -> ColumnStats | None:
    """The records in the order of the snapshot's files; None where a file name is not unique."""
    names = [path.rpartition("/")[2] for path in snapshot.paths]
    positions = {name: i for i, name in enumerate(names)}
    rows = [row for row in rows if row[0] in positions]
    if len(positions) < len(names) or len({row[0] for row in rows}) < len(rows):
        return None
    count = len(names)
    lower: Values = np.zeros(count, np.int64) if data_type.form is Form.INT else np.full(count, b"", np.object_)
    upper = lower.copy()
    bounded, nulls = np.zeros(count, np.bool_), np.full(count, -1, np.int64)
    for name, values, null, least, greatest in rows:
        i = positions[name]
        if null is not None and values is not None and 0 <= null <= values:
            nulls[i] = null
        if least is not None and greatest is not None:
            lower[i], upper[i] = _value(least, data_type), _value(greatest, data_type)
            bounded[i] = True
    if data_type.name in CALENDAR_TYPES:
        bounded &= np.asarray(lower >= first_unambiguous(data_type), np.bool_)
    may_nan = np.zeros(count, np.bool_)
    return ColumnStats(type=data_type, lower=lower, upper=upper, bounded=bounded, nulls=nulls, may_nan=may_nan)


def _value(value: int | bytearray, data_type: DataType) -> Encoded:
    """A value in the form of its type; decimals come as bytes."""
    if isinstance(value, int):
        return value
    return encode_decimal(int.from_bytes(value, "big", signed=True), data_type)
