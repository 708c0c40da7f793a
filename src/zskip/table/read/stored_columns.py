"""How the files of a plan store the table's columns, for engines that know nothing of its format."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from zskip.errors import UnsupportedError
from zskip.formats.footers.footer import read_raw_footer
from zskip.formats.schema import arrow_type
from zskip.index.store.leaves import FIELD_ID
from zskip.records import Deletes, Field, Ints, Partition, Snapshot
from zskip.records.reading import ColumnIds, ColumnNames
from zskip.table.handle import Handle
from zskip.table.read.kept_file import KeptFile
from zskip.table.session import is_case_sensitive
from zskip.types import DataType, Encoded, to_decimal

FILE = "__zskip_file"
"""The column with the path of a row's file, where partition values or deletes are joined to it."""
_THREADS = 8
"""Footers are read at the same time, since most of their time is waiting."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredColumn:
    """A column as some files store it."""

    name: str
    """In the table."""
    type: pa.DataType
    """In the table."""
    stored: str | None
    """Its name in the files; None where they lack it."""
    is_zoned: bool = True
    """Whether the files note that its timestamps are in UTC, if they are to be read so."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FileGroup:
    """Files that store the table's columns in the same way."""

    files: list[str]
    columns: tuple[StoredColumn, ...]
    deleted: dict[str, Ints]
    """The numbers of the deleted rows by file, ascending from 0."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class StoredRows:
    """The rows of a plan's files."""

    schema: pa.Schema
    """All columns of the table, partition columns last."""
    groups: list[FileGroup]
    partitions: pa.Table | None
    """The partition values of each file, beside its path as `FILE`; None where the table has no partition columns."""


def stored_rows(handle: Handle, snapshot: Snapshot, files: Sequence[KeptFile], reader: str) -> StoredRows:
    """How some files store their rows; files: in the order of the snapshot; reader: the method that asks, for errors.

    snapshot: of these files, or where there are none, of all. Raises UnsupportedError where an engine would read other
    rows than the table's.
    """
    return _Files(handle, snapshot, files, reader).rows()


class _Files:
    def __init__(self, handle: Handle, snapshot: Snapshot, files: Sequence[KeptFile], reader: str) -> None:
        self._snapshot = snapshot
        self._files = files
        self._reader = reader
        self._storage = handle.storage
        self._names = snapshot.reading.names
        self._folds_case = not is_case_sensitive(handle)

    def rows(self) -> StoredRows:
        """Read the schemas of the files, and what deletes their rows."""
        snapshot, fields, partition_fields = self._snapshot, self._snapshot.fields, self._snapshot.partition_fields
        with ThreadPoolExecutor(_THREADS) as pool:
            schemas = dict(zip(map(str, self._files), pool.map(self._schema, range(len(self._files))), strict=True))
        if not schemas and len(snapshot):
            schemas = {self._storage.uri(snapshot.paths[0]): self._schema(0)}
        types = [self._type(field, schemas) for field in fields]
        groups: dict[Any, FileGroup] = {}
        for file in self._files:
            columns = tuple(
                self._column(field, kind, schemas[file], file) for field, kind in zip(fields, types, strict=True)
            )
            stored = [schemas[file].field(c.stored).type for c in columns if c.stored is not None]
            group = groups.setdefault((columns, tuple(stored)), FileGroup(files=[], columns=columns, deleted={}))
            group.files.append(str(file))
            deleted = self._deleted(file, file.deletes)
            if len(deleted):
                group.deleted[str(file)] = deleted
        partition_types = [self._known_type(field) for field in partition_fields]
        names = [field.name for field in (*fields, *partition_fields)]
        return StoredRows(
            schema=pa.schema(list(zip(names, [*types, *partition_types], strict=True))),
            groups=list(groups.values()),
            partitions=self._partition_values(partition_fields, partition_types) if partition_fields else None,
        )

    def _schema(self, i: int) -> pa.Schema:
        return read_raw_footer(self._storage, self._snapshot.paths[i]).metadata.schema.to_arrow_schema()

    def _known_type(self, field: Field) -> pa.DataType:
        kind = arrow_type(field.type)
        if kind is None:
            raise self._refusal(f'the column "{field.name}" has the type {field.type}')
        return kind

    def _type(self, field: Field, schemas: Mapping[str, pa.Schema]) -> pa.DataType:
        """The type of a column; of one that Arrow has no type for by name, that of the first file that has it."""
        kind = arrow_type(field.type)
        if kind is not None:
            return kind
        for file, schema in schemas.items():
            name = self._stored_name(field, schema, file)
            if name is not None:
                return schema.field(name).type
        return pa.null()

    def _column(self, field: Field, kind: pa.DataType, schema: pa.Schema, file: str) -> StoredColumn:
        name = self._stored_name(field, schema, file)
        column = StoredColumn(name=field.name, type=kind, stored=name)
        if name is None:
            return column
        stored = schema.field(name).type
        self._check_parts(field, schema.field(name), file)
        if not _is_read_as(stored, kind):
            raise self._refusal(f'"{file}" stores the column "{field.name}" as {stored}, and the table has {kind}')
        has_zone = pa.types.is_timestamp(kind) and kind.tz is not None
        return dataclasses.replace(column, is_zoned=not has_zone or stored.tz is not None)

    def _stored_name(self, field: Field, schema: pa.Schema, file: str) -> str | None:
        """What a file calls a column; None where it lacks it."""
        if self._names.ids is not None:
            return self._name_by_id(self._names.ids, field, schema, file)
        path = self._names.path_in_files((field.name,))
        if path is None:
            raise self._refusal(f'files may call the column "{field.name}" otherwise, since it is found by its id')
        if path[0] in schema.names or self._names != ColumnNames() or not self._folds_case:
            return path[0] if path[0] in schema.names else None
        return next((name for name in schema.names if name.lower() == path[0].lower()), None)

    def _name_by_id(self, ids: ColumnIds, field: Field, schema: pa.Schema, file: str) -> str | None:
        stored = {part.name: _id_of(part) for part in schema}
        if any(number is not None for number in stored.values()):
            names = [name for name, number in stored.items() if number == ids.ids[field.name,]]
        elif ids.names:
            names = [name for name in stored if ids.names.get((name,)) == ids.ids[field.name,]]
        else:
            raise self._refusal(f'"{file}" has no ids of columns, and the table no mapping of their names')
        if not names and ids.ids[field.name,] in ids.filled:
            raise self._refusal(f'"{file}" lacks the column "{field.name}", which has a default there')
        return names[0] if names else None

    def _check_parts(self, field: Field, stored: pa.Field, file: str) -> None:
        """Raise UnsupportedError where fields inside a column have other names in a file than in the table."""
        by_path = {} if self._names.paths is None else self._names.paths
        is_renamed = any(
            path[0] == field.name and len(path) > 1 and (target is None or target[-1] != path[-1])
            for path, target in by_path.items()
        )
        if self._names.ids is not None and pa.types.is_nested(stored.type):
            own = {path: number for path, number in self._names.ids.ids.items() if path[0] == field.name}
            is_renamed = any(
                number is not None and own.get((field.name, *path)) not in (None, number)
                for path, number in _parts(stored.type)
            )
        if is_renamed:
            raise self._refusal(f'"{file}" has other names for the parts of the column "{field.name}"')

    def _deleted(self, file: str, deletes: tuple[Deletes, ...]) -> Ints:
        """The numbers of the deleted rows of a file."""
        others = {one.kind for one in deletes} - {"deletion vector", "position deletes"}
        if others:
            raise self._refusal(f'"{file}" has {" and ".join(sorted(others))}')
        rows = [one.rows for one in deletes if one.rows is not None]
        unread = [self._relative(one) for one in deletes if one.rows is None]
        if unread:
            from zskip.spark.write.arrow.reading import deleted_rows, describe_deletes

            rows.append(deleted_rows(self._storage, unread[0].location, describe_deletes(unread)))  # type: ignore[arg-type]
        return np.unique(np.concatenate(rows)) if rows else np.zeros(0, np.int64)

    def _relative(self, deletes: Deletes) -> Deletes:
        """With the path below the table, as its storage takes it."""
        if deletes.path is None:
            return deletes
        path = deletes.path.removeprefix(self._storage.root.rstrip("/") + "/")
        if self._storage.uri(path) != deletes.path:
            raise self._refusal(f'"{deletes.path}" with its {deletes.kind} lies outside of the table')
        return dataclasses.replace(deletes, path=path)

    def _partition_values(self, fields: tuple[Field, ...], types: list[pa.DataType]) -> pa.Table:
        partitions: list[Partition] = [self._snapshot.partitions[file.partition] for file in self._snapshot]
        columns = {
            field.name: _values([partition.values[n] for partition in partitions], field.type, kind)
            for n, (field, kind) in enumerate(zip(fields, types, strict=True))
        }
        return pa.table({FILE: pa.array([str(file) for file in self._files], pa.string()), **columns})

    def _refusal(self, reason: str) -> UnsupportedError:
        return UnsupportedError(
            f'{self._reader}() cannot read the rows of "{self._storage.root}": {reason}; read it with df() of '
            "zskip.table(spark, ...), or take the files of the plan and read them yourself"
        )


def _values(encoded: list[Encoded | None], data_type: DataType, kind: pa.DataType) -> pa.Array:
    """Partition values in the column's type."""
    numbers = {"date": pa.int32(), "timestamp": pa.int64(), "timestamp_ntz": pa.int64()}
    own = pa.int64() if data_type.is_time else numbers.get(data_type.name)
    return pa.array([_value(value, data_type) for value in encoded], own or kind).cast(kind)


def _value(encoded: Encoded | None, data_type: DataType) -> Any:
    """A partition value as Arrow takes it."""
    if encoded is None:
        return None
    if data_type.is_decimal:
        return to_decimal(encoded, data_type)
    if data_type.name == "boolean":
        return bool(encoded)
    return encoded.decode() if isinstance(encoded, bytes) and data_type.name != "binary" else encoded


def _id_of(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(FIELD_ID)
    return None if text is None else int(text)


def _parts(kind: pa.DataType, prefix: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], int | None]]:
    """The paths and ids of the fields inside structs."""
    if not pa.types.is_struct(kind):
        return []
    return [
        part
        for field in kind
        for part in [((*prefix, field.name), _id_of(field)), *_parts(field.type, (*prefix, field.name))]
    ]


def _is_read_as(stored: pa.DataType, kind: pa.DataType) -> bool:
    """Whether a cast from the type of a file to that of the table keeps every value.

    >>> _is_read_as(pa.int32(), pa.int64()), _is_read_as(pa.binary(), pa.string())
    (True, False)
    >>> xy, yx = ([(name, pa.int8()) for name in names] for names in ("xy", "yx"))
    >>> _is_read_as(pa.struct(xy), pa.struct(yx))
    False
    """
    if pa.types.is_dictionary(stored):
        stored = stored.value_type
    if pa.types.is_nested(kind):
        # Engines differ in whether a cast matches fields by their names.
        return _text_of(stored) == _text_of(kind)
    if stored == kind:
        return True
    if pa.types.is_timestamp(kind):
        return bool(pa.types.is_timestamp(stored) or (kind.tz is None and pa.types.is_date(stored)))
    if pa.types.is_decimal(kind):
        digits = kind.precision - kind.scale
        if pa.types.is_decimal(stored):
            return bool(stored.scale <= kind.scale and stored.precision - stored.scale <= digits)
        return bool(pa.types.is_integer(stored) and digits >= {8: 3, 16: 5, 32: 10, 64: 20}[stored.bit_width])
    if pa.types.is_integer(kind):
        return bool(pa.types.is_integer(stored) and _range(stored) <= _range(kind))
    if pa.types.is_floating(kind):
        widest = 24 if kind == pa.float32() else 53
        is_exact = pa.types.is_integer(stored) and stored.bit_width <= widest
        return bool(is_exact or (pa.types.is_floating(stored) and stored.bit_width <= kind.bit_width))
    if pa.types.is_string(kind):
        return bool(pa.types.is_large_string(stored) or pa.types.is_string_view(stored))
    if pa.types.is_binary(kind):
        return bool(pa.types.is_large_binary(stored) or pa.types.is_fixed_size_binary(stored))
    return bool(pa.types.is_time(kind) and pa.types.is_time(stored))


def _text_of(kind: pa.DataType) -> str:
    """A nested type without what writers spell differently: nullability, and the names of a list's elements."""
    return re.sub(r"<(?:element|item|array): ", "<", str(kind).replace(" not null", ""))


def _range(kind: pa.DataType) -> int:
    """Comparable widths of integers: an unsigned type needs one bit more."""
    return int(kind.bit_width) + (1 if pa.types.is_unsigned_integer(kind) else 0)
