"""Plain Parquet: a directory of files, Hive partitions included."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from zskip.errors import ConflictError, InputError, StorageError, TableNotFoundError, UnsupportedError
from zskip.formats import staging
from zskip.formats.base import HOME, StagedFile
from zskip.formats.hive import is_hidden, partitions_of
from zskip.formats.parquet import log
from zskip.formats.schema import read_fields
from zskip.records import Bools, Field, Partition, Snapshot
from zskip.storage import FileInfo, Storage

_TRIES = 5

Partitioner = Callable[[Sequence[str]], tuple[tuple[Field, ...], tuple[Partition, ...]]]
"""Directories to partition columns and, in the same order, partitions."""


class ParquetFormat:
    """Reads and commits a directory of Parquet files."""

    name = "parquet"
    home = HOME

    def __init__(
        self,
        storage: Storage,
        *,
        partitioner: Partitioner = partitions_of,
        exclusive: bool = False,
    ) -> None:
        """alone: whether nobody else rewrites the table, as whoever asks for a rewrite promises."""
        self._exclusive = exclusive
        self._storage = storage
        self._partitioner = partitioner
        self._seen: tuple[FileInfo, tuple[Field, ...]] | None = None
        """The first file, and its columns, when they were read last."""

    def snapshot(self) -> Snapshot:
        """The live files now; finishes a rewrite that was cut short, or reads around it where it may not write.

        Raises TableNotFoundError where there is nothing, UnsupportedError for directories that Spark would refuse.
        """
        version, files, directories = self._live_files()
        if not files:
            self._check_directory()
            raise TableNotFoundError(
                f'no Parquet files in "{self._storage.root}"; give the directory that holds the data files'
            )
        ordinals = {d: i for i, d in enumerate(dict.fromkeys(directories))}
        partition_fields, partitions = self._partitioner(tuple(ordinals))
        paths, sizes, times = (map(itemgetter(i), files) for i in range(3))
        return Snapshot(
            root=self._storage.root,
            version=version,
            fields=self._fields(files[0]),
            partition_fields=partition_fields,
            partitions=partitions,
            paths=tuple(paths),
            sizes=np.fromiter(sizes, np.int64, len(files)),
            mtimes_ms=np.fromiter(times, np.int64, len(files)),
            partition_of=np.fromiter(map(ordinals.__getitem__, directories), np.int32, len(files)),
        )

    def _fields(self, first: FileInfo) -> tuple[Field, ...]:
        if self._seen is None or self._seen[0] != first:
            self._seen = first, read_fields(self._storage, first)
        return self._seen[1]

    def _live_files(self) -> tuple[int, list[FileInfo], list[str]]:
        """The version, the files by path, and where each of them belongs; read between two equal looks at the log."""
        for _ in range(_TRIES):
            before = log.versions(self._storage)
            pending, finished = self._settle(before)
            if finished:
                continue
            files = [file for file in self._walk() if file.size]
            moved = self._as_after(pending, files) if pending else None
            if log.versions(self._storage) != before:
                continue
            version = max(before[0], default=0)
            if moved is not None:
                moved.sort(key=lambda file: file[1].path)
                return version, [file for _, file in moved], [directory for directory, _ in moved]
            # There may be a million: nothing is made for each of them but its directory.
            files.sort(key=itemgetter(0))
            return version, files, [file[0].rpartition("/")[0] for file in files]
        raise ConflictError(f'"{self._storage.root}" is rewritten over and over at this moment; try again later')

    def _walk(self) -> list[FileInfo]:
        """All files of the directory; raises InputError where it is a partition of a Hudi table."""
        seen: set[str] = set()

        def skip(name: str) -> bool:
            if name.startswith(".hoodie_partition_metadata"):
                seen.add(name)
            return is_hidden(name)

        found = self._storage.walk(skip)
        if seen:
            raise InputError(
                f'"{self._storage.root}" holds {min(seen)}, so it is a partition of a table of the format hudi; open '
                'the table itself, and ask for the partition with "where"'
            )
        return found

    def _check_directory(self) -> None:
        found = self._storage.stat("")
        if found is None:
            raise TableNotFoundError(f'"{self._storage.root}" does not exist; check the path')
        if not found.is_dir:
            raise TableNotFoundError(f'"{self._storage.root}" is a file; give the directory that holds the data files')

    def _settle(self, versions: tuple[list[int], set[int]]) -> tuple[list[log.Entry], bool]:
        """Finish rewrites that were cut short; returns those that it may not finish, and whether it finished any."""
        pending, finished = [], False
        for version in versions[0]:
            if version not in versions[1]:
                try:
                    entry = log.read_entry(self._storage, version)
                except FileNotFoundError:
                    # Done, and swept with its mark while the log was being listed: it is to be looked at again.
                    finished = True
                    continue
                try:
                    log.finish(self._storage, entry)
                    finished = True
                except StorageError:
                    log.check_reachable(self._storage, entry)
                    pending.append(entry)
        return pending, finished

    def _as_after(self, pending: Sequence[log.Entry], files: list[FileInfo]) -> list[tuple[str, FileInfo]]:
        """The files as they will be when the pending rewrites are finished, each under the name it has now.

        Each has the directory where it belongs.
        """
        live = {file.path: (file.path.rpartition("/")[0], file) for file in files}
        for entry in pending:
            for old in entry.removed:
                found = live.get(old.path)
                if found is not None and found[1].is_unchanged(old.size, old.mtime_ms):
                    del live[old.path]
            for new in entry.added:
                if new.target not in live:
                    found_now = self._storage.stat(new.staged) or self._storage.stat(new.target)
                    if found_now is not None:
                        live[new.target] = (new.target.rpartition("/")[0], found_now)
        return list(live.values())

    def check_replaceable(self) -> None:
        """Raise UnsupportedError where of two rewrites at once both might commit; `stage` says who may not write."""
        if not self._exclusive and not self._storage.is_exclusive():
            raise UnsupportedError(
                f'"{self._storage.root}" lies in a store that does not say who was first (it knows no conditional '
                "requests, or Hadoop is older than 3.4.2), so that two rewrites at once could lose rows; write a new "
                "table with into=, or promise with exclusive=True that nobody else rewrites it. Nothing was written"
            )

    def stage(self) -> str:
        """Make a hidden directory for a rewrite's files and sweep those of dead processes; returns its path.

        Raises StorageError where the table may not be written.
        """
        return staging.begin(self._storage, self.abort)

    def last_operation(self) -> tuple[int, Mapping[str, Any]] | None:
        """Version of the latest rewrite that the log still holds, and what it said of itself."""
        entries, _ = log.versions(self._storage)
        return (entries[-1], log.read_entry(self._storage, entries[-1]).info) if entries else None

    def abort(self, staging_directory: str) -> None:
        """Remove the files of a rewrite that was not committed; one that was, is left for the next call to finish."""
        if staging_directory not in self._committed():
            self._storage.delete(staging_directory)

    def _committed(self) -> set[str]:
        """Staging directories whose files are live already, though not yet in their places."""
        return {file.staged.rpartition("/")[0] for entry in log.pending(self._storage) for file in entry.added}

    def replace(
        self, base: Snapshot, removed: Bools, added: Sequence[StagedFile], info: Mapping[str, Any] | None = None
    ) -> int:
        """Commit a rewrite: the staged files instead of those of `base` where `removed` is set.

        removed: (files of base,) mask. Returns the new version. Raises ConflictError, and changes nothing, where one
        of the removed files was changed since `base` was read.
        """
        old = tuple(
            log.Removed(path=file.path, size=file.size, mtime_ms=file.mtime_ms) for file in base.select(removed)
        )
        new = tuple(
            log.Added(staged=f.path, target=_join(f.directory, f.path.rpartition("/")[2]), size=f.size) for f in added
        )
        for _ in range(_TRIES):
            versions = log.versions(self._storage)
            if self._settle(versions)[0]:
                raise StorageError(
                    f'cannot finish an earlier rewrite of "{self._storage.root}"; see who may write there'
                )
            version = max(versions[0], default=0) + 1
            self._check_unchanged(old)
            entry = log.Entry(version=version, added=new, removed=old, info=dict(info or {}))
            try:
                log.publish(self._storage, entry)
            except FileExistsError:
                continue
            log.finish(self._storage, entry)
            return version
        raise ConflictError(f'"{self._storage.root}" is rewritten over and over at this moment; try again later')

    def _check_unchanged(self, files: Sequence[log.Removed]) -> None:
        for file in files:
            found = self._storage.stat(file.path)
            if found is None or not found.is_unchanged(file.size, file.mtime_ms):
                what = "is gone" if found is None else "was changed"
                raise ConflictError(
                    f'"{self._storage.uri(file.path)}" {what} since the rewrite read it; '
                    "nothing was committed, call again"
                )


def _join(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name
