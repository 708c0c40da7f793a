"""Prepares a rewrite of files in an Iceberg table for its commit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.schema import Schema, index_by_id, index_by_name
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot as IcebergSnapshot
from pyiceberg.types import FixedType, MapType, TimeType, UUIDType

from zskip.errors import ConflictError, CorruptFileError, UnsupportedError, ZskipError
from zskip.formats.base import REPLACE, BatchId, RowRules, StagedFile
from zskip.formats.commit_checks import check_live, check_required, check_rows, read_staged_footers
from zskip.formats.iceberg.column_ids import column_ids
from zskip.formats.iceberg.metrics import file_metrics
from zskip.formats.iceberg.partitions import data_path, name_partition, read_partition_expressions, refuse_append
from zskip.formats.iceberg.table import Contents
from zskip.formats.iceberg.values import stored_schema
from zskip.records import Snapshot
from zskip.storage import Storage

REWRITE = "zskip.rewrite"
"""The key of the rewrite's name in a snapshot's summary."""
INFO = "zskip.info"
"""The key of the rewrite's info, in JSON, in a snapshot's summary."""

_APPLICATION, _VERSION = "zskip.batch.application", "zskip.batch.version"
"""The keys of a batch's name and number in a snapshot's summary."""

_MOST_VERSION = 2
_CHANGED_TYPES = (UUIDType, FixedType)
"""Types that Spark reads, and would write, as other types; Arrow writes times that are not nested as times."""
HIDDEN_IDS = {"_row_id": 2147483540, "_last_updated_sequence_number": 2147483539}
"""The ids of the columns that follow a row through rewrites, in tables of version 3."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewFile:
    """A file of a rewrite as a manifest will describe it."""

    staged: StagedFile
    target: str
    """Its path below the table."""
    metrics: Mapping[str, Any]
    """As fields of `pyiceberg.manifest.DataFile`."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Rewrite:
    """The facts that a commit needs."""

    name: str
    """Unique."""
    old: Snapshot
    """The files that are removed."""
    new: tuple[NewFile, ...]
    mode: str
    """REPLACE, APPEND or OVERWRITE."""
    info: Mapping[str, Any]
    batch: BatchId | None = None
    spec: int = 0
    """The id of the partition spec of new rows."""
    branch: str | None = None
    """The branch that takes new rows; None for the table's own."""

    @property
    def summary(self) -> dict[str, str]:
        """The snapshot's summary."""
        summary = {REWRITE: self.name, INFO: json.dumps(self.info)}
        if self.batch is not None:
            summary |= {_APPLICATION: self.batch.application, _VERSION: str(self.batch.version)}
        return summary


class BatchHeldError(ZskipError):
    """The table holds a batch already."""


def check_rewritable(contents: Contents, *, in_session: bool) -> None:
    """Raise UnsupportedError for a table that zskip's own rewrite would change, or that nobody can rewrite.

    in_session: whether Iceberg's runtime in the session commits.
    """
    check_partition_columns(contents)
    feature = find_unsupported_feature(contents)
    if feature is not None and not in_session:
        raise UnsupportedError(
            f'only Iceberg itself rewrites the table "{contents.storage.root}", which has {feature}: start Spark with '
            "spark.jars.packages=org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0 (as fits the version of "
            "Spark), set spark.sql.catalog.<name>=org.apache.iceberg.spark.SparkCatalog for the table's catalog, and "
            'open it by its name there, as in zskip.table(spark, "name.db.table"). Nothing was written'
        )


def find_unsupported_feature(contents: Contents) -> str | None:
    """The feature for which only Iceberg's own code can rewrite the table, if any."""
    metadata = contents.metadata
    if contents.feature is not None:
        return contents.feature
    if metadata.format_version > _MOST_VERSION:
        return f"the format version {metadata.format_version}, whose rows have ids"
    top_level = {field.field_id for field in metadata.schema().fields}
    for field_id, field in index_by_id(metadata.schema()).items():
        is_nested_time = isinstance(field.field_type, TimeType) and field_id not in top_level
        if isinstance(field.field_type, _CHANGED_TYPES) or is_nested_time:
            return f'the type {field.field_type} (column "{field.name}"), which Spark alone would write as another'
    return None


def check_partition_columns(contents: Contents) -> None:
    """Raise UnsupportedError where files are partitioned by a column that the table no longer has."""
    metadata = contents.metadata
    columns = index_by_id(metadata.schema())
    for spec_id in {file.spec for file in contents.files}:
        for part in metadata.specs()[spec_id].fields:
            if part.source_id not in columns:
                _refuse(contents.storage.root, f'files that are partitioned by a dropped column ("{part.name}")')


def check_appendable(contents: Contents, *, in_session: bool) -> None:
    """Raise UnsupportedError for a table whose new rows zskip would not write as Iceberg does.

    in_session: whether Iceberg's runtime in the session commits.
    """
    root, metadata = contents.storage.root, contents.metadata
    check_partition_columns(contents)
    feature = find_unsupported_feature(contents)
    if feature is not None and not in_session:
        refuse_append(root, f"has {feature}")
    columns = index_by_id(metadata.schema())
    for field in columns.values():
        if isinstance(field.field_type, (*_CHANGED_TYPES, TimeType)):
            refuse_append(root, f"has columns of the type {field.field_type}")
    if not metadata.spec().is_unpartitioned() and not in_session:
        refuse_append(root, "is partitioned, and is not in a catalog of the session")
    read_partition_expressions(metadata, "catalog")
    top_level = {field.field_id for field in metadata.schema().fields}
    # No engine has a null among the keys of a map.
    keys = {field.field_type.key_id for field in columns.values() if isinstance(field.field_type, MapType)}
    for field_id, field in columns.items():
        if field.required and field_id not in keys and (field_id not in top_level or not field.field_type.is_primitive):
            refuse_append(root, f'has a required nested column ("{field.name}")')


def read_row_rules(contents: Contents, catalog: str) -> RowRules:
    """Read the rules for new rows; catalog: the name of the session's catalog."""
    metadata = contents.metadata
    schema = metadata.schema()
    return RowRules(
        required=[field.name for field in schema.fields if field.required],
        given={
            field.name: f"a column with a default ({field.write_default})"
            for field in schema.fields
            if field.write_default is not None
        },
        partitions=read_partition_expressions(metadata, catalog),
        stored=stored_schema(schema),
    )


def _refuse(root: str, reason: str) -> None:
    raise UnsupportedError(
        f'zskip cannot rewrite the Iceberg table "{root}", which has {reason}; cluster it with Iceberg\'s own '
        "rewrite_data_files, and let zskip index it. Nothing was written"
    )


def prepare_rewrite(
    contents: Contents,
    old: Snapshot,
    added: Sequence[StagedFile],
    name: str,
    info: Mapping[str, Any],
    *,
    mode: str = REPLACE,
    batch: BatchId | None = None,
    branch: str | None = None,
) -> Rewrite:
    """Read the staged files and describe them for a manifest.

    old: the files that they replace; mode, batch, branch: as in `Rewrite`. Raises CorruptFileError for one
    that cannot be read, ConflictError if their rows in each partition do not match the old ones, and InputError for a
    null in a required column.
    """
    storage, schema = contents.storage, contents.metadata.schema()
    files = sorted(added, key=lambda file: file.path)
    index = read_staged_footers(storage, old, files)
    if mode != REPLACE:
        check_required(index, [field.name for field in schema.fields if field.required])
    else:
        check_rows(old, zip((file.directory for file in files), index.rows.tolist(), strict=True))
    metrics = file_metrics(storage, files, index, schema, contents.metadata.properties)
    for file in files:
        _check_ids(storage, file.path, schema)
    return Rewrite(
        name=name,
        old=old,
        new=tuple(
            NewFile(
                staged=file,
                target=data_path(
                    file.directory if mode == REPLACE else name_partition(contents.metadata, file.directory),
                    file.name,
                ),
                metrics=part,
            )
            for file, part in zip(files, metrics, strict=True)
        ),
        mode=mode,
        info=info,
        batch=batch,
        spec=contents.metadata.default_spec_id,
        branch=branch,
    )


def _check_ids(storage: Storage, path: str, schema: Schema) -> None:
    """Raise CorruptFileError unless all columns of a file have their ids: one by its name may be another's one day."""
    ids = index_by_name(schema) | HIDDEN_IDS
    with storage.open(path) as stream:
        for name, field_id in column_ids(pq.read_schema(stream), ""):
            if field_id is None or field_id != ids.get(name):
                raise CorruptFileError(
                    f'"{storage.uri(path)}" holds the column "{name}" with the id {field_id}, and the table '
                    f"{ids.get(name, 'has no such column')}; nothing was committed, please report it"
                )


def check_unchanged(contents: Contents, rewrite: Rewrite) -> None:
    """Raise ConflictError if a rewrite no longer fits the table: removed files are dead, or columns have changed."""
    current = contents.snapshot()
    check_live(current, rewrite.old)
    if current.reading.declared != rewrite.old.reading.declared:
        raise ConflictError(
            f'the columns of "{rewrite.old.root}" were changed meanwhile; nothing was committed, call again'
        )
    if rewrite.batch is not None:
        last = find_last_batch(contents.metadata, rewrite.batch.application)
        if last is not None and last >= rewrite.batch.version:
            raise BatchHeldError(f'"{rewrite.old.root}" holds the batch {last} of "{rewrite.batch.application}"')


def find_committed(metadata: TableMetadata, name: str) -> IcebergSnapshot | None:
    """The snapshot that a rewrite has committed, if the metadata still has it."""
    return next((s for s in metadata.snapshots if _summary(s).get(REWRITE) == name), None)


def read_last_rewrite(metadata: TableMetadata) -> tuple[int, Mapping[str, Any]] | None:
    """The sequence number and info of the latest rewrite in the history of the current snapshot."""
    for snapshot in _ancestors(metadata):
        text = _summary(snapshot).get(INFO)
        if text is not None:
            return snapshot.sequence_number or 0, json.loads(text)
    return None


def find_last_batch(metadata: TableMetadata, application: str) -> int | None:
    """The number of an application's latest batch in the history of the current snapshot, as far as it is kept."""
    summaries = map(_summary, _ancestors(metadata))
    return max((int(s[_VERSION]) for s in summaries if s.get(_APPLICATION) == application), default=None)


def _ancestors(metadata: TableMetadata) -> Iterator[IcebergSnapshot]:
    """The current snapshot and those before it that have not expired."""
    current = metadata.current_snapshot()
    while current is not None:
        yield current
        parent = current.parent_snapshot_id
        current = None if parent is None else metadata.snapshot_by_id(parent)


def _summary(snapshot: IcebergSnapshot) -> Mapping[str, str]:
    return {} if snapshot.summary is None else snapshot.summary.additional_properties
