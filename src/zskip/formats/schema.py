"""Columns as Spark's and Parquet's schemas describe them."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow.parquet as pq

from zskip.index.store.leaves import read_leaves
from zskip.records import Field
from zskip.types import DataType, read_type

# A text, since the pickling of Spark 3.5 loses the content of dataclasses with slots.
_NESTED = "nested"


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
