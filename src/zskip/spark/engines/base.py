"""What a table format's own writer in the session must do for an optimize."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from zskip.formats.compression import Compression
from zskip.records import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RoutedRows:
    """The rows of a rewrite, not read yet."""

    frame: DataFrame
    """Partition i of Spark is what file i holds, in its order; all columns of the table and no others."""
    files: int
    rows: int
    """How many there must be."""
    compression: Compression
    page_rows: int
    """At most, in a page, where the format's writer takes that."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineCommit:
    """A commit by an engine."""

    version: int
    sizes: tuple[int, ...]
    """Bytes of each file that it added."""
    names: tuple[str, ...] = ()
    """Of those files, without directories."""


class Engine(Protocol):
    """Writes and commits rows to one table by means of the format's own code, loaded into the session."""

    reads: ClassVar[str | None]
    """Why it reads the rows, too, in the words of `Snapshot.reader`; None where zskip reads them from the files."""

    def check(self) -> None:
        """Raise UnsupportedError where `commit` could not be done, with the reason and the way out; reads only."""

    def commit(self, base: Snapshot, rows: RoutedRows, info: Mapping[str, Any]) -> EngineCommit:
        """Write the rows, one file for each partition of the frame, and commit them instead of the files of `base`.

        base: only the files that are replaced; info: what the operation was. Raises ConflictError, and changes
        nothing, where one of the replaced files is no longer as it was in `base`.
        """
