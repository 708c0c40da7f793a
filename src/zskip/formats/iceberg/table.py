"""One snapshot of an Iceberg table: its metadata, manifests and live files."""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from pyiceberg.manifest import (
    DataFile,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    read_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.transforms import IdentityTransform

from zskip.errors import StorageError, TableNotFoundError, UnsupportedError, ZskipError
from zskip.formats.iceberg.avro import check_blocks, check_count
from zskip.formats.iceberg.deletes import check_deletes
from zskip.formats.iceberg.partitions import grouped_columns, read_partitions
from zskip.formats.iceberg.protocol import check_columns, check_raw
from zskip.formats.iceberg.values import Live, read_known, spark_schema
from zskip.formats.schema import fields_from_json
from zskip.records import Snapshot
from zskip.storage import HADOOP_SCHEMES, Storage

_THREADS = 8
_GZIP = b"\x1f\x8b"

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Contents:
    """The current snapshot of a table with all its manifests."""

    storage: Storage
    metadata: TableMetadata
    manifests: tuple[tuple[ManifestFile, tuple[ManifestEntry, ...]], ...]
    """With their live entries; those of delete files, too."""
    files: tuple[Live, ...]
    """The live data files, in path order."""

    @property
    def version(self) -> int:
        """The sequence number of the snapshot, which tables of version 1 do not have."""
        current = self.metadata.current_snapshot()
        return 0 if current is None else current.sequence_number or 0

    def snapshot(self) -> Snapshot:
        """The live files with columns, partitions and what the manifests say of them."""
        schema, files = self.metadata.schema(), self.files
        data = spark_schema(schema)
        fields = fields_from_json(data)
        partitions, partition_of = read_partitions(files, self.metadata.specs(), schema)
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
            declared=(data, json.dumps({"type": "struct", "fields": []})),
            known=read_known(files, schema, fields),
            grouped_by=grouped_columns(files, self.metadata.specs(), schema),
        )


def read_contents(storage: Storage, metadata_path: str, known: Contents | None = None) -> Contents:
    """The current snapshot of a table by its metadata file.

    known: an earlier one, whose manifests need not be read again. Raises UnsupportedError for tables that zskip would
    read wrongly, and StorageError for metadata that cannot be read.
    """
    metadata = read_metadata(storage, metadata_path)
    places = Places(storage, metadata.location)
    manifests = _read_manifests(storage, metadata, places, () if known is None else known.manifests)
    files = sorted(_live_files(manifests, metadata, places), key=lambda file: file.path)
    paths = {file.path for file in files}
    if len(paths) < len(files):
        raise StorageError(f'the manifests of "{storage.root}" name a file twice; repair them with Iceberg')
    return Contents(storage=storage, metadata=metadata, manifests=manifests, files=tuple(files))


def files_ever(storage: Storage, metadata: TableMetadata) -> set[str]:
    """The places of all files, live or dead, that the manifests of any snapshot name."""
    places = Places(storage, metadata.location)
    reader = _Reader(storage, places)
    with ThreadPoolExecutor(_THREADS) as pool:
        found = pool.map(lambda manifest: reader.entries(manifest, discard_deleted=False), reader.ever(metadata))
        return {places.relative(entry.data_file.file_path) for entries in found for entry in entries}


def manifests_ever(storage: Storage, metadata: TableMetadata) -> set[str]:
    """The places of the manifests of all snapshots, and of the lists of them."""
    places = Places(storage, metadata.location)
    lists = {places.relative(snapshot.manifest_list) for snapshot in metadata.snapshots}
    return lists | {places.relative(m.manifest_path) for m in _Reader(storage, places).ever(metadata)}


def read_metadata(storage: Storage, path: str) -> TableMetadata:
    """The metadata of a table from its file; raises as `read_contents` does."""
    try:
        content = storage.read(path)
    except FileNotFoundError as error:
        raise TableNotFoundError(f'"{storage.uri(path)}" is gone; check the path') from error

    def parse() -> TableMetadata:
        text = gzip.decompress(content) if content.startswith(_GZIP) else content
        described = json.loads(text)
        if not isinstance(described, dict):
            raise ValueError("no JSON object")
        check_raw(storage.root, described)
        metadata = TableMetadataUtil.parse_obj(described)
        check_columns(storage.root, metadata)
        return metadata

    return _explained(storage, path, parse)


def _explained(storage: Storage, path: str, read: Callable[[], _T]) -> _T:
    """What a parser of pyiceberg returns; whatever it stumbles over becomes an error of ours."""
    try:
        return read()
    except ZskipError:
        raise
    except FileNotFoundError as error:
        raise StorageError(
            f'"{storage.uri(path)}" is gone, as after a clean-up of old snapshots; open the table again'
        ) from error
    except Exception as error:
        said = (str(error).splitlines() or [""])[0].rstrip(".")[:200]
        raise StorageError(
            f'cannot read "{storage.uri(path)}" of an Iceberg table ({type(error).__name__}: {said}); '
            "restore it, or roll the table back"
        ) from error


class Places:
    """Turns the absolute paths of a table's metadata into places below its root."""

    def __init__(self, storage: Storage, location: str) -> None:
        self._root = storage.root
        root, said = _plain(storage.root), _plain(location)
        bases = {root}
        same = os.path.realpath(root) == os.path.realpath(said) if root.startswith("/") else _path_of(root) == said
        if same:
            bases.add(said)
        self._bases = tuple(base.rstrip("/") + "/" for base in bases)

    def relative(self, uri: str) -> str:
        """The place of a file below the root; raises UnsupportedError for files that lie elsewhere."""
        plain = _plain(uri)
        for base in self._bases:
            if plain.startswith(base) and ".." not in plain.split("/"):
                return plain[len(base) :]
        raise UnsupportedError(
            f'the Iceberg table "{self._root}" has the file "{uri}" outside of its directory, as where it was copied '
            "or writes to another place; read it with Iceberg itself, or copy it into a new table"
        )


def _plain(uri: str) -> str:
    """A path or URI in the one way in which two of them are compared."""
    if uri.startswith("file:"):
        return "/" + uri.removeprefix("file:").lstrip("/")
    scheme, separator, rest = uri.rstrip("/").partition("://")
    return f"{HADOOP_SCHEMES.get(scheme, scheme)}://{rest}" if separator else uri.rstrip("/")


def _path_of(uri: str) -> str:
    """The path of a URI, as metadata of a cluster's own file system has it."""
    return "/" + uri.partition("://")[2].partition("/")[2]


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
        """Its bytes."""
        return io.BytesIO(self._content)


class _Reader(FileIO):
    """Lets pyiceberg read the metadata below a table's root through the table's own storage."""

    def __init__(self, storage: Storage, places: Places) -> None:
        super().__init__()
        self._storage = storage
        self._places = places

    def new_input(self, location: str) -> InputFile:
        """The manifest, or list of manifests, at an absolute path."""
        content = self._storage.read(self._places.relative(location))
        check_blocks(content)
        return _Bytes(location, content)

    def new_output(self, location: str) -> OutputFile:
        """Refuse to write."""
        raise UnsupportedError(f'zskip does not write "{location}"')

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Refuse to delete."""
        raise UnsupportedError(f'zskip does not delete "{location}"')

    def manifests(self, location: str) -> list[ManifestFile]:
        """Those of a snapshot."""
        path = self._places.relative(location)
        return _explained(self._storage, path, lambda: list(read_manifest_list(self.new_input(location))))

    def ever(self, metadata: TableMetadata) -> list[ManifestFile]:
        """Those of all snapshots."""
        found = {m.manifest_path: m for s in metadata.snapshots for m in self.manifests(s.manifest_list)}
        return list(found.values())

    def entries(self, manifest: ManifestFile, discard_deleted: bool = True) -> list[ManifestEntry]:
        """Those of a manifest, by default those that are live."""

        def read() -> list[ManifestEntry]:
            entries = manifest.fetch_manifest_entry(self, discard_deleted=False)
            check_count(manifest, entries)
            return [e for e in entries if not discard_deleted or e.status != ManifestEntryStatus.DELETED]

        return _explained(self._storage, self._places.relative(manifest.manifest_path), read)


def _read_manifests(
    storage: Storage,
    metadata: TableMetadata,
    places: Places,
    known: Sequence[tuple[ManifestFile, Sequence[ManifestEntry]]],
) -> tuple[tuple[ManifestFile, tuple[ManifestEntry, ...]], ...]:
    snapshot = metadata.current_snapshot()
    if snapshot is None:
        return ()
    reader = _Reader(storage, places)
    manifests = reader.manifests(snapshot.manifest_list)
    read = {manifest.manifest_path: entries for manifest, entries in known}
    with ThreadPoolExecutor(_THREADS) as pool:
        found = pool.map(lambda m: tuple(read.get(m.manifest_path) or reader.entries(m)), manifests)
        return tuple(zip(manifests, found, strict=True))


def _live_files(
    manifests: Sequence[tuple[ManifestFile, Sequence[ManifestEntry]]], metadata: TableMetadata, places: Places
) -> Iterator[Live]:
    imported = metadata.name_mapping() is not None
    deletes: list[ManifestEntry] = []
    files: list[ManifestEntry] = []
    for manifest, entries in manifests:
        if manifest.content == ManifestContent.DELETES:
            deletes += entries
            continue
        files += entries
        spec = _spec_of(metadata, manifest)
        for entry in entries:
            file = entry.data_file
            _check_file(metadata.location, file)
            identity = _identity(spec, file)
            if imported:
                _check_imported(metadata.location, file, identity)
                identity = {}
            yield Live(path=places.relative(file.file_path), data=file, spec=spec.spec_id, identity=identity)
    check_deletes(metadata.location, deletes, files)


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
        what = f"files of the format {file.file_format.value}"
    elif file.key_metadata is not None:
        what = "encrypted files"
    else:
        return
    raise UnsupportedError(
        f'the Iceberg table "{location}" has {what} ("{file.file_path}"), and zskip reads plain Parquet only; '
        "rewrite them with rewrite_data_files, or read it with Iceberg. Nothing was written"
    )


def _identity(spec: PartitionSpec, file: DataFile) -> dict[int, object]:
    """Ids of the columns of which all rows of a file hold one value, and that value."""
    return {
        field.source_id: file.partition[i]
        for i, field in enumerate(spec.fields)
        if isinstance(field.transform, IdentityTransform)
    }


def _check_imported(location: str, file: DataFile, identity: dict[int, object]) -> None:
    """Refuse files of Hive, which hold partition columns in the names of their directories only."""
    for field_id in identity:
        if field_id not in (file.column_sizes or {}) and field_id not in (file.value_counts or {}):
            raise UnsupportedError(
                f'the Iceberg table "{location}" has the file "{file.file_path}", which was migrated and may not hold '
                f"the partition column with the id {field_id}; rewrite it with rewrite_data_files, or read it with "
                "Iceberg. Nothing was written"
            )
