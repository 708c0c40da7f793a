"""The protocol of a table format's own writer in the session, for rewrites whose files only it can write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from zskip.formats.compression import Compression
from zskip.records import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RoutedRows:
    """The rows of a rewrite, as a DataFrame that has not run yet."""

    frame: DataFrame
    """Spark's partition i holds the rows of file i, in order; with exactly the columns of the table."""
    partition_of_file: npt.NDArray[np.integer[Any]]
    """(files,) the number of each new file's partition in the snapshot."""
    rows: int
    """Expected number."""
    compression: Compression
    page_rows: int
    """The most rows in a page, where the format's writer lets one choose."""

    @property
    def files(self) -> int:
        """Number of new files."""
        return len(self.partition_of_file)


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineCommit:
    """A commit that an engine made."""

    version: int
    sizes: tuple[int, ...]
    """Bytes of each added file."""
    names: tuple[str, ...]
    """Names of the added files, without directories."""
    rows: int
    """Rows in the added files."""


class Engine(Protocol):
    """Writes and commits rows to one table with the format's own code, which the session has loaded."""

    def check(self, compression: Compression | None) -> None:
        """Raise UnsupportedError where `commit` would be impossible, with the reason and the way out; only reads.

        compression: the one requested, if any.
        """

    def commit(self, base: Snapshot, rows: RoutedRows, info: Mapping[str, Any]) -> EngineCommit:
        """Write the rows, one file per partition of the frame, and commit them in place of the files of `base`.

        base: only the replaced files; info: a description of the operation. Raises ConflictError, and changes nothing,
        where one of the replaced files differs from `base`.
        """
