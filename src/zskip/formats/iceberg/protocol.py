"""Checks which Iceberg tables zskip can read, from the metadata alone, before any other file is opened.

Iceberg finds columns by id, every other reader of its files by name. zskip reads a table only if both agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

from pyiceberg.schema import Schema, index_by_id, index_name_by_id, make_compatible_name
from pyiceberg.table.metadata import TableMetadata, TableMetadataV1
from pyiceberg.table.name_mapping import MappedField
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType

from zskip.errors import InputError, UnsupportedError

_MOST_VERSION = 3
_TYPE = re.compile(
    r"boolean|int|long|float|double|date|time|timestamp|timestamptz|string|uuid|binary|fixed\[\d+\]"
    r"|decimal\(\s*\d+\s*,\s*\d+\s*\)"
)
_NESTED = ("struct", "list", "map")


class OldTableMetadata(TableMetadataV1):
    """Metadata of a time that kept no older schemas: it does not tell whether columns were renamed."""


class OwnReaderNeeded(UnsupportedError):
    """zskip would read a table wrongly, and Iceberg's own reader would not."""

    def __init__(self, message: str, feature: str) -> None:
        """message: how else to read it, without a full stop; feature: what the table uses, as in `Snapshot.reader`."""
        super().__init__(
            f"{message}; or open it by its name in an Iceberg catalog of the Spark session "
            '(zskip.table(spark, "catalog.db.table")), where Iceberg reads it and zskip prunes. Nothing was written'
        )
        self.feature = feature


def select_branch(metadata: TableMetadata, branch: str | None, table: str) -> TableMetadata:
    """The metadata as if the head of a branch were the current snapshot; None stands for the table's own branch.

    table: its name. Raises InputError for a branch that the table does not have.
    """
    if branch is None:
        return metadata
    ref = metadata.refs.get(branch)
    if ref is None or not has_branch(metadata, branch):
        branches = {name for name in metadata.refs if has_branch(metadata, name)}
        names = ", ".join([MAIN_BRANCH, *sorted(branches - {MAIN_BRANCH})])
        reason = f'has no branch "{branch}"' if ref is None else f'has a tag "{branch}", which takes no rows'
        raise InputError(
            f'"{table}" {reason}; its branches are {names}. ALTER TABLE {table} CREATE BRANCH `{branch}` makes one, in '
            "Spark with Iceberg's extensions. Nothing was written"
        )
    return metadata.model_copy(update={"current_snapshot_id": ref.snapshot_id})


def has_branch(metadata: TableMetadata, name: str) -> bool:
    """Whether a table has a branch of this name."""
    return name in metadata.refs and metadata.refs[name].snapshot_ref_type == SnapshotRefType.BRANCH


def check_metadata_json(root: str, metadata: Mapping[str, Any]) -> None:
    """Raise UnsupportedError for features in the JSON of a table's metadata that zskip does not know."""
    version = metadata.get("format-version")
    if not isinstance(version, int) or not 1 <= version <= _MOST_VERSION:
        _refuse(root, f"the format version {version!r}")
    if metadata.get("encryption-keys"):
        _refuse(root, "encryption")
    schemas = [s for s in metadata.get("schemas", ()) if s["schema-id"] == metadata["current-schema-id"]]
    for kind in _types(schemas or metadata["schema"]):
        if not _TYPE.fullmatch(kind) and kind not in _NESTED:
            _refuse(root, f"the type {kind}")


def _types(schema: Any) -> Iterator[str]:
    """The names of all types in a schema's JSON."""
    if isinstance(schema, str):
        yield schema
    elif isinstance(schema, list):
        for part in schema:
            yield from _types(part)
    elif isinstance(schema, dict):
        for key in ("type", "fields", "element", "key", "value"):
            if key in schema:
                yield from _types(schema[key])


def check_columns(root: str, metadata: TableMetadata) -> None:
    """Raise OwnReaderNeeded if a column's name in some file may differ from its current name."""
    current = index_name_by_id(metadata.schema())
    _check_history(root, metadata)
    ids = {name.lower(): field_id for field_id, name in current.items()}
    for schema in metadata.schemas:
        for field_id, name in index_name_by_id(schema).items():
            current_name = current.get(field_id, name)
            if current_name != name:
                refuse_names(root, f'the column "{current_name}" was called "{name}"')
            if ids.get(name.lower(), field_id) != field_id:
                refuse_names(root, f'the column "{name}" was dropped and another of this name was added')
    _check_written_names(root, metadata.schema())
    _check_mapping(root, metadata, current)


def _check_history(root: str, metadata: TableMetadata) -> None:
    """Refuse tables whose older schemas have expired: files may be older than all known schemas."""
    if isinstance(metadata, OldTableMetadata):
        refuse_names(root, "its metadata is of a time that kept no older schemas, so columns may have been renamed")
    known = {schema.schema_id for schema in metadata.schemas}
    columns = {field_id for schema in metadata.schemas for field_id in index_name_by_id(schema)}
    if known != set(range(len(known))) or not columns.issuperset(range(1, metadata.last_column_id + 1)):
        refuse_names(root, "some of its older schemas are expired, so columns may have been renamed")


def _check_written_names(root: str, schema: Schema) -> None:
    for field in index_by_id(schema).values():
        if field.initial_default is not None:
            raise OwnReaderNeeded(
                f'the Iceberg table "{root}" uses the default value of the column "{field.name}", which files '
                "that lack it do not hold; copy it into a new table (CREATE TABLE ... AS SELECT)",
                f'a default value (of the column "{field.name}")',
            )
        if make_compatible_name(field.name) != field.name:
            written = make_compatible_name(field.name)
            refuse_names(root, f'the column "{field.name}" is called "{written}" in its files')


def _check_mapping(root: str, metadata: TableMetadata, current: Mapping[int, str]) -> None:
    """Refuse mappings under which a file without ids may hold a column by another name."""
    ids = {name.lower(): field_id for field_id, name in current.items()}
    for name, field_id in _mapped_names(metadata.name_mapping() or (), ""):
        current_name = current.get(field_id, name)
        if current_name != name or ids.get(name.lower(), field_id) != field_id:
            refuse_names(root, f'its name mapping gives the name "{name}" to the column with the id {field_id}')


def _mapped_names(fields: Iterable[MappedField], prefix: str) -> Iterator[tuple[str, int]]:
    """The full names in a mapping, and the ids that they stand for."""
    for field in fields:
        for name in field.names:
            if field.field_id is not None:
                yield prefix + name, field.field_id
            yield from _mapped_names(field.fields, f"{prefix}{name}.")


def refuse_names(root: str, reason: str) -> NoReturn:
    """Raise OwnReaderNeeded: the names of columns in files are not sure."""
    raise OwnReaderNeeded(
        f'zskip finds columns in files by their names, which are not sure in the Iceberg table "{root}": {reason}; '
        "copy it into a new table (CREATE TABLE ... AS SELECT)",
        f"columns that Iceberg finds by their ids ({reason})",
    )


def _refuse(root: str, feature: str) -> NoReturn:
    raise UnsupportedError(
        f'zskip cannot read the Iceberg table "{root}", which uses {feature}; read it with Iceberg itself. '
        "Nothing was written"
    )
