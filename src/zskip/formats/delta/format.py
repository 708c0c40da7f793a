"""Delta tables through `deltalake`, without a JVM: the log's live files, and one transaction for a rewrite."""

from __future__ import annotations

import dataclasses
import json
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from zskip.errors import (
    ConflictError,
    StorageError,
    UnsupportedError,
    ZskipError,
    ZskipWarning,
)
from zskip.formats import staging
from zskip.formats.base import APPEND, OVERWRITE, REPLACE, BatchId, RowRules, StagedFile
from zskip.formats.commit_checks import check_live
from zskip.formats.delta.columns import sound_fields, stored_paths
from zskip.formats.delta.commit import (
    NewFile,
    commit_transaction,
    committed_version,
    describe_files,
    is_checkpoint_due,
    read_last_rewrite,
    write_checkpoint,
)
from zskip.formats.delta.deletes import deleted_files, read_deletes
from zskip.formats.delta.log import SessionLog
from zskip.formats.delta.opening import open_table, translating_errors
from zskip.formats.delta.protocol import (
    check_in_log,
    read_by_delta,
    refusal,
    unknown_to_session,
    unreadable,
    unwritable,
)
from zskip.formats.delta.rules import unappendable
from zskip.formats.delta.values import (
    check_partition_types,
    hide_unsure_types,
    read_partitions,
    read_statistics,
    relative_path,
    unsure_partitions,
)
from zskip.formats.delta.version import LogVersion
from zskip.formats.schema import fields_from_json, first_line
from zskip.formats.table_format import TableFormat
from zskip.records import Bools, ColumnNames, Reading, Snapshot
from zskip.storage import Storage

if TYPE_CHECKING:
    from deltalake import DeltaTable

_KEPT_METADATA = ("__CHAR_VARCHAR_TYPE_STRING", "__COLLATIONS")
"""Column metadata that is kept; the rest concerns writers, or would stop Spark from finding columns by name."""
_MANIFESTS = "_symlink_format_manifest"
"""The directory of manifests that list live files, for engines that do not read Delta's log, such as Athena."""
_TRIES = 50
_ACTIONS = {REPLACE: "rewrite", APPEND: "append to", OVERWRITE: "overwrite"}


class DeltaFormat(TableFormat):
    """Reads and commits a Delta table."""

    name = "delta"
    log_directory = "_delta_log"

    def __init__(self, storage: Storage, log: SessionLog | None = None) -> None:
        """log: of a session with Delta Lake, for tables that zskip would read or change wrongly itself."""
        super().__init__(storage)
        self._log = log
        self._last: LogVersion | None = None
        self._table: DeltaTable | None = None
        """The log as the last commit has read it."""

    def pinned(self) -> DeltaFormat:
        """The same table, whose questions are about the version that its `snapshot` has read last."""
        return DeltaFormat(self._storage, self._log)

    def snapshot(self) -> Snapshot:
        """The live files of the newest version, with the log's statistics.

        Raises TableNotFoundError if there is no log, and UnsupportedError for protocol features that zskip would read
        wrongly.
        """
        snapshot, self._last = self._read(self._open())
        return snapshot

    def log_version(self, number: int | None = None) -> LogVersion:
        """What a version says beside its files; by default that of the last snapshot, if there was one."""
        last = self._last
        if last is None and number is None:
            _, last = self._read(self._open())
        if last is None or number not in (None, last.number):
            last = LogVersion.of(self._open(version=number))
        return last

    def _open(self, *, skip_stats: bool = False, version: int | None = None) -> DeltaTable:
        table = open_table(self._storage, skip_stats=skip_stats, version=version)
        check_in_log(self._storage.root, table.protocol(), table.metadata().configuration)
        return table

    def _read(self, table: DeltaTable) -> tuple[Snapshot, LogVersion]:
        root, unknown = self._storage.root, unreadable(table.protocol())
        if unknown is not None and self._log is None:
            raise refusal(root, "read", unknown)
        table, actions = self._actions(table)
        paths = [relative_path(path, root) for path in actions["path"].to_pylist()]
        order = sorted(range(len(paths)), key=paths.__getitem__)
        actions = actions.take(pa.array(order, pa.int64()))
        deleted = deleted_files(table, root, [paths[i] for i in order])
        version = LogVersion.of(table, deleted)
        data, partition = _schemas(version)
        fields, partition_fields = fields_from_json(data), hide_unsure_types(fields_from_json(partition))
        partitions, partition_of = read_partitions(root, actions, partition_fields)
        stored, known = stored_paths(version.schema_json, version.mapping_mode), None
        if unknown is None:
            known = read_statistics(actions, sound_fields(fields, version.schema_json), stored)
        snapshot = Snapshot(
            root=root,
            version=version.number,
            fields=fields,
            partition_fields=partition_fields,
            partitions=partitions,
            paths=tuple(paths[i] for i in order),
            sizes=actions["size_bytes"].to_numpy().astype(np.int64),
            mtimes_ms=actions["modification_time"].to_numpy().astype(np.int64),
            partition_of=partition_of,
            known=known,
            reading=Reading(
                feature=unknown or version.read_by_delta or unsure_partitions(partition_fields),
                opaque=unknown is not None,
                deleted=deleted,
                read_deletes=None if deleted is None else lambda: read_deletes(table, root),
                declared=(data, partition),
                names=ColumnNames(paths=stored),
                version_as_of=str(version.number),
            ),
        )
        return snapshot, version

    def _actions(self, table: DeltaTable) -> tuple[DeltaTable, pa.Table]:
        """The log's live files; read without statistics if those are malformed."""
        from deltalake.exceptions import DeltaError

        try:
            return table, pa.table(table.get_add_actions())
        except DeltaError:
            table = self._open(skip_stats=True)
            with translating_errors(self._storage.root):
                return table, pa.table(table.get_add_actions())

    def check_replaceable(self) -> None:
        """Raise UnsupportedError if the table asks more of a rewrite than zskip keeps, or nobody here can commit."""
        self._choose_log(self.log_version(), REPLACE)

    def check_appendable(self, *, overwrites: bool = False) -> None:
        """Raise UnsupportedError if the table asks more of new rows than zskip checks, or nobody here can commit."""
        self._choose_log(self.log_version(), OVERWRITE if overwrites else APPEND)

    def _choose_log(self, version: LogVersion, mode: str) -> SessionLog | None:
        """Choose who commits: the session's Delta Lake, or zskip itself for None; raises UnsupportedError."""
        root, protocol, configuration = self._storage.root, version.protocol, version.configuration
        if mode == OVERWRITE and str(configuration.get("delta.appendOnly")).lower() == "true":
            raise UnsupportedError(
                f'rows may only be appended to the Delta table "{root}" (delta.appendOnly); append, or '
                "unset that property. Nothing was written"
            )
        check_partition_types(root, fields_from_json(_schemas(version)[1]))
        rule = None if mode == REPLACE else unappendable(version.schema_json)
        if rule is not None:
            raise _unappendable(root, rule)
        feature = unwritable(protocol) or unreadable(protocol) or read_by_delta(protocol, configuration)
        if feature is None and mode != APPEND:
            feature = version.read_by_delta
        if feature is None:
            return None
        unknown = unknown_to_session(protocol)
        if unknown is not None and mode != REPLACE:
            raise _unappendable(root, unknown)
        if unknown is not None:
            raise UnsupportedError(
                f'zskip cannot rewrite the Delta table "{root}", which uses {unknown}: zskip does not know what its '
                "files have to be. Cluster it with Delta's own OPTIMIZE. Nothing was written"
            )
        if self._log is None:
            raise refusal(root, _ACTIONS[mode], feature)
        self._log.check()
        return self._log

    def row_rules(self) -> RowRules:
        """NOT NULL, constraints, computed columns, and the names of mapped columns in files."""
        return self.log_version().rules

    def last_batch(self, application: str) -> int | None:
        """The version of the latest transaction of an application in the log."""
        return self._open().transaction_version(application)

    def snapshot_after(
        self, base: Snapshot, removed: Bools, added: Sequence[StagedFile], version: int
    ) -> Snapshot | None:
        """The live files after a commit of this object, from the log that it has read and the entries since."""
        if self._table is None:
            return None
        with translating_errors(self._storage.root):
            self._table.update_incremental()
        if self._table.version() < version:
            return None
        snapshot, self._last = self._read(self._table)
        return snapshot

    def _commit(
        self,
        old: Snapshot,
        added: Sequence[StagedFile],
        info: Mapping[str, Any],
        mode: str,
        batch: BatchId | None = None,
    ) -> int | None:
        """Move the files to their targets, where no reader looks for them, and commit them in one transaction.

        That of a REPLACE has no data change.
        """
        last, by = self.log_version(old.version), info.get("by", ())
        required = None if mode == REPLACE else last.rules.required
        new = describe_files(self._storage, old, added, last.configuration, by, required, last.paths_in_new_files)
        staging_directory = added[0].path.rpartition("/")[0] if added else self.stage()
        moves = [(file.staged.path, file.target) for file in new]
        staging.move(self._storage, staging_directory, moves, {"version": old.version})
        name = staging_directory.rpartition("/")[2]
        version = self._write_version(old, new, name, info, mode, batch)
        if version is not None:
            staging.end(self._storage, staging_directory)
            self._update_manifests()
        return version

    def _update_manifests(self) -> None:
        """Let the manifests by which other engines read the table name its files; warns where nobody here can."""
        root = self._storage.root
        if not self._storage.is_dir(_MANIFESTS):
            return
        reason = "no Delta Lake is loaded here"
        if self._log is not None:
            try:
                self._log.write_manifests()
                return
            except ZskipError as error:
                reason = str(error)
        warnings.warn(
            f'the manifests in "{root}/{_MANIFESTS}" still name the files of an older version, which other engines '
            f"then read ({reason}); run GENERATE symlink_format_manifest FOR TABLE delta.`{root}` in a session with "
            "Delta Lake",
            ZskipWarning,
            stacklevel=8,
        )

    def _write_version(
        self,
        base: Snapshot,
        new: Sequence[NewFile],
        rewrite: str,
        info: Mapping[str, Any],
        mode: str,
        batch: BatchId | None,
    ) -> int | None:
        from deltalake.exceptions import DeltaError

        root = self._storage.root
        newest = self._open()
        for _ in range(_TRIES):
            self._table = table = newest
            current, version = self._read(table)
            log = self._choose_log(version, mode)
            old = dataclasses.replace(current, version=base.version) if mode == OVERWRITE else base
            check_live(current, old)
            if current.reading.declared != base.reading.declared or current.reading.names != base.reading.names:
                raise ConflictError(
                    f'the columns of "{root}" were changed meanwhile; nothing was committed, call again'
                )
            if mode != REPLACE:
                self._check_rules(version, base.version)
            if batch is not None:
                last = table.transaction_version(batch.application)
                if last is not None and last >= batch.version:
                    return None
            try:
                if log is not None:
                    files = old if mode == REPLACE else current
                    return log.commit(files, new, rewrite, info, mode=mode, batch=batch)
                commit_transaction(table, self._storage, old, new, rewrite, info, mode=mode, batch=batch)
            except (DeltaError, OSError, ConflictError, StorageError) as error:
                # A failed call may have committed all the same: only the log knows.
                newest = self._open()
                with translating_errors(root):
                    number = committed_version(newest, rewrite, base.version)
                if number is not None:
                    return number
                # Delta Lake itself tries again after a commit of another writer that changes nothing here.
                if mode == REPLACE if log is not None else isinstance(error, ZskipError):
                    raise
                if newest.version() == current.version:
                    raise StorageError(f'cannot commit to "{root}": {first_line(error)}') from error
                continue
            if is_checkpoint_due(table, current.version + 1):
                write_checkpoint(self._storage, current.version + 1)
            return current.version + 1
        raise ConflictError(f'"{root}" is being written to constantly; nothing was committed, try again')

    def _check_rules(self, version: LogVersion, since: int) -> None:
        """Raise ConflictError if a version asks other things of new rows than the one that they were checked for."""
        if version.number != since and version.rules != self.log_version(since).rules:
            raise ConflictError(
                f'the rules for rows of "{self._storage.root}" were changed meanwhile; nothing was committed, '
                "call again"
            )

    def find_remains(self, staging_directory: str) -> list[str] | None:
        """The files that were moved; everything stays if the log cannot be read."""
        return staging.find_remains(self._storage, staging_directory, self._find_dead, ("version",))

    def _find_dead(self, rewrite: str, note: Mapping[str, Any]) -> list[str]:
        table, root = self._open(), self._storage.root
        with translating_errors(root):
            if committed_version(table, rewrite, note["version"]) is not None:
                return []
        live = {relative_path(path, root) for path in self._actions(table)[1]["path"].to_pylist()}
        return [path for path in note["targets"] if path not in live]

    def last_operation(self) -> tuple[int, Mapping[str, Any]] | None:
        """The version and info of zskip's latest rewrite in the log."""
        table = self._open()
        with translating_errors(self._storage.root):
            return read_last_rewrite(table)


def _unappendable(root: str, reason: str) -> UnsupportedError:
    return UnsupportedError(
        f'zskip cannot append to the Delta table "{root}", which has {reason}: only Delta Lake keeps that for new '
        'rows. Append with df.write.format("delta").mode("append"), and let maintain() put the new rows in order. '
        "Nothing was written"
    )


def _schemas(version: LogVersion) -> tuple[str, str]:
    """Spark's JSON of the columns in the files, and of the partition columns in their order."""
    columns = {field["name"]: field for field in json.loads(version.schema_json)["fields"]}
    for field in columns.values():
        field["nullable"] = True
        field["metadata"] = {k: v for k, v in field.get("metadata", {}).items() if k in _KEPT_METADATA}
    data = [field for name, field in columns.items() if name not in version.partition_columns]
    partition = [columns[name] for name in version.partition_columns]
    # deltalake gives the metadata of fields in another order each time.
    texts = [json.dumps({"type": "struct", "fields": fields}, sort_keys=True) for fields in (data, partition)]
    return texts[0], texts[1]
