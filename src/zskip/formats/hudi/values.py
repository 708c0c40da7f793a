"""Types and values of Hudi: columns as Spark has them, and what the names of partitions say of them."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from zskip.errors import UnsupportedError
from zskip.formats.hive import DEFAULT_PARTITION
from zskip.index import CALENDAR_TYPES, first_sure
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
"""Generators of keys that name a partition by the values of its columns as they are."""
_NO_VALUE = (DEFAULT_PARTITION, "default", "")
"""Names of partitions that stand for null, an empty text, or themselves."""
_WHOLE = re.compile(r"-?[0-9]{1,18}")


def spark_schema(avro: str, root: str) -> str:
    """An Avro schema in Spark's JSON; every column may be null.

    Raises UnsupportedError for types that Spark reads in no way of its own.

    >>> spark_schema('{"type": "record", "fields": [{"name": "a", "type": ["null", "long"]}]}', "/t")
    '{"type": "struct", "fields": [{"name": "a", "type": "long", "nullable": true, "metadata": {}}]}'
    """
    named: dict[str, Any] = {}

    def of(kind: Any) -> Any:
        if isinstance(kind, list):
            held = [one for one in kind if one != "null"]
            if len(held) != 1:
                raise _strange(kind, root)
            return of(held[0])
        if isinstance(kind, str):
            found = _SPARK.get(kind, named.get(kind))
            if found is None:
                raise _strange(kind, root)
            return found
        return of_object(kind)

    def of_object(kind: Mapping[str, Any]) -> Any:
        name, logical = kind["type"], kind.get("logicalType")
        found: Any
        if name == "record":
            fields = [
                {"name": f["name"], "type": of(f["type"]), "nullable": True, "metadata": {}} for f in kind["fields"]
            ]
            found = {"type": "struct", "fields": fields}
        elif name == "array":
            found = {"type": "array", "elementType": of(kind["items"]), "containsNull": True}
        elif name == "map":
            found = {"type": "map", "keyType": "string", "valueType": of(kind["values"]), "valueContainsNull": True}
        elif logical == "decimal":
            found = f"decimal({kind['precision']},{kind.get('scale', 0)})"
        elif logical is not None:
            if logical not in _LOGICAL:
                raise _strange(logical, root)
            found = _LOGICAL[logical]
        else:
            found = of(name)
        if "name" in kind:
            named[kind["name"]] = named[f"{kind.get('namespace', '')}.{kind['name']}"] = found
        return found

    return json.dumps(of(json.loads(avro)))


def _strange(kind: object, root: str) -> UnsupportedError:
    return UnsupportedError(
        f'the Hudi table "{root}" has a column of the Avro type {kind}, which zskip does not know; '
        "read it with Hudi itself. Nothing was written"
    )


def partition_fields(options: Mapping[str, str]) -> tuple[str, ...]:
    """The partition columns by their names, where all rows of a partition hold one value of each.

    >>> made = {"hoodie.table.keygenerator.type": "COMPLEX"}
    >>> partition_fields({"hoodie.table.partition.fields": "day,region", **made})
    ('day', 'region')
    """
    maker = options.get("hoodie.table.keygenerator.type") or options.get("hoodie.table.keygenerator.class", "")
    if maker.rpartition(".")[2] not in _SIMPLE:
        return ()
    names = options.get("hoodie.table.partition.fields", "").split(",")
    return tuple(name.strip() for name in names if name.strip())


def read_known(
    rows: Sequence[int],
    fields: Sequence[Field],
    options: Mapping[str, str],
    directories: Sequence[str],
    partition_of: npt.NDArray[np.int32],
) -> Known:
    """What is known of files: rows, and of partition columns the one value of all of them.

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
    """The text of each partition column in a directory; None where it does not tell.

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
    """A partition's value; None where its text may stand for others, too."""
    encoded = options.get("hoodie.datasource.write.partitionpath.urlencode", "").lower() == "true"
    if text in _NO_VALUE:
        return None
    if data_type.name == "string":
        # Written as it is, a text that begins or ends with a slash loses it.
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
    """Bounds where each group of rows holds one value."""
    whole = data_type.form is Form.INT
    bounds: Values = np.zeros(len(values), np.int64) if whole else np.full(len(values), b"", np.object_)
    bounded = np.zeros(len(values), np.bool_)
    for i, value in enumerate(values):
        if value is not None:
            bounds[i] = value
            bounded[i] = True
    if data_type.name in CALENDAR_TYPES:
        bounded &= np.asarray(bounds >= first_sure(data_type), np.bool_)
    return ColumnStats(
        type=data_type,
        lower=bounds,
        upper=bounds.copy(),
        bounded=bounded,
        nulls=np.where(bounded, 0, -1).astype(np.int64),
        may_nan=np.zeros(len(values), np.bool_),
    )
