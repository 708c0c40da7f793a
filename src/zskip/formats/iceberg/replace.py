"""Snapshots of the operation `replace`, which pyiceberg does not support itself, and those that add existing files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from uuid import UUID

from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.table import TableProperties, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, SnapshotSummaryCollector, Summary, update_snapshot_summaries
from pyiceberg.table.update import (
    AssertCurrentSchemaId,
    AssertTableUUID,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.table.update.snapshot import _SnapshotProducer
from pyiceberg.typedef import EMPTY_DICT, Record
from pyiceberg.utils.properties import property_as_bool, property_as_int

from zskip.formats.base import APPEND, OVERWRITE, REPLACE
from zskip.formats.iceberg.commit import Rewrite
from zskip.formats.iceberg.table import Contents
from zskip.formats.iceberg.values import LiveFile

_LIMITS = (
    (TableProperties.MANIFEST_MIN_MERGE_COUNT, TableProperties.MANIFEST_MIN_MERGE_COUNT_DEFAULT),
    (TableProperties.MANIFEST_TARGET_SIZE_BYTES, TableProperties.MANIFEST_TARGET_SIZE_BYTES_DEFAULT),
)
"""Properties of the fewest manifests that are merged, and of the most bytes of one, with Iceberg's defaults."""
_MOST_PARTITIONS = TableProperties.WRITE_PARTITION_SUMMARY_LIMIT, TableProperties.WRITE_PARTITION_SUMMARY_LIMIT_DEFAULT


class NoChanges(Transaction):
    """A transaction without changes; pyiceberg asks one for the metadata some 15 times, and copies it each time."""

    @property
    def table_metadata(self) -> TableMetadata:
        """The table's."""
        return self._table.metadata


class ReplaceFiles(_SnapshotProducer["ReplaceFiles"]):
    """One attempt at a rewrite, on top of the metadata that a table was loaded with."""

    def __init__(self, transaction: Transaction, contents: Contents, rewrite: Rewrite, commit_uuid: UUID) -> None:
        # pyiceberg counts files for the summary of three operations; `replace` is not among them.
        operation = Operation.APPEND if rewrite.mode == APPEND else Operation.OVERWRITE
        super().__init__(
            operation,
            transaction,
            transaction._table.io,
            commit_uuid,
            snapshot_properties=rewrite.summary,
            branch=rewrite.branch or MAIN_BRANCH,
        )
        self._contents = contents
        self._rewrite = rewrite
        paths, removes_all = set(rewrite.old.paths), rewrite.mode == OVERWRITE
        self._removed = {f.data.file_path: f for f in contents.files if removes_all or f.path in paths}
        self._deleted_data_files = {live.data for live in self._removed.values()}
        self._added = self._new_files({live.path: live for live in self._removed.values()})
        self._added_data_files = [file for files in self._added.values() for file in files]

    def _new_files(self, removed: Mapping[str, LiveFile]) -> dict[int, list[DataFile]]:
        """The new files, by the specs of the files that they replace."""
        old, location = self._rewrite.old, self._contents.metadata.location.rstrip("/")
        spec_and_partition: dict[str, tuple[int, Record]] = {}
        for i, path in enumerate(old.paths):
            live = removed[path]
            spec_and_partition[old.partitions[old.partition_of[i]].directory] = live.spec, live.data.partition
        new_files: dict[int, list[DataFile]] = defaultdict(list)
        if self._rewrite.mode != REPLACE:
            # pyiceberg's catalogs take new rows of unpartitioned tables only.
            spec_and_partition[""] = self._rewrite.spec, Record()
        for file in self._rewrite.new:
            spec, partition = spec_and_partition[file.staged.directory]
            data_file = DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=f"{location}/{file.target}",
                file_format=FileFormat.PARQUET,
                partition=partition,
                file_size_in_bytes=file.staged.size,
                key_metadata=None,
                equality_ids=None,
                sort_order_id=None,
                **file.metrics,
            )
            data_file.spec_id = spec
            new_files[spec].append(data_file)
        return new_files

    def prepare(self) -> tuple[tuple[TableUpdate, ...], tuple[TableRequirement, ...]]:
        """Write manifests; returns the catalog's updates, and its requirements for them."""
        metadata = self._contents.metadata
        updates, requirements = self._commit()
        schema = AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id)  # type: ignore[call-arg]
        return updates, (AssertTableUUID(uuid=metadata.table_uuid), schema, *requirements)

    def discard(self) -> None:
        """Remove the files of an attempt that was not committed."""
        self._clean_all_uncommitted()

    def _summary(self, snapshot_properties: dict[str, str] = EMPTY_DICT) -> Summary:
        """What the commit changes, and the totals; pyiceberg's own takes all new files for some of the newest spec."""
        metadata = self._transaction.table_metadata
        specs, schema = metadata.specs(), metadata.schema()
        counts = SnapshotSummaryCollector(property_as_int(metadata.properties, *_MOST_PARTITIONS) or 0)
        for file in self._added_data_files:
            counts.add_file(file, schema, specs[file.spec_id])
        for file in self._deleted_data_files:
            counts.remove_file(file, schema, specs[file.spec_id])
        before = None if self._parent_snapshot_id is None else metadata.snapshot_by_id(self._parent_snapshot_id)
        summary = update_snapshot_summaries(
            Summary(self._operation, **counts.build(), **snapshot_properties),
            None if before is None else before.summary,
        )
        if self._rewrite.mode != REPLACE:
            return summary
        return Summary(Operation.REPLACE, **summary.additional_properties)

    def _manifests(self) -> list[ManifestFile]:
        added = [
            self._write(spec, [self._new_entry(ManifestEntryStatus.ADDED, file) for file in files])
            for spec, files in self._added.items()
        ]
        deleted: dict[int, list[ManifestEntry]] = defaultdict(list)
        for entry in self._deleted_entries():
            deleted[entry.data_file.spec_id].append(entry)
        removed = [self._write(spec, entries) for spec, entries in deleted.items()]
        return [*added, *removed, *self._merge(self._existing_manifests())]

    def _merge(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """Make one of many small manifests, as Iceberg's own commits do: readers open each by itself."""
        properties = self._contents.metadata.properties
        if not property_as_bool(properties, TableProperties.MANIFEST_MERGE_ENABLED, True):
            return manifests
        fewest, most = (property_as_int(properties, name, default) or default for name, default in _LIMITS)
        entries = {manifest.manifest_path: each for manifest, each in self._contents.manifests}
        groups: dict[tuple[int, int], list[ManifestFile]] = defaultdict(list)
        filled: dict[int, int] = defaultdict(int)
        for manifest in manifests:
            spec, size = manifest.partition_spec_id, manifest.manifest_length
            if manifest.content == ManifestContent.DATA and manifest.manifest_path in entries and size < most:
                groups[spec, filled[spec] // most].append(manifest)
                filled[spec] += size
        merged = {key: group for key, group in groups.items() if len(group) >= fewest}
        gone = {manifest.manifest_path for group in merged.values() for manifest in group}
        kept = [manifest for manifest in manifests if manifest.manifest_path not in gone]
        new = [
            self._write_existing(spec, [entry for manifest in group for entry in entries[manifest.manifest_path]])
            for (spec, _), group in merged.items()
        ]
        return [*new, *kept]

    def _write_existing(self, spec: int, entries: Sequence[ManifestEntry]) -> ManifestFile:
        return self._write(spec, [self._copy_entry(ManifestEntryStatus.EXISTING, entry) for entry in entries])

    def _deleted_entries(self) -> list[ManifestEntry]:
        return [
            self._copy_entry(ManifestEntryStatus.DELETED, entry)
            for manifest, entries in self._contents.manifests
            for entry in entries
            if self._is_removed(manifest, entry)
        ]

    def _existing_manifests(self) -> list[ManifestFile]:
        """Manifests without the removed files; unaffected manifests stay as they are."""
        manifests = []
        for manifest, entries in self._contents.manifests:
            kept = [entry for entry in entries if not self._is_removed(manifest, entry)]
            if len(kept) == len(entries):
                manifests += [manifest] if entries else []
            elif kept:
                manifests.append(self._write_existing(manifest.partition_spec_id, kept))
        return manifests

    def _is_removed(self, manifest: ManifestFile, entry: ManifestEntry) -> bool:
        return manifest.content == ManifestContent.DATA and entry.data_file.file_path in self._removed

    def _new_entry(self, status: ManifestEntryStatus, file: DataFile) -> ManifestEntry:
        return ManifestEntry.from_args(
            status=status,
            snapshot_id=self._snapshot_id,
            sequence_number=None,
            file_sequence_number=None,
            data_file=file,
        )

    def _copy_entry(self, status: ManifestEntryStatus, entry: ManifestEntry) -> ManifestEntry:
        return ManifestEntry.from_args(
            status=status,
            snapshot_id=self._snapshot_id if status == ManifestEntryStatus.DELETED else entry.snapshot_id,
            sequence_number=entry.sequence_number,
            file_sequence_number=entry.file_sequence_number,
            data_file=entry.data_file,
        )

    def _write(self, spec_id: int, entries: list[ManifestEntry]) -> ManifestFile:
        with self.new_manifest_writer(self.spec(spec_id)) as writer:
            for entry in entries:
                writer.add_entry(entry)
        return writer.to_manifest_file()
