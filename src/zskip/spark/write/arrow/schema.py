"""Which columns Arrow holds exactly as Spark writes them, and the Arrow schema that new files get."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

FIELD_ID = "parquet.field.id"
"""Under which Spark's schema has a column's id."""
_ATOMIC = {
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
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_SPARK_VERSION = b"org.apache.spark.version"
_LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_NEEDED = ("max_rows_per_page", "store_decimal_as_integer", "write_page_index")
"""What pyarrow's writer must know."""
_MARK = "zskip: not through Arrow: "
_MARKED = re.compile(re.escape(_MARK) + "(.*)")


class NotArrow(Exception):
    """Says why Spark itself has to write a table."""

    def __init__(self, reason: str) -> None:
        super().__init__(_MARK + reason)
        self.reason = reason


def reason_in(text: str) -> str | None:
    """The reason of a `NotArrow` that was raised on an executor, from the text of the job's failure."""
    match = _MARKED.search(text)
    return None if match is None else match[1].strip()


def check_pyarrow() -> None:
    """Raise NotArrow where pyarrow is too old to write what Spark does."""
    known = inspect.signature(pq.ParquetWriter.__init__).parameters
    missing = [name for name in _NEEDED if name not in known]
    if missing:
        raise NotArrow(f"pyarrow {pa.__version__} has no {missing[0]}")


def arrow_schema(schema_json: str) -> pa.Schema:
    """The Arrow schema of a Spark schema in JSON; raises NotArrow for a type that Arrow does not hold as Spark does.

    >>> arrow_schema('{"fields": [{"name": "a", "type": "short", "nullable": true, "metadata": {}}]}').field(0)
    pyarrow.Field<a: int16>
    """
    return pa.schema([_field(described, described["name"]) for described in json.loads(schema_json)["fields"]])


def _field(described: Mapping[str, Any], column: str) -> pa.Field:
    metadata = described.get("metadata") or {}
    ids = {b"PARQUET:field_id": str(metadata[FIELD_ID]).encode()} if FIELD_ID in metadata else None
    return pa.field(described["name"], _type(described["type"], column), described["nullable"], ids)


def _type(described: Any, column: str) -> pa.DataType:
    """column: the top-level column, for people."""
    if isinstance(described, str):
        decimal = _DECIMAL.fullmatch(described)
        if decimal is not None:
            return pa.decimal128(int(decimal[1]), int(decimal[2]))
        if described in _ATOMIC:
            return _ATOMIC[described]
    elif described["type"] == "struct":
        return pa.struct([_field(field, column) for field in described["fields"]])
    elif described["type"] == "array":
        element = _type(described["elementType"], column)
        return pa.list_(pa.field("element", element, described["containsNull"]))
    elif described["type"] == "map":
        value = pa.field("value", _type(described["valueType"], column), described["valueContainsNull"])
        return pa.map_(pa.field("key", _type(described["keyType"], column), nullable=False), value)
    kind = described if isinstance(described, str) else described["type"]
    raise NotArrow(f'column "{column}" holds values of type {kind}')


def same_values(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a cast between two types keeps every value: they differ in names of list items or in nullability only.

    What writers of Arrow note about their own types (large strings, dictionaries, the name of a time zone) counts as
    the same.

    >>> same_values(pa.list_(pa.large_string()), pa.list_(pa.field("element", pa.string())))
    True
    """
    if stored == wanted:
        return True
    if pa.types.is_dictionary(stored):
        return same_values(stored.value_type, wanted)
    if pa.types.is_string(wanted):
        return bool(pa.types.is_large_string(stored) or pa.types.is_string_view(stored))
    if pa.types.is_binary(wanted):
        return bool(pa.types.is_large_binary(stored) or pa.types.is_binary_view(stored))
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(stored):
        return bool(stored.unit == wanted.unit and (stored.tz is None) == (wanted.tz is None))
    if pa.types.is_struct(wanted) and pa.types.is_struct(stored):
        pairs = list(zip(stored, wanted, strict=False))
        return stored.num_fields == wanted.num_fields and all(
            one.name == other.name and same_values(one.type, other.type) for one, other in pairs
        )
    if pa.types.is_map(wanted) and pa.types.is_map(stored):
        return same_values(stored.key_type, wanted.key_type) and same_values(stored.item_type, wanted.item_type)
    if pa.types.is_list(wanted) and (pa.types.is_list(stored) or pa.types.is_large_list(stored)):
        return same_values(stored.value_type, wanted.value_type)
    return False


def check_file(metadata: pq.FileMetaData, schema: pa.Schema, *, corrected: bool) -> None:
    """Raise NotArrow for a file whose values Spark reads otherwise than Arrow does.

    schema: as `arrow_schema` gives it; corrected: whether Spark takes days and timestamps as they are where a file does
    not say who wrote it.
    """
    stored = metadata.schema
    columns = [stored.column(i) for i in range(len(stored))]
    if any(column.physical_type == "INT96" for column in columns):
        raise NotArrow("it holds timestamps of 96 bits")
    keys = metadata.metadata or {}
    version = keys.get(_SPARK_VERSION)
    old = version is not None and not (version.split(b".")[0].isdigit() and int(version.split(b".")[0]) >= 3)
    if old or any(key in keys for key in _LEGACY):
        raise NotArrow("its files may count days by the old calendar")
    if version is None and not corrected and any(_counts_days(field.type) for field in schema):
        raise NotArrow("its files do not say by which calendar they count days")
    arrow = stored.to_arrow_schema()
    fields = {field.name: field for field in arrow}
    if len(fields) < len(arrow):
        raise NotArrow("some columns of a file have the same name")
    for field in schema:
        if field.name not in fields:
            raise NotArrow(f'some files have no column "{field.name}"')
        if not same_values(fields[field.name].type, field.type):
            raise NotArrow(f'column "{field.name}" is stored as {fields[field.name].type}, which Spark converts')


def _counts_days(data_type: pa.DataType) -> bool:
    return any(pa.types.is_date(t) or pa.types.is_timestamp(t) for _, t in leaves_of(data_type))


def leaves_of(data_type: pa.DataType, path: str = "") -> Iterator[tuple[str, pa.DataType]]:
    """The leaves of a type with their paths as Parquet has them.

    >>> [path for path, _ in leaves_of(pa.map_(pa.string(), pa.list_(pa.int8())), "m")]
    ['m.key_value.key', 'm.key_value.value.list.element']
    """
    if pa.types.is_struct(data_type):
        for field in data_type:
            yield from leaves_of(field.type, f"{path}.{field.name}")
    elif pa.types.is_map(data_type):
        yield from leaves_of(data_type.key_type, f"{path}.key_value.key")
        yield from leaves_of(data_type.item_type, f"{path}.key_value.value")
    elif pa.types.is_list(data_type):
        yield from leaves_of(data_type.value_type, f"{path}.list.element")
    else:
        yield path, data_type


def stored_bytes(data_type: pa.DataType) -> int:
    """The bytes that Parquet takes for a plain value of a type of fixed width.

    >>> stored_bytes(pa.int8()), stored_bytes(pa.decimal128(12, 2)), stored_bytes(pa.decimal128(20, 2))
    (4, 8, 9)
    """
    if pa.types.is_decimal(data_type):
        digits = data_type.precision
        return 4 if digits <= 9 else 8 if digits <= 18 else ((10**digits).bit_length() + 8) // 8
    return max(4, int(data_type.bit_width) // 8)
