"""The column statistics of a Hudi table's metadata table, read by Hudi itself, where the session has it loaded.

Hudi merges the footers of a file's row groups, and takes a row group without statistics for one of nulls. Writers of
Parquet leave them out of long texts, and of numbers of which some are NaN: bounds of such types are not believed.
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
_OF_COLUMNS = 3
"""The kind of record that holds the statistics of one column in one file."""
_HELD = {"integer": (3, 1), "long": (4, 2), "date": (12, 1), "timestamp": (16, 2)}
"""Types to Hudi's number for them, and to the branch of the union in which it keeps their values."""
_HELD_BEFORE = {"integer": 1, "long": 2, "date": 7}
"""The branches in tables of older versions, which do not say the type."""
_DECIMAL = (10, 5)
_LOG = logging.getLogger("zskip.hudi")


def add_statistics(spark: SparkSession, table: HudiFormat, snapshot: Snapshot) -> Snapshot:
    """The snapshot with the bounds that Hudi keeps; a job of Spark reads those of a column when it is asked for."""
    before = snapshot.known
    if before is None or _PART not in metadata_parts(table.options()):
        return snapshot
    types = {field.name: field.type for field in snapshot.fields}

    @functools.cache
    def column(name: str) -> ColumnStats | None:
        found = before.column(name)
        return _column(spark, snapshot, name, types[name]) if found is None else found

    return dataclasses.replace(snapshot, known=Known(rows=before.rows, column=column))


def _column(spark: SparkSession, snapshot: Snapshot, name: str, data_type: DataType) -> ColumnStats | None:
    held = _DECIMAL if data_type.is_decimal else _HELD.get(data_type.name)
    # A dot may stand for a field in a struct.
    if held is None or "." in name:
        return None
    try:
        return _aligned(_read(spark, snapshot.root, name, data_type, *held), snapshot, data_type)
    except Exception as error:
        # Statistics only save work, and whatever Hudi cannot read here it says itself when the table is read.
        _LOG.warning('no statistics of "%s" in "%s": %s', name, snapshot.root, root_cause(text_with_causes(error)))
        return None


def _read(spark: SparkSession, root: str, name: str, data_type: DataType, kind: int, branch: int) -> list[Row]:
    """File name, rows, nulls, least and greatest value of a column in each file.

    kind, branch: Hudi's number for the type, and where in the union its values are.
    """
    from pyspark.sql import functions as F

    said = F.col("ColumnStatsMetadata")
    told = said["valueType"]["typeOrdinal"]
    right = told == kind
    if data_type.is_decimal:
        right &= said["valueType"]["additionalInfo"] == f"{data_type.precision},{data_type.scale}"

    def bound(which: str) -> Column:
        found = F.when(right, said[which][f"member{branch}"]["value"])
        if data_type.name in _HELD_BEFORE:
            old = said[which][f"member{_HELD_BEFORE[data_type.name]}"]["value"]
            found = found.when(told.isNull(), old)
        return found

    records = spark.read.format("hudi").load(f"{root.rstrip('/')}/{_TABLE}").where(F.col("type") == _OF_COLUMNS)
    wanted = records.where((said["columnName"] == name) & ~said["isDeleted"]).select(
        said["fileName"], said["valueCount"], said["nullCount"], bound("minValue"), bound("maxValue")
    )
    return wanted.collect()


def _aligned(rows: Sequence[Row], snapshot: Snapshot, data_type: DataType) -> ColumnStats | None:
    """The records in the order of the snapshot's files; what is not said just once of a name is not known."""
    names = [path.rpartition("/")[2] for path in snapshot.paths]
    place = {name: i for i, name in enumerate(names)}
    said = [row for row in rows if row[0] in place]
    if len(place) < len(names) or len({row[0] for row in said}) < len(said):
        return None
    count, whole = len(names), data_type.form is Form.INT
    lower: Values = np.zeros(count, np.int64) if whole else np.full(count, b"", np.object_)
    upper = lower.copy()
    bounded, nulls = np.zeros(count, np.bool_), np.full(count, -1, np.int64)
    for name, values, null, least, greatest in said:
        i = place[name]
        if null is not None and values is not None and 0 <= null <= values:
            nulls[i] = null
        if least is not None and greatest is not None:
            lower[i], upper[i] = _value(least, data_type), _value(greatest, data_type)
            bounded[i] = True
    if data_type.name in CALENDAR_TYPES:
        bounded &= np.asarray(lower >= first_unambiguous(data_type), np.bool_)
    may_nan = np.zeros(count, np.bool_)
    return ColumnStats(type=data_type, lower=lower, upper=upper, bounded=bounded, nulls=nulls, may_nan=may_nan)


def _value(said: int | bytearray, data_type: DataType) -> Encoded:
    """A value in the form of its type; the digits of decimals are bytes."""
    if isinstance(said, int):
        return said
    return encode_decimal(int.from_bytes(said, "big", signed=True), data_type)
