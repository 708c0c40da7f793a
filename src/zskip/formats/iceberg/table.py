"""One snapshot of an Iceberg table: its metadata, manifests and live files."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
from pyiceberg.avro.file import AvroFile
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    _inherit_from_manifest,
    read_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import index_name_by_id
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.transforms import IdentityTransform
from pyiceberg.utils.properties import property_as_bool

from zskip.errors import StorageError, TableNotFoundError, UnsupportedError, ZskipError
from zskip.formats.iceberg.column_ids import read_column_ids
from zskip.formats.iceberg.deletes import check_deletes, find_deleted, find_deletes
from zskip.formats.iceberg.file_checks import check_blocks, check_count, check_time_units
from zskip.formats.iceberg.partitions import grouped_columns, read_partitions
from zskip.formats.iceberg.protocol import OldTableMetadata, OwnReaderNeeded, check_columns, check_metadata_json
from zskip.formats.iceberg.values import LiveFile, read_statistics, spark_schema
from zskip.formats.schema import fields_from_json
from zskip.records import ColumnNames, Deletes, Reading, Snapshot
from zskip.storage import Storage, is_same_location, leads_out, normalize_location

_BLOOM_FILTER = "write.parquet.bloom-filter-enabled.column."
_IGNORED = ("write.object-storage.enabled",)
_THREADS = 8
_GZIP = b"\x1f\x8b"

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Contents:
    """The current snapshot of a table with all its manifests."""

    storage: Storage
    metadata: TableMetadata
    manifests: tuple[tuple[ManifestFile, tuple[ManifestEntry, ...]], ...]
    """With their live entries, including those of delete files."""
    files: tuple[LiveFile, ...]
    """The live data files, in path order."""
    feature: str | None = None
    """As in `Reading`."""
    deleted: frozenset[str] = frozenset()
    """The absolute paths of data files of which rows may be deleted."""

    @property
    def version(self) -> int:
        """The sequence number of the snapshot; 0 for tables of version 1, which have none."""
        current = self.metadata.current_snapshot()
        return 0 if current is None else current.sequence_number or 0

    def _version_as_of(self) -> str:
        """The snapshot's id, if Iceberg shows the columns there that the table has now."""
        current = self.metadata.current_snapshot()
        is_same = current is not None and current.schema_id == self.metadata.current_schema_id
        return str(current.snapshot_id) if current is not None and is_same else ""

    def snapshot(self) -> Snapshot:
        """The live files with columns, partitions and the manifests' statistics."""
        schema, files = self.metadata.schema(), self.files
        deleted = np.array([file.data.file_path in self.deleted for file in files], np.bool_) if self.deleted else None
        data = spark_schema(schema)
        fields = fields_from_json(data)
        specs = self.metadata.specs()
        partitions, partition_of = read_partitions(files, specs, schema)
        sources = {
            f.source_id for spec in specs.values() for f in spec.fields if isinstance(f.transform, IdentityTransform)
        }
        mapping = self.metadata.properties.get(TableProperties.DEFAULT_NAME_MAPPING)
        ids = read_column_ids(json.loads(schema.model_dump_json()), sources, mapping)
        return Snapshot(
            root=self.storage.root,
            version=self.version,
            fields=fields,
            partition_fields=(),
            partitions=partitions,
            paths=tuple(file.path for file in files),
            sizes=np.array([file.data.file_size_in_bytes for file in files], np.int64),
            mtimes_ms=np.zeros(len(files), np.int64),
            partition_of=partition_of,
            known=read_statistics(files, schema, fields),
            grouped_by=grouped_columns(files, specs, schema),
            reading=Reading(
                feature=self.feature,
                deleted=deleted,
                read_deletes=None if deleted is None else self._read_deletes,
                declared=(data, json.dumps({"type": "struct", "fields": []})),
                names=ColumnNames(ids=ids),
                version_as_of=self._version_as_of(),
                bloom_filters=tuple(
                    name.removeprefix(_BLOOM_FILTER)
                    for name in self.metadata.properties
                    if name.startswith(_BLOOM_FILTER) and property_as_bool(self.metadata.properties, name, False)
                ),
                ignored_settings=tuple(
                    name for name in _IGNORED if property_as_bool(self.metadata.properties, name, False)
                ),
            ),
        )

    def _read_deletes(self) -> Mapping[str, tuple[Deletes, ...]]:
        resolver = PathResolver(self.storage, self.metadata.location)
        reader = _Reader(self.storage, resolver)
        manifests = [manifest for manifest, _ in self.manifests if manifest.content == ManifestContent.DELETES]
        deletes = find_deletes(
            _by_content(self.manifests)[1],
            [entry for manifest in manifests for entry in reader.delete_entries(manifest)],
            {spec.spec_id for spec in self.metadata.specs().values() if spec.is_unpartitioned()},
            {
                i: name
                for schema in (*self.metadata.schemas, self.metadata.schema())
                for i, name in index_name_by_id(schema).items()
            },
            lambda uri: self.storage.uri(resolver.relative(uri)),
        )
        return {resolver.relative(path): value for path, value in deletes.items()}


def read_contents(
    storage: Storage, metadata: TableMetadata, known: Contents | None = None, *, has_own_reader: bool = False
) -> Contents:
    """The current snapshot of a table.

    known: an earlier one, whose manifests need not be read again; has_own_reader: whether Iceberg's own reader is
    available for tables that zskip would read wrongly. Raises UnsupportedError for those without it, and StorageError
    for unreadable manifests.
    """
    resolver = PathResolver(storage, metadata.location)
    manifests = _read_manifests(storage, metadata, resolver, () if known is None else known.manifests)
    files = sorted(_live_files(manifests, metadata, resolver), key=lambda file: file.path)
    paths = {file.path for file in files}
    if len(paths) < len(files):
        raise StorageError(f'the manifests of "{storage.root}" name a file twice; repair them with Iceberg')
    check_time_units(storage, metadata.schema(), files, has_imported=metadata.name_mapping() is not None)
    feature, (deleted, delete) = None, find_deleted(*_by_content(manifests))
    try:
        check_columns(storage.root, metadata)
        check_deletes(metadata.location, delete)
    except OwnReaderNeeded as error:
        if not has_own_reader:
            raise
        feature = error.feature
    return Contents(
        storage=storage, metadata=metadata, manifests=manifests, files=tuple(files), feature=feature, deleted=deleted
    )


def files_of_all_snapshots(storage: Storage, metadata: TableMetadata) -> set[str]:
    """The paths of all files, live or dead, that the manifests of any snapshot name."""
    resolver = PathResolver(storage, metadata.location)
    reader = _Reader(storage, resolver)
    with ThreadPoolExecutor(_THREADS) as pool:
        manifests = reader.all_manifests(metadata)
        entry_lists = pool.map(lambda manifest: reader.entries(manifest, discard_deleted=False), manifests)
        return {resolver.relative(entry.data_file.file_path) for entries in entry_lists for entry in entries}


def manifests_of_all_snapshots(storage: Storage, metadata: TableMetadata) -> set[str]:
    """The paths of the manifests of all snapshots, and of their manifest lists."""
    resolver = PathResolver(storage, metadata.location)
    lists = {resolver.relative(snapshot.manifest_list) for snapshot in metadata.snapshots}
    return lists | {resolver.relative(m.manifest_path) for m in _Reader(storage, resolver).all_manifests(metadata)}


def read_metadata(storage: Storage, path: str) -> TableMetadata:
    """The metadata of a table from its file; raises as `parse_metadata` does, and TableNotFoundError."""
    try:
        content = storage.read(path)
    except FileNotFoundError as error:
        raise TableNotFoundError(f'"{storage.uri(path)}" is gone; check the path') from error
    return parse_metadata(storage, path, content)


def parse_metadata(storage: Storage, path: str, content: bytes) -> TableMetadata:
    """The metadata of a table from its JSON; raises UnsupportedError, and StorageError where it cannot be read.

    path: for messages.
    """

    return _translate_errors(storage, path, lambda: _parse(storage.root, content))


@lru_cache(maxsize=4)
def _parse(root: str, content: bytes) -> TableMetadata:
    """What JSON says, which one call reads several times; with thousands of snapshots it takes long to parse."""
    metadata_json = json.loads(gzip.decompress(content) if content.startswith(_GZIP) else content)
    if not isinstance(metadata_json, dict):
        raise ValueError("no JSON object")
    check_metadata_json(root, metadata_json)
    is_old = "schemas" not in metadata_json
    metadata = OldTableMetadata(**metadata_json) if is_old else TableMetadataUtil.parse_obj(metadata_json)
    metadata.name_mapping()  # fails on one that is not JSON
    return metadata


def _translate_errors(storage: Storage, path: str, read: Callable[[], _T]) -> _T:
    """The result of one of pyiceberg's parsers; its errors become zskip's errors."""
    try:
        return read()
    except ZskipError:
        raise
    except FileNotFoundError as error:
        raise StorageError(
            f'"{storage.uri(path)}" is gone, as after a clean-up of old snapshots; open the table again'
        ) from error
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0].rstrip(".")[:200]
        raise StorageError(
            f'cannot read "{storage.uri(path)}" of an Iceberg table ({type(error).__name__}: {reason}); '
            "restore it, or roll the table back"
        ) from error


class PathResolver:
    """Resolves the absolute paths in a table's metadata to paths below its root."""

    def __init__(self, storage: Storage, location: str) -> None:
        self._root = storage.root
        root, other = normalize_location(storage.root), normalize_location(location)
        bases = {root}
        # A cluster's own file system records the path of a URI alone in metadata.
        _, separator, path = root.partition("://")
        if is_same_location(root, other) or (separator and f"/{path.partition('/')[2]}" == other):
            bases.add(other)
        self._bases = tuple(base.rstrip("/") + "/" for base in bases)

    def relative(self, uri: str) -> str:
        """The path of a file below the root; raises UnsupportedError for files elsewhere."""
        normalized = normalize_location(uri)
        for base in self._bases:
            if normalized.startswith(base) and not leads_out(path := normalized[len(base) :]):
                return path
        raise UnsupportedError(
            f'the Iceberg table "{self._root}" has the file "{uri}" outside of its directory, as where it was copied '
            "or writes to another place; read it with Iceberg itself, or copy it into a new table"
        )


class _Bytes(InputFile):
    """A small file that is read whole."""

    def __init__(self, location: str, content: bytes) -> None:
        super().__init__(location)
        self._content = content

    def __len__(self) -> int:
        return len(self._content)

    def exists(self) -> bool:
        """True: it was read."""
        return True

    def open(self, seekable: bool = True) -> InputStream:
        """A stream over its bytes."""
        return io.BytesIO(self._content)


class _Reader(FileIO):
    """Lets pyiceberg read metadata below a table's root through the table's own storage."""

    def __init__(self, storage: Storage, resolver: PathResolver) -> None:
        super().__init__()
        self._storage = storage
        self._resolver = resolver

    def new_input(self, location: str) -> InputFile:
        """The manifest or manifest list at an absolute path."""
        content = self._storage.read(self._resolver.relative(location))
        check_blocks(content)
        return _Bytes(location, content)

    def new_output(self, location: str) -> OutputFile:
        """Refuse to write."""
        raise UnsupportedError(f'zskip does not write "{location}"')

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Refuse to delete."""
        raise UnsupportedError(f'zskip does not delete "{location}"')

    def manifests(self, location: str) -> list[ManifestFile]:
        """The manifests of a snapshot."""
        path = self._resolver.relative(location)
        return _translate_errors(self._storage, path, lambda: list(read_manifest_list(self.new_input(location))))

    def all_manifests(self, metadata: TableMetadata) -> list[ManifestFile]:
        """The manifests of all snapshots."""
        manifests = {m.manifest_path: m for s in metadata.snapshots for m in self.manifests(s.manifest_list)}
        return list(manifests.values())

    def entries(self, manifest: ManifestFile, discard_deleted: bool = True) -> list[ManifestEntry]:
        """The entries of a manifest, by default the live ones."""

        def read() -> list[ManifestEntry]:
            entries = manifest.fetch_manifest_entry(self, discard_deleted=False)
            check_count(manifest, entries)
            return [e for e in entries if not discard_deleted or e.status != ManifestEntryStatus.DELETED]

        return _translate_errors(self._storage, self._resolver.relative(manifest.manifest_path), read)

    def delete_entries(self, manifest: ManifestFile) -> list[ManifestEntry]:
        """The live entries of a manifest of delete files, with the fields of format version 3."""

        def read() -> list[ManifestEntry]:
            with AvroFile[ManifestEntry](
                self.new_input(manifest.manifest_path),
                MANIFEST_ENTRY_SCHEMAS[3],
                read_types={-1: ManifestEntry, 2: DataFile},
                read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
            ) as entries:
                all_entries = [_inherit_from_manifest(entry, manifest) for entry in entries]
            check_count(manifest, all_entries)
            return [entry for entry in all_entries if entry.status != ManifestEntryStatus.DELETED]

        return _translate_errors(self._storage, self._resolver.relative(manifest.manifest_path), read)


def _read_manifests(
    storage: Storage,
    metadata: TableMetadata,
    resolver: PathResolver,
    known: Sequence[tuple[ManifestFile, Sequence[ManifestEntry]]],
) -> tuple[tuple[ManifestFile, tuple[ManifestEntry, ...]], ...]:
    snapshot = metadata.current_snapshot()
    if snapshot is None:
        return ()
    reader = _Reader(storage, resolver)
    manifests = reader.manifests(snapshot.manifest_list)
    entries = {manifest.manifest_path: tuple(each) for manifest, each in known}
    unknown = [manifest for manifest in manifests if manifest.manifest_path not in entries]
    with ThreadPoolExecutor(_THREADS) as pool:
        for manifest, read in zip(unknown, pool.map(reader.entries, unknown), strict=True):
            entries[manifest.manifest_path] = tuple(read)
    return tuple((manifest, entries[manifest.manifest_path]) for manifest in manifests)


def _live_files(
    manifests: Sequence[tuple[ManifestFile, Sequence[ManifestEntry]]], metadata: TableMetadata, resolver: PathResolver
) -> Iterator[LiveFile]:
    is_imported = metadata.name_mapping() is not None
    for manifest, entries in manifests:
        if manifest.content == ManifestContent.DELETES:
            continue
        spec = _spec_of(metadata, manifest)
        for entry in entries:
            file = entry.data_file
            _check_file(metadata.location, file)
            identity = _identity(spec, file)
            if is_imported:
                _check_imported(metadata.location, file, identity)
                identity = {}
            yield LiveFile(path=resolver.relative(file.file_path), data=file, spec=spec.spec_id, identity=identity)


def _by_content(
    manifests: Sequence[tuple[ManifestFile, Sequence[ManifestEntry]]],
) -> tuple[list[ManifestEntry], list[ManifestEntry]]:
    """The entries of delete files, and those of data files."""
    entries: dict[ManifestContent, list[ManifestEntry]] = {content: [] for content in ManifestContent}
    for manifest, part in manifests:
        entries[manifest.content] += part
    return entries[ManifestContent.DELETES], entries[ManifestContent.DATA]


def _spec_of(metadata: TableMetadata, manifest: ManifestFile) -> PartitionSpec:
    spec = metadata.specs().get(manifest.partition_spec_id)
    if spec is None:
        raise StorageError(
            f'"{manifest.manifest_path}" is of the partition spec {manifest.partition_spec_id}, which the table\'s '
            "metadata does not have; roll the table back"
        )
    return spec


def _check_file(location: str, file: DataFile) -> None:
    if file.file_format != FileFormat.PARQUET:
        problem = f"files of the format {file.file_format.value}"
    elif file.key_metadata is not None:
        problem = "encrypted files"
    else:
        return
    raise UnsupportedError(
        f'the Iceberg table "{location}" has {problem} ("{file.file_path}"), and zskip reads plain Parquet only; '
        "rewrite them with rewrite_data_files, or read it with Iceberg. Nothing was written"
    )


def _identity(spec: PartitionSpec, file: DataFile) -> dict[int, object]:
    """The ids of columns with one value in all rows of a file, and that value."""
    return {
        field.source_id: file.partition[i]
        for i, field in enumerate(spec.fields)
        if isinstance(field.transform, IdentityTransform)
    }


def _check_imported(location: str, file: DataFile, identity: dict[int, object]) -> None:
    """Refuse files from Hive, which hold partition columns only in their directories' names."""
    for field_id in identity:
        if field_id not in (file.column_sizes or {}) and field_id not in (file.value_counts or {}):
            raise UnsupportedError(
                f'the Iceberg table "{location}" has the file "{file.file_path}", which was migrated and may not hold '
                f"the partition column with the id {field_id}; rewrite it with rewrite_data_files, or read it with "
                "Iceberg. Nothing was written"
            )
