"""The leaf columns of a Parquet schema: their paths, their types in Spark, and how to decode their bounds."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from zskip.types import DAY_MICROS, INTEGERS, DataType, Encoded, Form, encode_decimal

Decode = Callable[[Any], Encoded | None]
"""Converts a footer's raw bound to the form of the type; None for values outside of the type."""

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
FIELD_ID = b"PARQUET:field_id"


class Column(NamedTuple):
    """A column of a file."""

    path: tuple[str, ...]
    """Names from the top-level column down; ends at the first list or map."""
    type: str | None
    """None if it cannot be indexed."""
    id: int | None = None
    """The id of its field in the Parquet schema, -1 if it has none; None if ids were not read."""


@dataclass(frozen=True, slots=True)
class ColumnList:
    """Columns that are created on demand: there may be thousands, and a query needs only a few.

    >>> columns = ColumnList(["a", ["s", "b"]], ["long", None])
    >>> columns[1], list(columns).index(Column(("a",), "long"))
    (Column(path=('s', 'b'), type=None, id=None), 0)
    """

    names: list[str | list[str]]
    """The name of each column, or the names from the top down of a field inside structs."""
    types: list[str | None]
    ids: list[int | None] | None = None
    """The ids of the columns' fields; None if no ids were read."""

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Column]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, number: int) -> Column:
        name = self.names[number]
        path = (name,) if isinstance(name, str) else tuple(name)
        return Column(path, self.types[number], None if self.ids is None else self.ids[number])

    @classmethod
    def of(cls, columns: Iterable[Column]) -> ColumnList:
        """A list of existing columns."""
        column_list = list(columns)
        ids = [c.id for c in column_list]
        return cls(
            [c.path[0] if len(c.path) == 1 else list(c.path) for c in column_list],
            [c.type for c in column_list],
            None if ids.count(None) == len(ids) else ids,
        )

    def pick(self, numbers: Sequence[int]) -> ColumnList:
        """The columns with some numbers, in that order."""
        if tuple(numbers) == tuple(range(len(self))):
            return self
        return ColumnList(
            [self.names[i] for i in numbers],
            [self.types[i] for i in numbers],
            None if self.ids is None else [self.ids[i] for i in numbers],
        )

    def tops(self) -> list[str]:
        """The names of the columns' top-level columns."""
        return [name if isinstance(name, str) else name[0] for name in self.names]


@dataclass(frozen=True, kw_only=True, slots=True)
class Leaf:
    """A leaf column that can be indexed."""

    ordinal: int
    """Its position among the leaves of the Parquet schema."""
    physical_type: str
    column: int
    """Its position in `Leaves.columns`."""
    type: DataType
    decode: Decode | None
    """None if the raw bound already is the value."""
    required: bool
    by_bytes: bool
    """Whether its bounds need a declared order: bytes and unsigned integers."""
    decimal_bytes: bool
    calendar: bool
    """Whether its values depend on the calendar."""
    int96: bool
    """Whether it holds 96-bit timestamps, which have no bounds and in some files another time zone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Leaves:
    """The columns of a Parquet schema, and those that can be indexed."""

    columns: tuple[Column, ...]
    indexed: tuple[Leaf, ...]
    column_of: tuple[int, ...]
    """The position in `columns` of each leaf of the schema."""


def read_leaves(schema: pq.ParquetSchema, *, with_ids: bool = False) -> Leaves:
    """Find the columns of a schema; with_ids: including the ids of their fields.

    Raises ValueError if the paths of nested columns cannot be determined.
    """
    columns: dict[tuple[str, ...], str | None] = {}
    leaves: list[Leaf] = []
    paths = _paths(schema)
    for ordinal, (path, repeated) in enumerate(paths):
        leaf = schema.column(ordinal)
        type_and_decode = None if repeated else _spark_type(leaf)
        if path in columns:
            columns[path] = None
            continue
        columns[path] = type_and_decode[0] if type_and_decode else None
        if type_and_decode:
            leaves.append(_leaf(ordinal, len(columns) - 1, leaf, *type_and_decode))
    ids = dict(_field_ids(schema.to_arrow_schema(), ())) if with_ids else {}
    column_list = tuple(Column(path, name, ids.get(path)) for path, name in columns.items())
    numbers = {path: number for number, path in enumerate(columns)}
    return Leaves(
        columns=column_list,
        indexed=tuple(x for x in leaves if column_list[x.column].type is not None),
        column_of=tuple(numbers[path] for path, _ in paths),
    )


def _field_ids(fields: Iterable[pa.Field], parents: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    """The path and id of each column, -1 where its field has none."""
    for field in fields:
        path = (*parents, field.name)
        if pa.types.is_struct(field.type):
            yield from _field_ids(field.type, path)
        else:
            yield path, int((field.metadata or {}).get(FIELD_ID, -1))


def _leaf(ordinal: int, column: int, leaf: Any, name: str, decode: Decode | None) -> Leaf:
    data_type = DataType(name)
    in_bytes = leaf.physical_type in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
    unsigned = json.loads(leaf.logical_type.to_json()).get("isSigned") is False
    return Leaf(
        ordinal=ordinal,
        physical_type=leaf.physical_type,
        column=column,
        type=data_type,
        decode=decode,
        required=leaf.max_definition_level == 0,
        by_bytes=in_bytes or unsigned,
        decimal_bytes=in_bytes and data_type.is_decimal,
        calendar=name in ("date", "timestamp", "timestamp_ntz"),
        int96=leaf.physical_type == "INT96",
    )


def _paths(schema: pq.ParquetSchema) -> list[tuple[tuple[str, ...], bool]]:
    """The path of each leaf, and whether it lies in a list or map; names may contain dots."""
    dotted = [schema.column(i).path for i in range(len(schema.names))]
    if not any("." in path for path in dotted):
        return [((path,), bool(schema.column(i).max_repetition_level)) for i, path in enumerate(dotted)]
    arrow = schema.to_arrow_schema()
    paths = [path for field in arrow for path in _walk(field, ())]
    if len(paths) != len(dotted) or not all(map(_agrees, paths, dotted)):
        raise ValueError("the nested columns cannot be read")
    return paths


def _agrees(path_and_repeated: tuple[tuple[str, ...], bool], dotted: str) -> bool:
    path, repeated = path_and_repeated
    name = ".".join(path)
    return dotted == name or (repeated and dotted.startswith(f"{name}."))


def _walk(field: pa.Field, parents: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], bool]]:
    path = (*parents, field.name)
    data_type = field.type.storage_type if isinstance(field.type, pa.BaseExtensionType) else field.type
    if pa.types.is_struct(data_type):
        for child in data_type:
            yield from _walk(child, path)
    elif pa.types.is_nested(data_type):
        for _ in range(_leaf_count(data_type)):
            yield path, True
    else:
        yield path, False


def _leaf_count(data_type: pa.DataType) -> int:
    data_type = data_type.storage_type if isinstance(data_type, pa.BaseExtensionType) else data_type
    if not pa.types.is_nested(data_type):
        return 1
    if pa.types.is_map(data_type):
        return _leaf_count(data_type.key_type) + _leaf_count(data_type.item_type)
    if pa.types.is_struct(data_type):
        return sum(_leaf_count(child.type) for child in data_type)
    return _leaf_count(data_type.value_type)


def _spark_type(leaf: Any) -> tuple[str, Decode | None] | None:
    """The type that Spark reads a leaf as, and how its bounds are decoded; None if it has no order."""
    logical = json.loads(leaf.logical_type.to_json())
    kind, physical = logical["Type"], leaf.physical_type
    if kind == "None":
        return _PLAIN.get(physical)
    if kind in ("String", "Enum", "JSON") and physical == "BYTE_ARRAY":
        return "string", bytes
    if kind == "BSON" and physical == "BYTE_ARRAY":
        return "binary", bytes
    if kind == "Int" and physical in ("INT32", "INT64"):
        return _integer(int(logical["bitWidth"]), bool(logical["isSigned"]))
    if kind == "Date" and physical == "INT32":
        return "date", None
    if kind == "Time" and physical == "INT64" and logical["timeUnit"] == "microseconds":
        # Of those in UTC Spark reads none.
        return None if logical["isAdjustedToUTC"] else ("time(6)", _within(0, DAY_MICROS - 1))
    if kind == "Timestamp" and physical == "INT64":
        name = "timestamp" if logical["isAdjustedToUTC"] else "timestamp_ntz"
        decode = {"milliseconds": _millis, "microseconds": None}.get(logical["timeUnit"], _never)
        return None if decode is _never else (name, decode)
    if kind == "Decimal":
        return _decimal(physical, leaf.precision, leaf.scale)
    return None


def _integer(width: int, signed: bool) -> tuple[str, Decode | None]:
    if signed:
        name = {bits: name for name, bits in INTEGERS.items()}[width]
        return name, None if width >= 32 else _within(-(2 ** (width - 1)), 2 ** (width - 1) - 1)
    if width == 64:
        data_type = DataType("decimal(20,0)")
        return data_type.name, lambda raw: encode_decimal(raw & (2**64 - 1), data_type)
    if width == 32:
        return "long", lambda raw: raw & (2**32 - 1)
    return {8: "short", 16: "integer"}[width], _within(0, 2**width - 1)


def _decimal(physical: str, precision: int, scale: int) -> tuple[str, Decode] | None:
    if not (0 < precision <= 38 and 0 <= scale <= precision):
        return None
    data_type = DataType(f"decimal({precision},{scale})")
    limit, is_integer = 10**precision, data_type.form is Form.INT

    def decode(raw: int | bytes) -> Encoded | None:
        unscaled = raw if isinstance(raw, int) else int.from_bytes(raw, "big", signed=True)
        if not -limit < unscaled < limit:
            return None
        return unscaled if is_integer else encode_decimal(unscaled, data_type)

    return data_type.name, _never if physical == "BYTE_ARRAY" else decode


def _within(low: int, high: int) -> Decode:
    return lambda raw: raw if low <= raw <= high else None


def _millis(raw: int) -> int | None:
    micros = raw * 1000
    return micros if INT64_MIN <= micros <= INT64_MAX else None


def _float(raw: float) -> float | None:
    return None if math.isnan(raw) else raw


def _never(raw: object) -> None:
    return None


_PLAIN: dict[str, tuple[str, Decode | None]] = {
    "BOOLEAN": ("boolean", int),
    "INT32": ("integer", None),
    "INT64": ("long", None),
    "FLOAT": ("float", _float),
    "DOUBLE": ("double", _float),
    "INT96": ("timestamp", _never),
    "BYTE_ARRAY": ("binary", bytes),
    # Writers may shorten these bounds while pyarrow reads them at full length: only the null counts are used.
    "FIXED_LEN_BYTE_ARRAY": ("binary", _never),
}
