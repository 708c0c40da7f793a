"""Values of Delta's log: partition values as texts and directories, paths, and statistics of files."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zskip.errors import UnsupportedError
from zskip.formats.hive import DEFAULT_PARTITION, directory_of
from zskip.index import CALENDAR_TYPES, first_unambiguous
from zskip.records import Bools, ColumnStats, Field, Ints, Known, Partition, Values
from zskip.storage import leads_out
from zskip.types import DataType, Encoded, Form, encode

PARTITION_TYPES = ("string", "byte", "short", "integer", "long", "float", "double", "boolean", "date", "timestamp_ntz")
"""Types whose partition values, as texts, mean the same to every engine; so do decimals."""

_UNSURE = ", as text in the log"
"""What follows the name of other types."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_BELOW_A_MILLISECOND = 999
"""Microseconds by which a value may exceed its upper bound, which the log cuts to milliseconds."""


def relative_path(path: str, root: str) -> str:
    """The path of a file below the table, from the log's percent-encoded URI.

    Raises UnsupportedError for files outside of the table's directory.

    >>> relative_path("day=1/a%253D%20b.parquet", "/t")
    'day=1/a%3D b.parquet'
    """
    below = unquote(path, errors="surrogateescape")
    if _SCHEME.match(path) or leads_out(below):
        raise UnsupportedError(
            f'the Delta table "{root}" has the file "{path}" outside of its directory, as a shallow clone does; '
            "make a deep clone, which zskip can work on"
        )
    return below


def partition_text(value: Any) -> str | None:
    """A partition value as the log spells it; None for null.

    >>> [partition_text(v) for v in (True, 1, 1.5, decimal.Decimal("1E+2"), dt.date(2024, 1, 2), None)]
    ['true', '1', '1.5', '100', '2024-01-02', None]
    """
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ", timespec="microseconds")
    if isinstance(value, float):
        return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(str(value), repr(value))
    return value.isoformat() if isinstance(value, dt.date) else str(value)


def read_statistics(
    actions: pa.Table, fields: Sequence[Field], stored: Mapping[tuple[str, ...], tuple[str, ...] | None] | None = None
) -> Known:
    """The log's statistics: rows, and the bounds and null counts of columns, which are parsed on demand.

    actions: from `DeltaTable.get_add_actions`; stored: as in `Snapshot`.
    """
    rows = _counts(actions["num_records"].combine_chunks())
    types = {field.name: field.type for field in fields}
    parts: Mapping[str, pa.StructArray] = {
        name: actions[name].combine_chunks()
        for name in ("min", "max", "null_count")
        if name in actions.column_names and pa.types.is_struct(actions[name].type)
    }

    def part(name: str, column: str) -> pa.Array | None:
        structs = parts.get(name)
        if structs is None or structs.type.get_field_index(column) < 0:
            return None
        return pc.struct_field(structs, [structs.type.get_field_index(column)])

    def column(name: str) -> ColumnStats | None:
        path = (name,) if stored is None else stored.get((name,))
        if path is None or name not in types or types[name].form is None:
            return None
        least, greatest, nulls = (part(kind, path[0]) for kind in ("min", "max", "null_count"))
        if least is None and greatest is None and nulls is None:
            return None
        return _column(types[name], least, greatest, nulls, len(rows))

    return Known(rows=rows, column=column)


def _column(
    data_type: DataType, least: pa.Array | None, greatest: pa.Array | None, nulls: pa.Array | None, files: int
) -> ColumnStats:
    is_float = data_type.form is Form.FLOAT
    lower, has_lower = _values(least, data_type, files)
    upper, has_upper = _values(greatest, data_type, files)
    if data_type.name.startswith("timestamp"):
        upper = np.minimum(upper, np.iinfo(np.int64).max - _BELOW_A_MILLISECOND) + _BELOW_A_MILLISECOND
    bounded = has_lower & has_upper
    if is_float:
        bounded &= ~(np.isnan(lower) | np.isnan(upper))
    if data_type.name in CALENDAR_TYPES:
        bounded &= np.asarray(lower >= first_unambiguous(data_type), np.bool_)
    return ColumnStats(
        type=data_type,
        lower=lower,
        upper=upper,
        bounded=bounded,
        nulls=np.full(files, -1, np.int64) if nulls is None else _counts(nulls),
        # Some writers leave NaN out of both bounds, and no count records it.
        may_nan=np.full(files, is_float),
    )


def _counts(array: pa.Array) -> Ints:
    counts: Ints = pc.fill_null(pc.cast(array, pa.int64()), -1).to_numpy(zero_copy_only=False)
    return counts


def _values(array: pa.Array | None, data_type: DataType, files: int) -> tuple[Values, Bools]:
    """Values in the form of their type, and a mask of the known ones."""
    is_integer = data_type.form is Form.INT
    if array is None or not _has_form(array.type, data_type):
        array = pa.nulls(files)
    known: Bools = pc.is_valid(array).to_numpy(zero_copy_only=False)
    if data_type.form is Form.FLOAT:
        return pc.fill_null(array.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False), known
    if is_integer and not data_type.is_decimal:
        bits = array.cast(pa.int32()) if pa.types.is_date32(array.type) else array
        return pc.fill_null(bits.cast(pa.int64()), 0).to_numpy(zero_copy_only=False), known
    blank: Encoded = 0 if is_integer else b""
    encoded: Values = np.empty(files, np.int64) if is_integer else np.empty(files, np.object_)
    encoded[:] = [
        blank if v is None else v.encode() if isinstance(v, str) else encode(v, data_type) for v in array.to_pylist()
    ]
    return encoded, known


def _has_form(arrow: pa.DataType, data_type: DataType) -> bool:
    """Whether Arrow's values of a type convert to the form of a column's type."""
    if data_type.is_decimal:
        matches = pa.types.is_decimal(arrow)
    elif data_type.form is Form.FLOAT:
        matches = pa.types.is_floating(arrow)
    elif data_type.form is Form.BYTES:
        matches = pa.types.is_string(arrow) or pa.types.is_large_string(arrow)
    elif data_type.name in CALENDAR_TYPES:
        matches = (
            arrow == pa.date32() if data_type.name == "date" else pa.types.is_timestamp(arrow) and arrow.unit == "us"
        )
    else:
        matches = pa.types.is_integer(arrow) or pa.types.is_boolean(arrow)
    return bool(matches)


def check_partition_types(root: str, fields: Sequence[Field]) -> None:
    """Raise UnsupportedError for a partition column whose values engines read differently."""
    feature = unsure_partitions(hide_unsure_types(fields))
    if feature is not None:
        raise UnsupportedError(
            f'the Delta table "{root}" has {feature}: zskip reads it, and does not write it. Partition by a date or a '
            "string instead, or write with Delta Lake. Nothing was written"
        )


def hide_unsure_types(fields: Sequence[Field]) -> tuple[Field, ...]:
    """Partition columns, those of types whose values engines read differently as of a type without an order."""
    return tuple(
        field
        if field.type.name in PARTITION_TYPES or field.type.is_decimal
        else dataclasses.replace(field, type=DataType(f"{field.type}{_UNSURE}"))
        for field in fields
    )


def unsure_partitions(fields: Sequence[Field]) -> str | None:
    """The columns among those of `hide_unsure_types` whose values only Delta Lake in the session knows, if any."""
    names = [f'"{field.name}" ({field.type})' for field in fields if field.type.name.endswith(_UNSURE)]
    return f"partitions by {', '.join(names)}, which engines read differently" if names else None


def read_partitions(
    root: str, actions: pa.Table, fields: Sequence[Field]
) -> tuple[tuple[Partition, ...], np.ndarray[Any, np.dtype[np.int32]]]:
    """The partitions in the order of their first files, and each file's index into them."""
    if not fields:
        return (Partition(directory=""),) * bool(actions.num_rows), np.zeros(actions.num_rows, np.int32)
    values = actions["partition"].combine_chunks()
    columns = [values.field(values.type.get_field_index(field.name)).to_pylist() for field in fields]
    names = [field.name for field in fields]
    partitions: dict[str, Partition] = {}
    directories = []
    for row in zip(*columns, strict=True):
        texts = [partition_text(value) for value in row]
        if DEFAULT_PARTITION in texts:
            raise UnsupportedError(
                f'"{root}" has the partition value {DEFAULT_PARTITION}, which is Hive\'s name of null'
            )
        directory = directory_of(names, texts)
        directories.append(directory)
        if directory not in partitions:
            encoded = tuple(
                None if v is None or f.type.form is None else encode(v, f.type)
                for v, f in zip(row, fields, strict=True)
            )
            partitions[directory] = Partition(directory=directory, values=encoded)
    ordinals = {directory: i for i, directory in enumerate(partitions)}
    return tuple(partitions.values()), np.array([ordinals[d] for d in directories], np.int32)
