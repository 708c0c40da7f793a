"""Types and values of Iceberg: columns as Spark reads them, and the manifests' statistics of files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from zskip.index import CALENDAR_TYPES, first_unambiguous
from zskip.records import ALL_NULL, ColumnStats, Field, Known, Values
from zskip.types import DataType, Encoded, Form, encode

_SPARK: dict[type[IcebergType], str] = {
    BooleanType: "boolean",
    IntegerType: "integer",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    DateType: "date",
    TimestamptzType: "timestamp",
    TimestampType: "timestamp_ntz",
    StringType: "string",
    BinaryType: "binary",
    FixedType: "binary",
    UUIDType: "binary",
    TimeType: "long",
}
"""As Spark reads the files: it does not know Parquet's UUIDs, and reads times as microseconds."""
_TYPE = "iceberg.type"
"""The key in Spark's metadata of a column whose values only Arrow writes as what they are."""
_PARTS = "zskip.parts"
"""The key in Spark's metadata of a column for the parts of lists and maps, by their paths."""
_WIDTHS: dict[type[IcebergType], tuple[int, ...]] = {
    BooleanType: (1,),
    IntegerType: (4,),
    LongType: (4, 8),
    FloatType: (4,),
    DoubleType: (4, 8),
    DateType: (4,),
    TimestamptzType: (8,),
    TimestampType: (8,),
    TimeType: (8,),
}
"""Bytes of a bound; the shorter ones come from files that are older than the column's current type."""
_FIELD_ID = "parquet.field.id"
"""Spark's metadata key for the id of a column in a file."""
_TIMESTAMPS = (TimestampType, TimestamptzType)
"""Types whose upper bounds some writers cut to milliseconds: converters from Delta, whose log has no more."""
_MILLISECOND, _MOST = 1000, 2**63 - 1
"""Microseconds."""
_UNORDERED = (UUIDType,)
"""Types whose values writers have compared in more than one way."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveFile:
    """A live data file as its manifest describes it."""

    path: str
    """Relative to the table."""
    data: DataFile
    spec: int
    """The id of the partition spec that it was written under."""
    identity: Mapping[int, object]
    """By column id, the single value of all rows of the file."""


def spark_schema(schema: Schema) -> str:
    """Convert a schema to Spark's JSON; every column may be null.

    Includes the ids of columns for files, except in schemas with lists or maps, whose elements Spark would give no ids.

    >>> json.loads(spark_schema(Schema(NestedField(1, "a", LongType()))))["fields"]
    [{'name': 'a', 'type': 'long', 'nullable': True, 'metadata': {'parquet.field.id': 1}}]
    """
    with_ids = not any(isinstance(field.field_type, ListType | MapType) for field in index_by_id(schema).values())
    return json.dumps(_spark_type(schema.as_struct(), with_ids))


def stored_schema(schema: Schema) -> str:
    """The same with what only Arrow writes into files: ids of all parts of lists and maps, UUIDs and fixed sizes.

    >>> schema = Schema(NestedField(1, "a", ListType(2, UUIDType())))
    >>> json.loads(stored_schema(schema))["fields"][0]["metadata"]["zskip.parts"]
    {'element': {'parquet.field.id': 2, 'iceberg.type': 'uuid'}}
    """
    return json.dumps(_spark_type(schema.as_struct(), True, for_arrow=True))


def _spark_type(kind: IcebergType, with_ids: bool, *, for_arrow: bool = False) -> Any:
    if isinstance(kind, StructType):
        fields = []
        for field in kind.fields:
            metadata = _metadata(field.field_id, field.field_type, with_ids, for_arrow)
            parts = dict(_parts(field.field_type, "")) if for_arrow else {}
            fields.append(
                {
                    "name": field.name,
                    "type": _spark_type(field.field_type, with_ids, for_arrow=for_arrow),
                    "nullable": True,
                    "metadata": metadata | ({_PARTS: parts} if parts else {}),
                }
            )
        return {"type": "struct", "fields": fields}
    if isinstance(kind, ListType):
        element = _spark_type(kind.element_type, with_ids, for_arrow=for_arrow)
        return {"type": "array", "elementType": element, "containsNull": True}
    if isinstance(kind, MapType):
        key, value = (_spark_type(k, with_ids, for_arrow=for_arrow) for k in (kind.key_type, kind.value_type))
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if isinstance(kind, DecimalType):
        return f"decimal({kind.precision},{kind.scale})"
    return _SPARK[type(kind)]


def _metadata(field_id: int, kind: IcebergType, with_ids: bool, for_arrow: bool) -> dict[str, Any]:
    """Spark's metadata of a column."""
    is_other = isinstance(kind, TimeType) or (for_arrow and isinstance(kind, UUIDType | FixedType))
    return ({_FIELD_ID: field_id} if with_ids else {}) | ({_TYPE: str(kind)} if is_other else {})


def _parts(kind: IcebergType, prefix: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The metadata of the parts of a list or map, which in Spark have none, by their paths."""
    parts: list[tuple[str, int, IcebergType]] = []
    if isinstance(kind, ListType):
        parts = [("element", kind.element_id, kind.element_type)]
    elif isinstance(kind, MapType):
        parts = [("key", kind.key_id, kind.key_type), ("value", kind.value_id, kind.value_type)]
    for name, field_id, part in parts:
        yield prefix + name, _metadata(field_id, part, True, True)
        yield from _parts(part, f"{prefix}{name}.")


def leaves(struct: StructType, parents: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    """Paths and ids of the columns with one value in each row."""
    for field in struct.fields:
        path = (*parents, field.name)
        if isinstance(field.field_type, StructType):
            yield from leaves(field.field_type, path)
        elif isinstance(field.field_type, PrimitiveType):
            yield path, field.field_id


def read_statistics(files: Sequence[LiveFile], schema: Schema, fields: Sequence[Field]) -> Known:
    """The manifests' statistics: rows, and the bounds, nulls and NaN of columns, which are decoded on demand.

    fields: of the schema, in its order.
    """
    columns = {field.name: (field.type, column) for field, column in zip(fields, schema.fields, strict=True)}

    def column(name: str) -> ColumnStats | None:
        data_type, iceberg_field = columns[name]
        if data_type.form is None or isinstance(iceberg_field.field_type, _UNORDERED):
            return None
        return _column(files, data_type, iceberg_field)

    return Known(rows=np.array([file.data.record_count for file in files], np.int64), column=column)


def _column(files: Sequence[LiveFile], data_type: DataType, field: NestedField) -> ColumnStats:
    file_stats = [_stats_of_file(file, data_type, field) for file in files]
    may_nan = [stats.may_nan and data_type.form is Form.FLOAT for stats in file_stats]
    return ColumnStats(
        type=data_type,
        lower=_values([stats.bounds and stats.bounds[0] for stats in file_stats], data_type),
        upper=_values([stats.bounds and stats.bounds[1] for stats in file_stats], data_type),
        bounded=np.array([stats.bounds is not None for stats in file_stats], np.bool_),
        nulls=np.array([stats.nulls for stats in file_stats], np.int64),
        may_nan=np.array(may_nan, np.bool_),
    )


def _values(values: Sequence[Encoded | None], data_type: DataType) -> Values:
    if data_type.form is Form.BYTES:
        return np.array([b"" if value is None else value for value in values], np.object_)
    filled = [0 if value is None else value for value in values]
    return np.array(filled, np.float64) if data_type.form is Form.FLOAT else np.array(filled, np.int64)


class _FileStats(NamedTuple):
    """Statistics of a column in one file."""

    bounds: tuple[Any, Any] | None = None
    nulls: int = -1
    may_nan: bool = True


def _stats_of_file(file: LiveFile, data_type: DataType, field: NestedField) -> _FileStats:
    if field.field_id in file.identity:
        return _constant(file.identity[field.field_id], data_type)
    data, key = file.data, field.field_id
    rows = data.record_count
    nulls = (data.null_value_counts or {}).get(key, -1)
    nans = (data.nan_value_counts or {}).get(key, -1)
    if (data.value_counts or {}).get(key, rows) != rows:
        nulls = nans = -1
    if data_type.form is Form.FLOAT and nans > 0 and nulls + nans == rows:
        return _FileStats(bounds=(np.inf, -np.inf), nulls=nulls)
    least = _bound((data.lower_bounds or {}).get(key), data_type, field.field_type)
    greatest = _bound((data.upper_bounds or {}).get(key), data_type, field.field_type)
    if isinstance(field.field_type, _TIMESTAMPS) and isinstance(greatest, int) and not greatest % _MILLISECOND:
        greatest = min(greatest + _MILLISECOND - 1, _MOST)
    bounds = None if least is None or greatest is None else (least, greatest)
    return _FileStats(bounds=_trusted(bounds, data_type), nulls=nulls, may_nan=nans != 0)


def _constant(value: object, data_type: DataType) -> _FileStats:
    """Statistics from an identity partition's value."""
    if value is None:
        return _FileStats(nulls=ALL_NULL, may_nan=False)
    # Manifests hold dates and times in their encoded form.
    encoded = value if isinstance(value, int) and not data_type.is_decimal else encode(value, data_type)
    if encoded != encoded:
        return _FileStats(bounds=(np.inf, -np.inf), nulls=0)
    return _FileStats(bounds=_trusted((encoded, encoded), data_type), nulls=0, may_nan=False)


def _trusted(bounds: tuple[Any, Any] | None, data_type: DataType) -> tuple[Any, Any] | None:
    """Bounds that mean the same to every reader; None for others."""
    if bounds is None or bounds[0] != bounds[0] or bounds[1] != bounds[1]:
        return None
    if data_type.name in CALENDAR_TYPES and bounds[0] < first_unambiguous(data_type):
        return None
    return bounds


def _bound(data: bytes | None, data_type: DataType, kind: IcebergType) -> Encoded | None:
    """A bound in the form of its column's type; None if there is none of this type.

    Texts stay bytes: a truncated one need not be valid, and bytes sort as the texts do.
    """
    if data is None or len(data) not in _WIDTHS.get(type(kind), (len(data),)):
        return None
    if data_type.form is Form.BYTES and not data_type.is_decimal:
        return bytes(data)
    assert isinstance(kind, PrimitiveType), "columns with an order are primitive"
    value: Any = from_bytes(kind, data)
    return encode(value, data_type) if data_type.is_decimal else value
