"""What every table format answers, and how it takes commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zskip.formats import staging
from zskip.formats.base import APPEND, HOME, OVERWRITE, REPLACE, BatchId, RowRules, StagedFile
from zskip.records import Bools, Snapshot
from zskip.storage import Storage


class TableFormat:
    """Knows which files of a table are live, and commits rewrites of them, and new files.

    A rewrite calls `check_replaceable` and `stage`, writes files into the staging directory (`list_data_files` lists
    them), and calls `replace`, or `abort` on failure. An append does so with `check_appendable`, `row_rules` and
    `append`, the replacement of all rows by others with `overwrite`. No reader sees any of it before the commit. A
    process that dies at any point leaves the table as before or as after; the next `stage` removes its remains.

    Who commits is the format's choice: zskip, the format's Python package, or the format's own code in the session.
    Questions before work, such as `check_replaceable` and `row_rules`, may be answered for the version that `snapshot`
    gave last; commits look again. A format that zskip only reads refuses in its checks, and needs no `_commit`.
    """

    name: str
    """The name that `format=` takes."""
    home = HOME
    """The directory for zskip's own files, below the table."""
    log_directory: str | None = None
    """The directory in which each commit leaves another file; None where only a listing of all files shows commits."""
    is_plain = False
    """Whether the files in the table's directory are the table, as `spark.read.parquet` reads them."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    @property
    def storage(self) -> Storage:
        """Where the table lies."""
        return self._storage

    @property
    def in_one_thread(self) -> bool:
        """Whether only one thread of a process at a time may rewrite the table."""
        return False

    def pinned(self) -> TableFormat:
        """The same table, whose questions are about the version that its `snapshot` has read last.

        Commits still ask what is live then. This is the same object where the format keeps no version.
        """
        return self

    def snapshot(self) -> Snapshot:
        """The files that are live now, in path order, with columns, partitions and the format's own statistics.

        Raises TableNotFoundError if there is no table, and UnsupportedError for tables that zskip would read wrongly.
        """
        raise NotImplementedError

    def last_operation(self) -> tuple[int, Mapping[str, Any]] | None:
        """The version of zskip's latest known rewrite, and the `info` it was committed with."""
        raise NotImplementedError

    def check_replaceable(self) -> None:
        """Raise UnsupportedError, with the reason and a way out, if `replace` could not commit; reads only."""
        raise NotImplementedError

    def check_appendable(self, *, overwrites: bool = False) -> None:
        """Raise UnsupportedError, with the reason and a way out, if `append` could not commit; reads only.

        overwrites: ask for `overwrite` instead.
        """
        raise NotImplementedError

    def row_rules(self) -> RowRules:
        """What new rows have to keep."""
        return RowRules()

    def last_batch(self, application: str) -> int | None:
        """The version of the latest batch that an application has appended; None if it has appended none."""
        raise NotImplementedError

    def stage(self) -> str:
        """Create a hidden directory for a rewrite's files and sweep those of dead processes; returns its path.

        Raises StorageError if the table is not writable.
        """
        return staging.begin(self._storage, self.abort)

    def find_remains(self, staging_directory: str) -> list[str] | None:
        """The files outside of its staging directory that a rewrite left which was not committed, or only half ended.

        None where everything stays for a later call, since it is unknown whether the rewrite was committed.
        """
        return []

    def abort(self, staging_directory: str) -> None:
        """Remove the files of a rewrite that was not committed, or the remains of one that was."""
        remains = self.find_remains(staging_directory)
        if remains is not None:
            for path in remains:
                self._storage.delete(path)
            staging.end(self._storage, staging_directory)

    def replace(
        self, base: Snapshot, removed: Bools, added: Sequence[StagedFile], info: Mapping[str, Any] | None = None
    ) -> int:
        """Commit the staged files in place of the files of `base` where `removed` is set; returns the new version.

        removed: (files of base,) mask; info: a description of the operation. Both sets of files hold the same rows.
        Raises ConflictError, and changes nothing, if one of the removed files is no longer as it was in `base`.
        """
        version = self._commit(base.select(removed), added, info or {}, REPLACE)
        assert version is not None, "only batches are left out"
        return version

    def append(
        self,
        base: Snapshot,
        added: Sequence[StagedFile],
        info: Mapping[str, Any] | None = None,
        batch: BatchId | None = None,
    ) -> int | None:
        """Commit the staged files beside the live ones, so that readers of changes see an append; returns the version.

        base: the snapshot that has the columns of the files; info: as in `replace`; batch: the files' number. Returns
        None, and changes nothing, if the table holds this batch or a later one of its application. Raises
        ConflictError, and changes nothing, if the columns are no longer those of `base`, InputError for a null in a
        column that must have none.
        """
        return self._commit(_without_files(base), added, info or {}, APPEND, batch)

    def overwrite(self, base: Snapshot, added: Sequence[StagedFile], info: Mapping[str, Any] | None = None) -> int:
        """Commit the staged files, with other rows, in place of all files that are live then; returns the version.

        base, info: as in `append`. Raises as `append` does.
        """
        version = self._commit(_without_files(base), added, info or {}, OVERWRITE)
        assert version is not None, "only batches are left out"
        return version

    def _commit(
        self,
        old: Snapshot,
        added: Sequence[StagedFile],
        info: Mapping[str, Any],
        mode: str,
        batch: BatchId | None = None,
    ) -> int | None:
        """Commit as `replace`, `append` or `overwrite` do; old: the files that a REPLACE removes, in their version."""
        raise NotImplementedError

    def snapshot_after(
        self, base: Snapshot, removed: Bools, added: Sequence[StagedFile], version: int
    ) -> Snapshot | None:
        """The live files after a commit of this object, without another listing; None where only that can tell.

        base: all files of the version before it, of which those in `removed` are gone; version: of the commit. Files
        that others have added meanwhile may be missing.
        """
        return None


def _without_files(snapshot: Snapshot) -> Snapshot:
    return snapshot.select(np.zeros(len(snapshot), np.bool_))
