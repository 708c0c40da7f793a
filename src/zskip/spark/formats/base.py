"""The protocols of a table in a session: what reads its rows, and what commits others in their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from zskip.formats.compression import Compression
from zskip.records import Bools, Ints, Snapshot
from zskip.spark.schema import TableSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zskip.spark.scan.relation import Pruning


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
    names: tuple[str, ...] = ()
    """Names of the added files, without directories."""
    rows: int | None = None
    """Rows in the added files; None where they are those of the old files, deleted ones included."""


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


class Reader(Protocol):
    """Reads one version of a table in a session, the one that is current at the first question.

    `open_reader` chooses it by the table's format. What a version or a feature of the format asks for is decided
    inside; nobody else asks how rows are read.
    """

    @property
    def schema(self) -> TableSchema:
        """The live files, with columns and partition values as Spark sees them."""

    @property
    def snapshot(self) -> Snapshot:
        """The files of `schema`."""

    @property
    def feature(self) -> str | None:
        """What the table uses for which the format's own code reads it; None where zskip does."""

    @property
    def shown(self) -> Snapshot:
        """The files with the columns of `frame` and `whole`."""

    @property
    def engine(self) -> Engine | None:
        """What commits a rewrite of the rows; None where zskip writes the files and the format commits them."""

    @property
    def filters_itself(self) -> bool:
        """Whether `whole` filters inside files whatever the session's settings are."""

    def with_schema(self, schema: TableSchema) -> Reader:
        """The same reader of the same version, for some of its files or with other columns."""

    def select(self, files: Snapshot) -> Reader:
        """The same reader of the same version, for some of its files."""

    def check(self) -> None:
        """Raise UnsupportedError, with the way out, where the session cannot read the rows."""

    def check_files(self, *, deletes: bool) -> None:
        """Raise UnsupportedError where the files are not the rows; deletes: whether the caller applies the deletes."""

    def check_indexable(self) -> None:
        """Raise UnsupportedError where an index could tell nothing of the files, or nobody here reads their rows."""

    @property
    def indexes_files(self) -> bool:
        """Whether the index has the bounds of files, or else the format; raises UnsupportedError where neither has."""

    @property
    def footers_count(self) -> bool:
        """Whether footers tell of the rows in files that no other file changes."""

    def add_statistics(self, snapshot: Snapshot) -> Snapshot:
        """Add the statistics of files that only the format's own code can read."""

    def count_deleted_rows(self, snapshot: Snapshot) -> Ints | None:
        """(files,) the deleted rows of each file, estimated where the format does not say; None where nobody can."""

    def frame(self, prune: Callable[[Snapshot], Pruning]) -> DataFrame:
        """The rows as users see them, of which each query reads the files that its filters leave.

        prune: binds the index to files. Warns where the rows are those of another reader, without the index.
        """

    def whole(self) -> DataFrame:
        """The rows as users see them; neither an index nor statistics leave any out."""

    def live_rows(self, session: SparkSession) -> DataFrame:
        """The rows of the files without deleted ones, with the number of each row's partition in `ORDINAL`.

        Has the hidden columns that a rewrite must keep.
        """

    def stored_rows(self, files: Bools, settings: Mapping[str, str]) -> DataFrame:
        """All rows in some files, deleted ones too, in a private session; what cannot be read is an error.

        What an index says of a file has to be true of older versions of the table, too, in which its rows were live.
        files: (files,) mask; settings: of that session.
        """

    def numbered_rows(self) -> tuple[DataFrame, str]:
        """The rows in the files with the number of each row's file in `ORDINAL`, and the column with its row's number.

        Deleted and changed rows may be among them.
        """

    def release(self) -> None:
        """Let go of what the session holds for reading."""
