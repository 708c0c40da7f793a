"""What a table format must do for the rest of zskip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from zskip.records import Bools, Snapshot

HOME = "_zskip"
"""Directory in a table in which all lies that is zskip's, but for formats that have a place of their own."""
OPERATIONS = f"{HOME}/operations"
"""Records of what zskip did to a table."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StagedFile:
    """A file written for a rewrite but not committed."""

    path: str
    """Relative to the table."""
    directory: str
    """Of the Hive partition where it belongs, relative to the table."""
    size: int
    """Bytes."""


class TableFormat(Protocol):
    """Tells what is live in a table, and commits a rewrite of some of it.

    A rewrite is `check_replaceable`, `stage`, files written into the staging directory by anyone (`data_files` lists
    them), and `replace`, or `abort` where something went wrong. Until `replace` has committed, no reader sees any of
    it; a process that dies at any moment leaves the table as before or as after, and what it leaves besides goes with
    the next `stage`.
    """

    @property
    def name(self) -> str:
        """As `format=` spells it."""

    @property
    def home(self) -> str:
        """Directory below the table in which all lies that is zskip's and not the format's."""

    def snapshot(self) -> Snapshot:
        """The live files now, in path order, with columns, partitions and what the format itself knows of them.

        Raises TableNotFoundError where there is nothing, UnsupportedError for tables that zskip would read wrongly.
        """

    def check_replaceable(self) -> None:
        """Raise UnsupportedError where `replace` could not commit, with the reason and the way out; reads only."""

    def stage(self) -> str:
        """Make a hidden directory for a rewrite's files and sweep those of dead processes; returns its path.

        Raises StorageError where the table may not be written.
        """

    def replace(
        self, base: Snapshot, removed: Bools, added: Sequence[StagedFile], info: Mapping[str, Any] | None = None
    ) -> int:
        """Commit the staged files instead of those of `base` where `removed` is set; returns the new version.

        removed: (files of base,) mask; info: what the operation was. The rows of both are the same. Raises
        ConflictError, and changes nothing, where one of the removed files is no longer as it was in `base`.
        """

    def abort(self, staging_directory: str) -> None:
        """Remove the files of a rewrite that was not committed."""

    def last_operation(self) -> tuple[int, Mapping[str, Any]] | None:
        """Version of zskip's latest rewrite that is still known, and the `info` it was committed with."""
