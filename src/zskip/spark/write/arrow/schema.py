"""The columns that Arrow represents exactly as Spark writes them, and the Arrow schema of new files."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from zskip.formats.schema import ARROW_TYPES
from zskip.spark.shipping import lighten_worker
from zskip.types import DataType

FIELD_ID = "parquet.field.id"
"""The key of a column's id in Spark's schema."""
_FOREIGN = {
    **{f"uint{bits}": getattr(pa, f"uint{bits}")() for bits in (8, 16, 32, 64)},
    "timestamp[ms]": pa.timestamp("ms"),
    "timestamp[ms, tz=UTC]": pa.timestamp("ms", "UTC"),
}
"""Types of Parquet that Spark reads as others, by their names in `FileTraits`."""
_ICEBERG_TYPE, _PARTS = "iceberg.type", "zskip.parts"
"""Keys of a column's metadata: its type where Spark reads and writes another, and the metadata of parts of lists and
maps."""
_NOTED = (FIELD_ID, _ICEBERG_TYPE, _PARTS)
_FIXED = re.compile(r"fixed(?:_size_binary)?\[(\d+)\]")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
LONG_DIGITS = 18
"""Decimals of at most so many digits fit into 64 bits."""
_SPARK_VERSION = b"org.apache.spark.version"
_LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_REQUIRED = ("max_rows_per_page", "store_decimal_as_integer", "write_page_index", "write_time_adjusted_to_utc")
"""Parameters that pyarrow's writer must have."""
_MARKED = re.compile("zskip: not (through|read by) Arrow: (.*)")


class NotArrow(Exception):
    """The reason that Spark itself has to write a table."""

    _how = "through"

    def __init__(self, reason: str) -> None:
        super().__init__(f"zskip: not {self._how} Arrow: {reason}")
        self.reason = reason


class NotReadable(NotArrow):
    """The reason that Spark itself has to read files; others may write what it reads."""

    _how = "read by"


@contextmanager
def explain_limits() -> Iterator[None]:
    """Raise what pyarrow cannot do with rows, such as join texts of more than 2 GB, as NotArrow."""
    try:
        yield
    except (pa.ArrowException, MemoryError, OverflowError) as error:
        raise NotArrow(f"pyarrow cannot divide or join its rows: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or its type."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def limit_in(text: str) -> NotArrow | None:
    """Find the `NotArrow` of an executor in the text of the job's failure."""
    match = _MARKED.search(text)
    if match is None:
        return None
    return (NotReadable if match[1] == NotReadable._how else NotArrow)(match[2].strip())


def check_pyarrow() -> None:
    """Raise NotArrow if pyarrow is too old to write as Spark does."""
    known = inspect.signature(pq.ParquetWriter.__init__).parameters
    missing = [name for name in _REQUIRED if name not in known]
    if missing:
        raise NotArrow(f"pyarrow {pa.__version__} has no {missing[0]}")


def prepare_worker() -> None:
    """Make a Python worker ready for a task, which calls this first; raises as `check_pyarrow`."""
    lighten_worker()
    check_pyarrow()
    # Spark runs a task on each core.
    pa.set_cpu_count(1)


def schema_of_ddl(ddl: str) -> pa.Schema:
    """The Arrow schema of columns in Spark's DDL.

    >>> schema_of_ddl("rows long, batch binary").names
    ['rows', 'batch']
    """
    pairs = (column.split() for column in ddl.split(", "))
    return pa.schema([(name, ARROW_TYPES[kind]) for name, kind in pairs])


def arrow_schema(schema_json: str) -> pa.Schema:
    """Convert a Spark schema in JSON to Arrow; raises NotArrow for a type that Arrow represents differently.

    >>> arrow_schema('{"fields": [{"name": "a", "type": "short", "nullable": true, "metadata": {}}]}').field(0)
    pyarrow.Field<a: int16>
    """
    fields = [_to_arrow_field(field, field["name"]) for field in json.loads(schema_json)["fields"]]
    return pa.schema([field.with_type(_narrow(field.type)) for field in fields])


def _narrow(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(data_type) and data_type.precision <= LONG_DIGITS:
        return pa.decimal64(data_type.precision, data_type.scale)
    return data_type


def _to_arrow_field(spark_field: Mapping[str, Any], column: str) -> pa.Field:
    metadata = spark_field.get("metadata") or {}
    part = _Part(column, metadata, metadata.get(_PARTS, {}), "")
    return _field(spark_field["name"], spark_field["type"], spark_field["nullable"], part)


class _Part(NamedTuple):
    """A column, or a part of a list or map in it."""

    column: str
    """The top-level column, for messages."""
    metadata: Mapping[str, Any]
    parts: Mapping[str, Mapping[str, Any]]
    """The metadata of all parts, by path."""
    path: str

    def inner(self, name: str) -> _Part:
        """A part of it."""
        path = f"{self.path}.{name}" if self.path else name
        return self._replace(metadata=self.parts.get(path, {}), path=path)


def _field(name: str, spark_type: Any, nullable: bool, part: _Part) -> pa.Field:
    field_id = part.metadata.get(FIELD_ID)
    metadata = None if field_id is None else {b"PARQUET:field_id": str(field_id).encode()}
    arrow_type = _iceberg_type(str(part.metadata.get(_ICEBERG_TYPE))) or _to_arrow_type(spark_type, part)
    return pa.field(name, arrow_type, nullable, metadata)


def _iceberg_type(name: str) -> pa.DataType | None:
    """One of Iceberg's types that Spark reads and writes as others; None for those that are the same."""
    fixed = _FIXED.fullmatch(name)
    if fixed is not None:
        return pa.binary(int(fixed[1]))
    if name == "uuid" and not hasattr(pa, "uuid"):
        raise NotArrow(f"pyarrow {pa.__version__} has no UUIDs")
    return pa.uuid() if name == "uuid" else pa.time64("us") if name == "time" else None


def foreign_type(name: str) -> pa.DataType:
    """A type that Spark does not write; raises NotArrow where pyarrow is too old for it.

    >>> foreign_type("fixed_size_binary[16]")
    FixedSizeBinaryType(fixed_size_binary[16])
    """
    if name == "json" and not hasattr(pa, "json_"):
        raise NotArrow(f"pyarrow {pa.__version__} has no JSON")
    return _iceberg_type(name) or (pa.json_() if name == "json" else _FOREIGN[name])


def without_ids(schema_json: str) -> str:
    """A Spark schema in JSON without what another table's columns have noted about how its files store them."""

    def clear(part: dict[str, Any]) -> dict[str, Any]:
        noted = part.get("metadata")
        if not isinstance(noted, dict):
            return part
        return part | {"metadata": {key: value for key, value in noted.items() if key not in _NOTED}}

    return json.dumps(json.loads(schema_json, object_hook=clear))


def find_arrow_only_column(schema_json: str) -> str | None:
    """The first column that Spark would write as another type, or without the ids of its parts, if any."""
    fields = json.loads(schema_json)["fields"]
    keys = (f'"{_ICEBERG_TYPE}"', f'"{_PARTS}"')
    return next((field["name"] for field in fields if any(key in json.dumps(field) for key in keys)), None)


def _to_arrow_type(spark_type: Any, part: _Part) -> pa.DataType:
    """Convert a Spark type."""
    if isinstance(spark_type, str):
        decimal = _DECIMAL.fullmatch(spark_type)
        if decimal is not None:
            return pa.decimal128(int(decimal[1]), int(decimal[2]))
        if spark_type in ARROW_TYPES:
            return ARROW_TYPES[spark_type]
        if DataType(spark_type).is_time:
            return pa.time64("us")
    elif spark_type["type"] == "struct":
        return pa.struct([_to_arrow_field(field, part.column) for field in spark_type["fields"]])
    elif spark_type["type"] == "array":
        return pa.list_(_field("element", spark_type["elementType"], spark_type["containsNull"], part.inner("element")))
    elif spark_type["type"] == "map":
        value = _field("value", spark_type["valueType"], spark_type["valueContainsNull"], part.inner("value"))
        return pa.map_(_field("key", spark_type["keyType"], False, part.inner("key")), value)
    kind = spark_type if isinstance(spark_type, str) else spark_type["type"]
    raise NotArrow(f'column "{part.column}" holds values of type {kind}')


def same_values(stored: pa.DataType, target: pa.DataType) -> bool:
    """Check that a cast keeps every value: the types differ only in names of list items or in nullability.

    Large strings, dictionaries, names of time zones, which Arrow writers note about their own types, and the width of
    decimals count as the same.

    >>> same_values(pa.list_(pa.large_string()), pa.list_(pa.field("element", pa.string())))
    True
    """
    if stored == target:
        return True
    if pa.types.is_dictionary(stored):
        return same_values(stored.value_type, target)
    if pa.types.is_decimal64(target) and pa.types.is_decimal128(stored):
        return bool((stored.precision, stored.scale) == (target.precision, target.scale))
    if pa.types.is_string(target):
        return bool(pa.types.is_large_string(stored) or pa.types.is_string_view(stored))
    if pa.types.is_binary(target):
        return bool(pa.types.is_large_binary(stored) or pa.types.is_binary_view(stored))
    if pa.types.is_timestamp(target) and pa.types.is_timestamp(stored):
        return bool(stored.unit == target.unit and (stored.tz is None) == (target.tz is None))
    if pa.types.is_struct(target) and pa.types.is_struct(stored):
        pairs = list(zip(stored, target, strict=False))
        return stored.num_fields == target.num_fields and all(
            one.name == other.name and same_values(one.type, other.type) for one, other in pairs
        )
    if pa.types.is_map(target) and pa.types.is_map(stored):
        return same_values(stored.key_type, target.key_type) and same_values(stored.item_type, target.item_type)
    if pa.types.is_list(target) and (pa.types.is_list(stored) or pa.types.is_large_list(stored)):
        return same_values(stored.value_type, target.value_type)
    return False


def check_file(metadata: pq.FileMetaData, schema: pa.Schema, *, corrected: bool) -> None:
    """Raise NotReadable for a file whose values Spark reads differently from Arrow.

    schema: from `arrow_schema`; corrected: whether Spark reads days and timestamps unchanged if a file does not name
    its writer.
    """
    keys = metadata.metadata or {}
    version = keys.get(_SPARK_VERSION)
    int96 = int96_columns(metadata)
    if int96 and (version is None or not metadata.created_by.startswith("parquet-mr")):
        raise NotReadable("it holds timestamps of 96 bits that Spark did not write")
    # As in Spark's DataSourceUtils.
    old = version is not None and version < (b"3.1.0" if int96 else b"3.0.0")
    if old or any(key in keys for key in _LEGACY):
        raise NotReadable("its files may count days by the old calendar")
    if version is None and not corrected and any(_has_days(field.type) for field in schema):
        raise NotReadable("its files do not say by which calendar they count days")
    arrow = metadata.schema.to_arrow_schema()
    fields = {field.name: field for field in arrow}
    if len(fields) < len(arrow):
        raise NotReadable("some columns of a file have the same name")
    for field in schema:
        if field.name not in fields:
            raise NotReadable(f'some files have no column "{field.name}"')
        if field.name in int96 and field.type == ARROW_TYPES["timestamp"]:
            continue
        if not same_values(fields[field.name].type, field.type):
            raise NotReadable(f'column "{field.name}" is stored as {fields[field.name].type}, which Spark converts')


def int96_columns(metadata: pq.FileMetaData) -> list[str]:
    """List the columns of a file that hold timestamps of 96 bits."""
    columns = (metadata.schema.column(i) for i in range(metadata.num_columns))
    return [column.path for column in columns if column.physical_type == "INT96"]


def _has_days(data_type: pa.DataType) -> bool:
    return any(pa.types.is_date(t) or pa.types.is_timestamp(t) for _, t in leaves_of(data_type))


def leaves_of(data_type: pa.DataType, path: str = "") -> Iterator[tuple[str, pa.DataType]]:
    """List the leaves of a type with their Parquet paths.

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
    """Compute the size in bytes of a plain Parquet value of a fixed-width type.

    >>> stored_bytes(pa.int8()), stored_bytes(pa.decimal128(12, 2)), stored_bytes(pa.decimal128(20, 2))
    (4, 8, 9)
    """
    if pa.types.is_decimal(data_type):
        digits = data_type.precision
        return 4 if digits <= 9 else 8 if digits <= 18 else ((10**digits).bit_length() + 8) // 8
    return max(4, int(data_type.bit_width) // 8)
