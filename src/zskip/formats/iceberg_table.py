"""One snapshot of an Iceberg table: its metadata, manifests and live files."""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from pyiceberg.manifest import (
    DataFile,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    read_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.transforms import IdentityTransform

from zskip.errors import StorageError, TableNotFoundError, UnsupportedError, ZskipError
from zskip.formats.base import HADOOP_SCHEMES
from zskip.formats.iceberg_deletes import check_deletes
from zskip.formats.iceberg_protocol import check_columns, check_raw
from zskip.formats.iceberg_values import Live, read_known, spark_schema
from zskip.formats.schema import declared_fields
from zskip.records import Partition, Snapshot
from zskip.storage import Storage

_THREADS = 8
_GZIP = b"\x1f\x8b"

_T = TypeVar("_T")


def read_table(storage: Storage, metadata_path: str) -> Snapshot:
    """The current snapshot of a table by its metadata file.

    Raises UnsupportedError for tables that zskip would read wrongly, and StorageError for metadata that cannot be read.
    """
    metadata = _read_metadata(storage, metadata_path)
    places = _Places(storage, metadata.location)
    files = sorted(_live_files(_Reader(storage, places), metadata, places), key=lambda file: file.path)
    paths = tuple(file.path for file in files)
    if len(set(paths)) < len(paths):
        raise StorageError(f'the manifests of "{storage.root}" name a file twice; repair them with Iceberg')
    schema = metadata.schema()
    data = spark_schema(schema)
    fields = declared_fields(data)
    current = metadata.current_snapshot()
    return Snapshot(
        root=storage.root,
        version=0 if current is None else current.sequence_number or 0,
        fields=fields,
        partition_fields=(),
        partitions=(Partition(directory=""),) * bool(files),
        paths=paths,
        sizes=np.array([file.data.file_size_in_bytes for file in files], np.int64),
        mtimes_ms=np.zeros(len(files), np.int64),
        partition_of=np.zeros(len(files), np.int32),
        declared=(data, json.dumps({"type": "struct", "fields": []})),
        known=read_known(files, schema, fields),
    )


def _read_metadata(storage: Storage, path: str) -> TableMetadata:
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


class _Places:
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

    def __init__(self, storage: Storage, places: _Places) -> None:
        super().__init__()
        self._storage = storage
        self._places = places

    def new_input(self, location: str) -> InputFile:
        """The file at an absolute path."""
        return _Bytes(location, self._storage.read(self._places.relative(location)))

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

    def entries(self, manifest: ManifestFile) -> list[ManifestEntry]:
        """Those that are live."""
        path = self._places.relative(manifest.manifest_path)
        return _explained(self._storage, path, lambda: manifest.fetch_manifest_entry(self))


def _live_files(reader: _Reader, metadata: TableMetadata, places: _Places) -> Iterator[Live]:
    snapshot = metadata.current_snapshot()
    if snapshot is None:
        return
    manifests = reader.manifests(snapshot.manifest_list)
    imported = metadata.name_mapping() is not None
    deletes, files = [], []
    with ThreadPoolExecutor(_THREADS) as pool:
        for manifest, entries in zip(manifests, pool.map(reader.entries, manifests), strict=True):
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
                yield Live(path=places.relative(file.file_path), data=file, identity=identity)
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
