"""The protocol of a table format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from zskip.records import Bools, Snapshot

HOME = "_zskip"
"""The directory for zskip's own files in a table, except in formats that have a place of their own for metadata."""
OPERATIONS = f"{HOME}/operations"
"""Records of zskip's operations on a table."""
STAGED = ".staged"
"""The ending of a data file until its commit: programs that read every `*.parquet` below a directory pass it over."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StagedFile:
    """A file written for a rewrite but not yet committed."""

    path: str
    """Relative to the table."""
    directory: str
    """The directory of its Hive partition, relative to the table."""
    size: int
    """Bytes."""

    @property
    def name(self) -> str:
        """The name of the file once it is committed."""
        return self.path.rpartition("/")[2].removesuffix(STAGED)


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchId:
    """A writer's own number of a batch of rows, as in the transaction ids of Delta's log."""

    application: str
    """The name of the writer, such as a streaming query."""
    version: int
    """Grows from batch to batch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowRules:
    """What a table asks of new rows, and how files name its columns."""

    required: Sequence[str] = ()
    """The columns that must not be null."""
    given: Mapping[str, str] = field(default_factory=dict)
    """Columns that rows must have, since only the format's own writer would compute them: what they are, by name."""
    checks: Mapping[str, str] = field(default_factory=dict)
    """Conditions in Spark's SQL that must be true of each row, by their names in messages."""
    partitions: Mapping[str, str] = field(default_factory=dict)
    """Partition values that are no columns, as expressions in Spark's SQL, by their names in `StagedFile.directory`."""
    stored: str | None = None
    """The columns of files, in Spark's JSON, with their names and ids there; None for the table's own names."""


class TableFormat(Protocol):
    """Knows which files of a table are live, and commits rewrites of them, and new files.

    An append works as a rewrite does, with `check_appendable`, `row_rules` and `append`. So does the replacement of
    all rows by others, with `check_appendable`, `row_rules` and `overwrite`. Who commits is the format's choice:
    zskip, the format's Python package, or the format's own code in the session. Questions before work, such as
    `check_replaceable` and `row_rules`, may be answered for the version that `snapshot` gave last; commits look again.

    A rewrite calls `check_replaceable` and `stage`, writes files into the staging directory (`list_data_files` lists
    them), and calls `replace`, or `abort` on failure. No reader sees any of it until `replace` has committed. A process
    that dies at any point leaves the table as before or as after the rewrite; the next `stage` removes its remains.
    """

    @property
    def name(self) -> str:
        """The name that `format=` takes."""

    @property
    def home(self) -> str:
        """The directory for zskip's own files, below the table."""

    @property
    def is_plain(self) -> bool:
        """Whether the files in the table's directory are the table, as `spark.read.parquet` reads them."""

    @property
    def in_one_thread(self) -> bool:
        """Whether only one thread of a process at a time may rewrite the table."""

    def pinned(self) -> TableFormat:
        """The same table, whose questions are about the version that its `snapshot` has read last.

        Commits still ask what is live then.
        """

    def snapshot(self) -> Snapshot:
        """The files that are live now, in path order, with columns, partitions and the format's own statistics.

        Raises TableNotFoundError if there is no table, and UnsupportedError for tables that zskip would read wrongly.
        """

    def check_replaceable(self) -> None:
        """Raise UnsupportedError, with the reason and a way out, if `replace` could not commit; reads only."""

    def stage(self) -> str:
        """Create a hidden directory for a rewrite's files and sweep those of dead processes; returns its path.

        Raises StorageError if the table is not writable.
        """

    def replace(
        self, base: Snapshot, removed: Bools, added: Sequence[StagedFile], info: Mapping[str, Any] | None = None
    ) -> int:
        """Commit the staged files in place of the files of `base` where `removed` is set; returns the new version.

        removed: (files of base,) mask; info: a description of the operation. Both sets of files hold the same rows.
        Raises ConflictError, and changes nothing, if one of the removed files is no longer as it was in `base`.
        """

    def snapshot_after(
        self, base: Snapshot, removed: Bools, added: Sequence[StagedFile], version: int
    ) -> Snapshot | None:
        """The live files after a commit of this object, without another listing; None where only that can tell.

        base: all files of the version before it, of which those in `removed` are gone; version: of the commit. Files
        that others have added meanwhile may be missing.
        """

    def check_appendable(self, *, overwrites: bool = False) -> None:
        """Raise UnsupportedError, with the reason and a way out, if `append` could not commit; reads only.

        overwrites: ask for `overwrite` instead.
        """

    def row_rules(self) -> RowRules:
        """What new rows have to keep."""

    def append(
        self,
        base: Snapshot,
        added: Sequence[StagedFile],
        info: Mapping[str, Any] | None = None,
        batch: BatchId | None = None,
    ) -> int | None:
        """Commit the staged files beside the live ones, so that readers of changes see an append; returns the version.

        base: the snapshot that has the columns of the files; info: as in `replace`; batch: the files' number. Returns
        None, and changes nothing, if the table holds this batch or a later one of its application.
        Raises ConflictError, and changes nothing, if the columns are no longer those of `base`.
        """

    def overwrite(self, base: Snapshot, added: Sequence[StagedFile], info: Mapping[str, Any] | None = None) -> int:
        """Commit the staged files, with other rows, in place of all files that are live then; returns the version.

        base, info: as in `append`. Raises as `append` does.
        """

    def last_batch(self, application: str) -> int | None:
        """The version of the latest batch that an application has appended; None if it has appended none.

        Raises UnsupportedError if the format keeps no such versions.
        """

    def abort(self, staging_directory: str) -> None:
        """Remove the files of a rewrite that was not committed."""

    def last_operation(self) -> tuple[int, Mapping[str, Any]] | None:
        """The version of zskip's latest known rewrite, and the `info` it was committed with."""
