"""Columns as Spark's and Parquet's schemas describe them."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from zskip.index.store.leaves import read_leaves
from zskip.records import Field
from zskip.types import DataType, read_type

# A text, since the pickling of Spark 3.5 loses the content of dataclasses with slots.
_NESTED = "nested"

ARROW_TYPES = {
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
}
"""Arrow's types by the names of Spark's, for those without parameters."""


def arrow_type(data_type: DataType) -> pa.DataType | None:
    """Arrow's type for the values of a column; None where Arrow has none, and for nested columns.

    >>> arrow_type(DataType("decimal(12,2)")), arrow_type(DataType("string collate UTF8_LCASE"))
    (Decimal128Type(decimal128(12, 2)), DataType(string))
    """
    if data_type.is_decimal:
        return pa.decimal128(data_type.precision, data_type.scale)
    if data_type.is_time:
        return pa.time64("us")
    is_text = data_type.is_char or data_type.name.startswith("string collate")
    return ARROW_TYPES.get("string" if is_text else data_type.name)


def fields_from_json(schema_json: str) -> tuple[Field, ...]:
    """The columns of a Spark schema in JSON; a type without an order counts as nested or keeps its unknown name.

    >>> fields_from_json('{"fields": [{"name": "a", "type": "long", "nullable": true, "metadata": {}}]}')
    (Field(name='a', type=DataType(name='long'), nullable=True),)
    """
    return tuple(
        Field(name=f["name"], type=read_type(f["type"], f.get("metadata")), nullable=f["nullable"])
        for f in json.loads(schema_json)["fields"]
    )


def fields_from_parquet(schema: pq.ParquetSchema) -> tuple[Field, ...]:
    """The top-level columns of a Parquet schema with the types Spark gives them.

    >>> import pyarrow as pa, io
    >>> stream = io.BytesIO()
    >>> pq.write_table(pa.table({"a": [1], "b": [["x"]]}), stream)
    >>> [(field.name, str(field.type)) for field in fields_from_parquet(pq.ParquetFile(stream).schema)]
    [('a', 'long'), ('b', 'nested')]
    """
    int96 = {schema.column(i).path for i in range(len(schema.names)) if schema.column(i).physical_type == "INT96"}
    leaves = {
        column.path: DataType(column.type or ("timestamp" if ".".join(column.path) in int96 else _NESTED))
        for column in read_leaves(schema).columns
    }
    return tuple(Field(name=name, type=data_type) for name, data_type in _group_fields(leaves))


def _group_fields(leaves: Mapping[tuple[str, ...], DataType]) -> tuple[tuple[str, DataType], ...]:
    """The outermost columns of some paths, those with others inside as structs."""
    inside: dict[str, dict[tuple[str, ...], DataType]] = {}
    for path, data_type in leaves.items():
        inside.setdefault(path[0], {})[path[1:]] = data_type
    return tuple(
        (name, parts[()] if () in parts else DataType(_NESTED, _group_fields(parts))) for name, parts in inside.items()
    )


def first_line(error: BaseException) -> str:
    """The first line of an error's message, without its full stop."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
