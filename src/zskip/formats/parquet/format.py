"""Plain Parquet: a directory of files, with or without Hive partitions."""

from __future__ import annotations

import copy
import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from zskip.errors import ConflictError, InputError, StorageError, TableNotFoundError, UnsupportedError
from zskip.formats import staging
from zskip.formats.base import APPEND, OVERWRITE, BatchId, StagedFile
from zskip.formats.footers.footer import read_fields
from zskip.formats.hive import infer_partitions, is_hidden
from zskip.formats.parquet import log
from zskip.formats.parquet.sink import SINK_LOG, select_committed
from zskip.formats.table_format import TableFormat
from zskip.records import Bools, Field, Snapshot
from zskip.storage import FileInfo, Storage

_TRIES = 5
_BUCKETED = re.compile(r"_\d+\.c\d{3,}\.|/?part-r-\d{5}-[\da-f-]{36}_\d{5}\.")
"""In the name of a file that is a bucket, as Spark writes and reads it; the latter without its number of files."""
_OVERWRITES = "overwrites"
"""In the info of an entry of the log: whether it has replaced all rows by others."""


class ParquetFormat(TableFormat):
    """Reads and commits a directory of Parquet files."""

    name = "parquet"
    is_plain = True

    def __init__(self, storage: Storage, *, exclusive: bool = False) -> None:
        """exclusive: whether nobody else rewrites the table, as the caller promises."""
        super().__init__(storage)
        self._exclusive = exclusive
        self._first_fields: dict[FileInfo, tuple[Field, ...]] = {}
        """The columns of the first file at the last read."""
        self._refusal: str | None = None
        """Why the directory must not change, as the last listing shows; empty if it may, None before the first."""
        self._directories: frozenset[str] = frozenset()
        """Of the files, at the last listing."""

    def pinned(self) -> ParquetFormat:
        """The same table, whose questions are about the version that its `snapshot` has read last."""
        table = copy.copy(self)
        table._refusal = None
        return table

    def snapshot(self) -> Snapshot:
        """The files that are live now; finishes interrupted rewrites, or reads around them if the table is read-only.

        Raises TableNotFoundError if there are no files, and UnsupportedError for directories that Spark would refuse.
        """
        version, files, directories = self._live_files()
        if not files:
            self._check_directory()
            raise TableNotFoundError(
                f'no Parquet files in "{self._storage.root}"; give the directory that holds the data files'
            )
        ordinals = {d: i for i, d in enumerate(dict.fromkeys(directories))}
        self._directories = frozenset(ordinals)
        partition_fields, partitions = infer_partitions(tuple(ordinals))
        # Values of directories count, not those of a column in the files that has the same name.
        names = {field.name.lower() for field in partition_fields}
        paths, sizes, times, identities = (map(itemgetter(i), files) for i in (0, 1, 2, 4))
        return Snapshot(
            root=self._storage.root,
            version=version,
            fields=tuple(field for field in self._fields(files[0]) if field.name.lower() not in names),
            partition_fields=partition_fields,
            partitions=partitions,
            paths=tuple(paths),
            sizes=np.fromiter(sizes, np.int64, len(files)),
            mtimes_ms=np.fromiter(times, np.int64, len(files)),
            partition_of=np.fromiter(map(ordinals.__getitem__, directories), np.int32, len(files)),
            identities=np.fromiter(identities, np.int64, len(files)),
        )

    def _fields(self, first: FileInfo) -> tuple[Field, ...]:
        fields = self._first_fields.get(first)
        if fields is None:
            fields = read_fields(self._storage, first)
            self._first_fields.clear()
            self._first_fields[first] = fields
        return fields

    def _live_files(self) -> tuple[int, list[FileInfo], list[str]]:
        """The version, the files in path order, and each one's directory, read while the log did not change."""
        for _ in range(_TRIES):
            before = log.versions(self._storage)
            pending, finished = self._finish_pending(before)
            if finished:
                continue
            files = _as_spark_reads([file for file in self._walk() if file.size])
            after_pending = self._apply_pending(pending, files) if pending else None
            if log.versions(self._storage) != before:
                continue
            version = max(before[0], default=0)
            if after_pending is not None:
                after_pending.sort(key=lambda file: file[1].path)
                return version, [file for _, file in after_pending], [directory for directory, _ in after_pending]
            # There may be a million files: nothing is built for each of them but its directory.
            files.sort(key=itemgetter(0))
            return version, files, [file[0].rpartition("/")[0] for file in files]
        raise ConflictError(f'"{self._storage.root}" is being rewritten constantly; try again later')

    def _walk(self) -> list[FileInfo]:
        """All files of the directory, or those of a stream that are committed.

        Raises InputError if it is a partition of a Hudi table.
        """
        marks: set[str] = set()

        def skip(name: str) -> bool:
            if name.startswith(".hoodie_partition_metadata") or name == SINK_LOG:
                marks.add(name)
            return is_hidden(name)

        files = self._storage.walk(skip)
        is_sink = SINK_LOG in marks and self._storage.is_dir(SINK_LOG)
        marks.discard(SINK_LOG)
        if marks:
            raise InputError(
                f'"{self._storage.root}" holds {min(marks)}, so it is a partition of a table of the format hudi; '
                'open the table itself, and ask for the partition with "where"'
            )
        if is_sink:
            self._refusal = (
                f"a stream of Spark writes it, and Spark reads only the files that the log {SINK_LOG} names. Write a "
                f"new table with optimize(into=...), or remove {SINK_LOG} when the stream has ended, which makes all "
                "files rows"
            )
            return select_committed(self._storage, files)
        self._refusal = ""
        if files and all(_BUCKETED.search(file.path) for file in files):
            self._refusal = (
                f'its files are buckets, as the name "{files[0].path}" shows, and Spark joins them by these names. '
                "Write a new table with optimize(into=...), or a bucketed one with Spark"
            )
        return files

    def _check_directory(self) -> None:
        info = self._storage.stat("")
        if info is None:
            raise TableNotFoundError(f'"{self._storage.root}" does not exist; check the path')
        if not info.is_dir:
            raise TableNotFoundError(f'"{self._storage.root}" is a file; give the directory that holds the data files')

    def _finish_pending(self, versions: tuple[list[int], set[int]]) -> tuple[list[log.Entry], bool]:
        """Finish interrupted rewrites; returns those that it could not finish, and whether to read the log again."""
        pending, log_changed = [], False
        for version in versions[0]:
            if version not in versions[1]:
                try:
                    entry = log.read_entry(self._storage, version)
                except FileNotFoundError:
                    # Another process finished it and swept the entry during the listing: the log must be read again.
                    log_changed = True
                    continue
                try:
                    log.finish(self._storage, entry)
                    log_changed = True
                except StorageError:
                    log.check_reachable(self._storage, entry)
                    pending.append(entry)
        return pending, log_changed

    def _apply_pending(self, pending: Sequence[log.Entry], files: list[FileInfo]) -> list[tuple[str, FileInfo]]:
        """The files as the pending rewrites will leave them, each under its current name.

        Each comes with the directory where it belongs.
        """
        live = {file.path: (file.path.rpartition("/")[0], file) for file in files}
        for entry in pending:
            for old in entry.removed:
                current = live.get(old.path)
                if current is not None and current[1].is_unchanged(old.size, old.mtime_ms):
                    del live[old.path]
            for new in entry.added:
                if new.target not in live:
                    info = self._storage.stat(new.staged) or self._storage.stat(new.target)
                    if info is not None:
                        live[new.target] = (new.target.rpartition("/")[0], info)
        return list(live.values())

    def check_replaceable(self) -> None:
        """Raise UnsupportedError for files that only their writer may replace, or if two rewrites might both commit.

        `stage` checks the right to write.
        """
        if self._refusal is None:
            self.snapshot()
        refusal = self._refusal or self._find_link()
        if refusal:
            raise UnsupportedError(f'"{self._storage.root}" must not change: {refusal}. Nothing was written')
        if not self._exclusive and not self._storage.is_exclusive():
            raise UnsupportedError(
                f'"{self._storage.root}" lies in a store that does not say who was first (it knows no conditional '
                "requests, or Hadoop is older than 3.4.2), so that two rewrites at once could lose rows; write a new "
                "table with into=, or promise with exclusive=True that nobody else rewrites it. Nothing was written"
            )

    def last_operation(self) -> tuple[int, Mapping[str, Any]] | None:
        """The version and `info` of the latest rewrite that the log still holds."""
        entries, _ = log.versions(self._storage)
        return (entries[-1], log.read_entry(self._storage, entries[-1]).info) if entries else None

    def find_remains(self, staging_directory: str) -> list[str] | None:
        """No files, or None for a committed rewrite, which the next call finishes."""
        entries = log.list_pending(self._storage)
        pending = {file.staged.rpartition("/")[0] for entry in entries for file in entry.added}
        return None if staging_directory in pending else []

    def snapshot_after(
        self, base: Snapshot, removed: Bools, added: Sequence[StagedFile], version: int
    ) -> Snapshot | None:
        """The live files after a commit of this object: those of `base`, with the new ones in place of the old.

        None where others have committed meanwhile, or there are new partitions.
        """
        numbers = {partition.directory: i for i, partition in enumerate(base.partitions)}
        if version != base.version + 1 or any(file.directory not in numbers for file in added):
            return None
        new = staging.look_at_all(self._storage, [_join(file.directory, file.name) for file in added])
        infos = [info for info in new if info is not None]
        rest = base.select(~removed)
        if len(infos) < len(new) or rest.identities is None:
            return None
        snapshot = dataclasses.replace(
            rest,
            version=version,
            paths=(*rest.paths, *(info.path for info in infos)),
            sizes=np.append(rest.sizes, [info.size for info in infos]).astype(np.int64),
            mtimes_ms=np.append(rest.mtimes_ms, [info.mtime_ms for info in infos]).astype(np.int64),
            partition_of=np.append(rest.partition_of, [numbers[file.directory] for file in added]).astype(np.int32),
            identities=np.append(rest.identities, [info.identity for info in infos]).astype(np.int64),
        )
        return snapshot.take(np.array(sorted(range(len(snapshot)), key=snapshot.paths.__getitem__), np.int64))

    def _find_link(self) -> str:
        """What to do about a directory that lies elsewhere, as its files may be replaced twice; empty without one."""
        parts = {"/".join(path.split("/")[:i]) for path in self._directories for i in range(1, path.count("/") + 2)}
        if self._storage.kind == "disk":
            for directory in sorted(parts - {""}):
                if os.path.islink(self._storage.uri(directory)):
                    return (
                        f'"{directory}" is a link. Write a new table with optimize(into=...), or put the directory '
                        "in place of the link"
                    )
        return ""

    def check_appendable(self, *, overwrites: bool = False) -> None:
        """Raise UnsupportedError, as `check_replaceable` does."""
        self.check_replaceable()

    def last_batch(self, application: str) -> int | None:
        """The version of the latest batch that an application has appended; each entry of the log has it."""
        return self._batches(log.versions(self._storage)[0]).get(application)

    def _batches(self, versions: Sequence[int]) -> Mapping[str, int]:
        return log.read_entry(self._storage, versions[-1]).batches if versions else {}

    def _commit(
        self,
        old: Snapshot,
        added: Sequence[StagedFile],
        info: Mapping[str, Any],
        mode: str,
        batch: BatchId | None = None,
    ) -> int | None:
        """Publish an entry of the log.

        Raises ConflictError if a removed file has changed, or the table was overwritten since an append read it.
        """
        replaced = tuple(
            log.Removed(path=file.path, size=file.size, mtime_ms=file.mtime_ms, identity=file.identity) for file in old
        )
        info = {**info, _OVERWRITES: True} if mode == OVERWRITE else dict(info)
        new = tuple(log.Added(staged=f.path, target=_join(f.directory, f.name), size=f.size) for f in added)
        try:
            staging.check_data_files(file.target for file in new)
        except ValueError as error:
            raise UnsupportedError(f"{error}, since Spark ignores its name; nothing was committed") from error
        for _ in range(_TRIES):
            versions = log.versions(self._storage)
            if self._finish_pending(versions)[0]:
                raise StorageError(
                    f'cannot finish an earlier rewrite of "{self._storage.root}"; see who may write there'
                )
            version = log.next_version(self._storage, versions[0])
            self._check_unchanged(replaced)
            if not replaced:
                self._check_free(new)
            if mode == APPEND:
                self._check_not_overwritten(old.version, versions[0])
            live = self._live_files()[1] if mode == OVERWRITE else ()
            removed = replaced + tuple(log.Removed(path=f.path, size=f.size, mtime_ms=f.mtime_ms) for f in live)
            removed += self._list_summaries(overwrites=mode == OVERWRITE)
            batches = dict(self._batches(versions[0]))
            if batch is not None:
                if batches.get(batch.application, -1) >= batch.version:
                    return None
                batches[batch.application] = batch.version
            entry = log.Entry(version=version, added=new, removed=removed, info=info, batches=batches)
            staging.check_staged(self._storage, added)
            if not log.publish(self._storage, entry):
                continue
            log.finish(self._storage, entry)
            return version
        raise ConflictError(f'"{self._storage.root}" is being rewritten constantly; try again later')

    def _list_summaries(self, *, overwrites: bool) -> tuple[log.Removed, ...]:
        """The files of other programs that a commit makes untrue; overwrites: whether columns may change, too."""
        infos = [self._storage.stat(name) for name in log.SUMMARIES[: 1 + overwrites]]
        return tuple(
            log.Removed(path=info.path, size=info.size, mtime_ms=info.mtime_ms)
            for info in infos
            if info is not None and not info.is_dir
        )

    def _check_not_overwritten(self, since: int, versions: Sequence[int]) -> None:
        """Raise ConflictError if the table has other rows, and maybe other columns, than in an earlier version."""
        newer = [version for version in versions if version > since]
        # The oldest entries are swept, and so may be some of these: what they did is unknown.
        is_unknown = len(newer) >= log.KEEP and newer[0] > since + 1
        if is_unknown or any(log.read_entry(self._storage, version).info.get(_OVERWRITES) for version in newer):
            raise ConflictError(
                f'another writer replaced the rows of "{self._storage.root}" meanwhile; nothing was committed, call '
                "again"
            )

    def _check_free(self, files: Sequence[log.Added]) -> None:
        targets = [file.target for file in files]
        for target, info in zip(targets, staging.look_at_all(self._storage, targets), strict=True):
            if info is not None:
                raise self._conflict(target, "already exists")

    def _check_unchanged(self, files: Sequence[log.Removed]) -> None:
        infos = staging.look_at_all(self._storage, [file.path for file in files])
        for file, info in zip(files, infos, strict=True):
            if info is None or not info.is_unchanged(file.size, file.mtime_ms, file.identity):
                change = "is gone" if info is None else "was changed"
                raise self._conflict(file.path, f"{change} since the rewrite read it")

    def _conflict(self, path: str, reason: str) -> ConflictError:
        return ConflictError(f'"{self._storage.uri(path)}" {reason}; nothing was committed, call again')


def _as_spark_reads(files: list[FileInfo]) -> list[FileInfo]:
    """The files without those below plain directories, if some lie in the root and there are no partitions."""
    has_directories = any("/" in file.path for file in files)
    if not has_directories or any("=" in file.path.rpartition("/")[0] for file in files):
        return files
    in_root = [file for file in files if "/" not in file.path]
    return in_root or files


def _join(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name
