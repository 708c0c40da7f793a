"""Types and values of Hudi: columns as Spark reads them, and statistics from partition paths."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from zskip.errors import UnsupportedError
from zskip.formats.hive import DEFAULT_PARTITION
from zskip.index import CALENDAR_TYPES, first_unambiguous
from zskip.index.store.segment import Segment
from zskip.records import ColumnStats, Field, Known, Values
from zskip.types import DataType, Encoded, Form, encode

_SPARK = {
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
    "fixed": "binary",
    "enum": "string",
}
_LOGICAL = {
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
    "uuid": "string",
}
_SIMPLE = ("SIMPLE", "COMPLEX", "SimpleKeyGenerator", "ComplexKeyGenerator")
"""Key generators whose partition paths are the unchanged values of its columns."""
_NO_VALUE = (DEFAULT_PARTITION, "default", "")
"""Partition paths that mean null, an empty text, or themselves."""
_WHOLE = re.compile(r"-?[0-9]{1,18}")


def spark_schema(avro: str, root: str) -> str:
    """Convert an Avro schema to Spark's JSON; every column may be null.

    Raises UnsupportedError for types that Spark cannot represent.

    >>> spark_schema('{"type": "record", "fields": [{"name": "a", "type": ["null", "long"]}]}', "/t")
    '{"type": "struct", "fields": [{"name": "a", "type": "long", "nullable": true, "metadata": {}}]}'
    """
    named: dict[str, Any] = {}

    def convert(kind: Any) -> Any:
        if isinstance(kind, list):
            branches = [branch for branch in kind if branch != "null"]
            if len(branches) != 1:
                raise _unknown_type(kind, root)
            return convert(branches[0])
        if isinstance(kind, str):
            result = _SPARK.get(kind, named.get(kind))
            if result is None:
                raise _unknown_type(kind, root)
            return result
        return from_object(kind)

    def from_object(kind: Mapping[str, Any]) -> Any:
        name, logical = kind["type"], kind.get("logicalType")
        result: Any
        if name == "record":
            fields = [
                {"name": f["name"], "type": convert(f["type"]), "nullable": True, "metadata": {}}
                for f in kind["fields"]
            ]
            result = {"type": "struct", "fields": fields}
        elif name == "array":
            result = {"type": "array", "elementType": convert(kind["items"]), "containsNull": True}
        elif name == "map":
            values = convert(kind["values"])
            result = {"type": "map", "keyType": "string", "valueType": values, "valueContainsNull": True}
        elif logical == "decimal":
            result = f"decimal({kind['precision']},{kind.get('scale', 0)})"
        elif logical is not None:
            if logical not in _LOGICAL:
                raise _unknown_type(logical, root)
            result = _LOGICAL[logical]
        else:
            result = convert(name)
        if "name" in kind:
            named[kind["name"]] = named[f"{kind.get('namespace', '')}.{kind['name']}"] = result
        return result

    return json.dumps(convert(json.loads(avro)))


def _unknown_type(kind: object, root: str) -> UnsupportedError:
    return UnsupportedError(
        f'the Hudi table "{root}" has a column of the Avro type {kind}, which zskip does not know; '
        "read it with Hudi itself. Nothing was written"
    )


def drop_widened_floats(fields: Sequence[Field], segments: Iterable[Segment]) -> tuple[Field, ...]:
    """The columns without those that some files hold as floats and the table does not.

    Hudi's reader widens a float by way of its text, so that the double may lie outside the bounds in the file.
    segments: of the index.
    """
    columns = (column for segment in segments for column in segment.columns)
    floats = {column.path[0].lower() for column in columns if column.type == "float"}
    return tuple(field for field in fields if field.name.lower() not in floats or field.type.name == "float")


def partition_fields(options: Mapping[str, str]) -> tuple[str, ...]:
    """The partition columns, if all rows of a partition hold one value of each.

    >>> generator = {"hoodie.table.keygenerator.type": "COMPLEX"}
    >>> partition_fields({"hoodie.table.partition.fields": "day,region", **generator})
    ('day', 'region')
    """
    generator = options.get("hoodie.table.keygenerator.type") or options.get("hoodie.table.keygenerator.class", "")
    if generator.rpartition(".")[2] not in _SIMPLE:
        return ()
    names = options.get("hoodie.table.partition.fields", "").split(",")
    return tuple(name.strip() for name in names if name.strip())


def read_statistics(
    rows: Sequence[int],
    fields: Sequence[Field],
    options: Mapping[str, str],
    directories: Sequence[str],
    partition_of: npt.NDArray[np.int32],
) -> Known:
    """Statistics of files: rows, and the single value of each partition column.

    rows: of each file; directories: of the partitions, relative to the table.
    """
    types = {field.name: field.type for field in fields}
    names = partition_fields(options)
    texts = [_texts(directory, names, options) for directory in directories]

    def column(name: str) -> ColumnStats | None:
        if name not in names:
            return None
        data_type = types[name]
        values = [None if text is None else _value(text[names.index(name)], data_type, options) for text in texts]
        if all(value is None for value in values):
            return None
        return _constants(values, data_type).take(partition_of.astype(np.int64))

    return Known(rows=np.array(rows, np.int64), column=column)


def _texts(directory: str, names: Sequence[str], options: Mapping[str, str]) -> tuple[str, ...] | None:
    """The text of each partition column in a directory; None if the path does not show it.

    >>> _texts("p=1/r=a%2Fb", ["p", "r"], {"hoodie.datasource.write.hive_style_partitioning": "true"})
    ('1', 'a%2Fb')
    """
    parts = directory.split("/")
    if len(parts) != len(names):
        return None
    if options.get("hoodie.datasource.write.hive_style_partitioning", "").lower() != "true":
        return tuple(parts)
    if any(not part.startswith(f"{name}=") for part, name in zip(parts, names, strict=True)):
        return None
    return tuple(part.partition("=")[2] for part in parts)


def _value(text: str, data_type: DataType, options: Mapping[str, str]) -> Encoded | None:
    """A partition's value; None if its text may mean several values."""
    encoded = options.get("hoodie.datasource.write.partitionpath.urlencode", "").lower() == "true"
    if text in _NO_VALUE:
        return None
    if data_type.name == "string":
        # Unencoded, a text that begins or ends with a slash loses it.
        return unquote(text, errors="strict").encode() if encoded else None
    if data_type.name in ("integer", "long"):
        return int(text) if _WHOLE.fullmatch(text) else None
    if data_type.name == "date":
        try:
            return encode(dt.date.fromisoformat(text), data_type)
        except ValueError:
            return None
    return None


def _constants(values: Sequence[Encoded | None], data_type: DataType) -> ColumnStats:
    """Statistics of columns with one value in each partition."""
    is_integer = data_type.form is Form.INT
    bounds: Values = np.zeros(len(values), np.int64) if is_integer else np.full(len(values), b"", np.object_)
    bounded = np.zeros(len(values), np.bool_)
    for i, value in enumerate(values):
        if value is not None:
            bounds[i] = value
            bounded[i] = True
    if data_type.name in CALENDAR_TYPES:
        bounded &= np.asarray(bounds >= first_unambiguous(data_type), np.bool_)
    return ColumnStats(
        type=data_type,
        lower=bounds,
        upper=bounds.copy(),
        bounded=bounded,
        nulls=np.where(bounded, 0, -1).astype(np.int64),
        may_nan=np.zeros(len(values), np.bool_),
    )
