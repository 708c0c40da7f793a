"""The protocol of a table format's own writer in the session, which an optimize uses."""

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
    """The rows of a rewrite, as a DataFrame that has not run yet."""

    frame: DataFrame
    """Spark's partition i holds the rows of file i, in order; with exactly the columns of the table."""
    files: int
    rows: int
    """Expected number."""
    compression: Compression
    page_rows: int
    """The most rows in a page, where the format's writer lets one choose."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineCommit:
    """A commit that an engine made."""

    version: int
    sizes: tuple[int, ...]
    """Bytes of each added file."""
    names: tuple[str, ...] = ()
    """Names of the added files, without directories."""


class Engine(Protocol):
    """Writes and commits rows to one table with the format's own code, which the session has loaded."""

    reads: ClassVar[str | None]
    """Why the engine also reads the rows, as in `Snapshot.reader`; None where zskip reads them from the files."""

    def check(self) -> None:
        """Raise UnsupportedError where `commit` would be impossible, with the reason and the way out; only reads."""

    def commit(self, base: Snapshot, rows: RoutedRows, info: Mapping[str, Any]) -> EngineCommit:
        """Write the rows, one file per partition of the frame, and commit them in place of the files of `base`.

        base: only the replaced files; info: a description of the operation. Raises ConflictError, and changes nothing,
        where one of the replaced files differs from `base`.
        """
