"""A Delta log in a session that has loaded Delta Lake, for what only Delta Lake itself reads or commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from zskip.formats.base import BatchId
from zskip.formats.delta.commit import NewFile
from zskip.records import Snapshot


class SessionLog(Protocol):
    """Commits to one table by Delta Lake's own transactions."""

    def check(self) -> None:
        """Raise UnsupportedError where this version of Delta Lake could not."""

    def commit(
        self,
        base: Snapshot,
        new: Sequence[NewFile],
        rewrite: str,
        info: Mapping[str, Any],
        *,
        mode: str,
        batch: BatchId | None,
    ) -> int | None:
        """Commit files, which are in place, on top of a version; returns the new one.

        base: the files that a REPLACE replaces, else all files of the version; mode: REPLACE, APPEND or OVERWRITE;
        batch: returns None, and changes nothing, if the log holds it. Raises ConflictError, and changes nothing, after
        a commit of another writer that does not fit.
        """

    def write_manifests(self) -> None:
        """Write the manifests that list the live files for engines without Delta's log; raises a ZskipError."""
