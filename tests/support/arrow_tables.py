"""Random tables as pyarrow has them."""

from __future__ import annotations

import decimal
from typing import Any

import pyarrow as pa
import random_tables
from oracle import Row

from zskip.predicate import Column, Columns
from zskip.records import Field
from zskip.types import DataType, decode_decimal

TYPES = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "interval day to second": pa.duration("us"),
}


def arrow_type(data_type: DataType) -> pa.DataType:
    """The type in which pyarrow reads a column that Spark wrote."""
    return pa.decimal128(data_type.precision, data_type.scale) if data_type.is_decimal else TYPES[data_type.name]


def array(values: list[Any], data_type: DataType) -> pa.Array:
    """Encoded values as an array."""
    if data_type.is_decimal:
        return _decimals([None if value is None else decode_decimal(value, data_type) for value in values], data_type)
    if data_type.name == "boolean":
        values = [None if value is None else bool(value) for value in values]
    if data_type.name == "string":
        values = [None if value is None else value.decode() for value in values]
    return pa.array(values, arrow_type(data_type))


def _decimals(unscaled: list[int | None], data_type: DataType) -> pa.Array:
    numbers = [None if number is None else unscaled_decimal(number, data_type) for number in unscaled]
    return pa.array(numbers, arrow_type(data_type))


def unscaled_decimal(number: int, data_type: DataType) -> decimal.Decimal:
    """A decimal by its digits."""
    return decimal.Context(prec=80).scaleb(decimal.Decimal(number), -data_type.scale)


def rows_of(table: random_tables.Table) -> list[Row]:
    """All rows of all files."""
    return [row for file in table.files for row in file]


def table_of(columns: list[Column], rows: list[Row]) -> pa.Table:
    """Rows as a table, with their numbers in the column `row`."""
    arrays = [array([row[column.path] for row in rows], column.type) for column in columns]
    names = [column.path[0] for column in columns]
    return pa.table([*arrays, pa.array(range(len(rows)), pa.int64())], names=[*names, "row"])


def known(columns: list[Column]) -> Columns:
    """The columns of a random table."""
    return Columns([Field(name=column.path[0], type=column.type) for column in columns])
