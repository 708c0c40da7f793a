"""One version of a table, and rows drawn from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from zskip.records.arrays import Bools, Floats, Ints, Values
from zskip.records.reading import PLAIN, Reading
from zskip.records.statistics import Known
from zskip.types import DataType, Encoded


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """A column, or a field inside its structs: its name and type."""

    name: str
    """Of a field inside structs, the names that lead to it as SQL writes them, such as `st.a`."""
    type: DataType
    nullable: bool = True
    nested: tuple[str, ...] = dataclasses.field(default=(), repr=False)
    """The names that lead to a field inside structs, from the column on; empty for a column."""
    computed: bool = dataclasses.field(default=False, repr=False)
    """Whether it is an expression of columns, whose SQL is its name, and not stored in files."""

    @property
    def path(self) -> tuple[str, ...]:
        """The names that lead to it; a column's own, or the SQL of an expression."""
        return self.nested or (self.name,)


@dataclass(frozen=True, kw_only=True, slots=True)
class Partition:
    """One Hive partition: its directory relative to the table, `""` for an unpartitioned table."""

    directory: str
    values: tuple[Encoded | None, ...] = ()
    """One value per partition column, in the form of its type; None is SQL's NULL."""
    other_values: tuple[Encoded | None, ...] = ()
    """The values as other engines read the directory, where engines differ."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DataFile:
    """One live file of a snapshot."""

    path: str
    """Relative to the table's root."""
    size: int
    """In bytes."""
    mtime_ms: int
    partition: int
    """Index into `Snapshot.partitions`."""
    identity: int = 0
    """As in `Snapshot.identities`."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Snapshot:
    """One version of a table: its live files, in path order, with columns and partitions.

    The files are parallel arrays, since a table may have millions.
    """

    root: str
    """Absolute path or URI of the table."""
    version: int
    """zskip's count of commits to a plain Parquet table, or the version of the table format."""
    fields: tuple[Field, ...]
    """The columns in the files, without partition columns."""
    partition_fields: tuple[Field, ...]
    partitions: tuple[Partition, ...]
    paths: tuple[str, ...]
    """Relative to the root."""
    sizes: Ints
    """In bytes, one per path."""
    mtimes_ms: Ints
    partition_of: npt.NDArray[np.int32]
    """Index into `partitions`, one per path."""
    identities: Ints | None = None
    """What tells each file from others that had its path, size and time, 0 where unknown; None where the log of a table
    format names each file once."""
    known: Known | None = None
    grouped_by: tuple[str, ...] = ()
    """Columns of `fields` with one value in each partition: partition columns that the files hold, too."""
    reading: Reading = PLAIN
    """How the files hold the rows: for readers, and for what binds statistics to files."""

    def __len__(self) -> int:
        return len(self.paths)

    def __iter__(self) -> Iterator[DataFile]:
        return (self.file(i) for i in range(len(self.paths)))

    def file(self, i: int) -> DataFile:
        """The i-th file."""
        return DataFile(
            path=self.paths[i],
            size=int(self.sizes[i]),
            mtime_ms=int(self.mtimes_ms[i]),
            partition=int(self.partition_of[i]),
            identity=0 if self.identities is None else int(self.identities[i]),
        )

    @property
    def has_hidden_partitions(self) -> bool:
        """Whether the files are partitioned, but not by partition columns: Iceberg partitions by ordinary columns."""
        return not self.partition_fields and any(partition.directory for partition in self.partitions)

    def select(self, keep: Bools) -> Snapshot:
        """The same table with some of its files only.

        keep: (files,) mask.
        """
        return self.take(np.flatnonzero(keep))

    def take(self, indices: Ints) -> Snapshot:
        """The same table with the files at some indices, each as often as its index occurs."""
        return dataclasses.replace(
            self,
            paths=tuple(self.paths[i] for i in indices.tolist()),
            sizes=self.sizes[indices],
            mtimes_ms=self.mtimes_ms[indices],
            partition_of=self.partition_of[indices],
            identities=None if self.identities is None else self.identities[indices],
            known=None if self.known is None else self.known.take(indices),
            reading=self.reading.take(indices),
        )

    @property
    def partition_names(self) -> tuple[str, ...]:
        """The columns with one value in each partition."""
        return (*(field.name for field in self.partition_fields), *self.grouped_by)

    @property
    def bytes(self) -> int:
        """The total size of the files."""
        return int(self.sizes.sum())


FileIdentity = tuple[str, int, int]
"""Path, bytes and time; a file is unchanged where all three are."""


def identify_files(snapshot: Snapshot, numbers: Ints) -> tuple[FileIdentity, ...]:
    """Identify the files with these numbers in a snapshot."""
    files = [snapshot.file(i) for i in numbers.tolist()]
    return tuple((file.path, file.size, file.mtime_ms) for file in files)


class LiveFiles:
    """Finds unchanged files in a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._numbers = {path: i for i, path in enumerate(snapshot.paths)}

    def find(self, files: Collection[FileIdentity]) -> Ints:
        """(files,) their numbers in the snapshot, -1 for those that are gone or changed."""
        numbers = np.fromiter((self._numbers.get(path, -1) for path, _, _ in files), np.int64, len(files))
        is_live = numbers >= 0
        live = iter(identify_files(self._snapshot, numbers[is_live]))
        is_same = [exists and next(live) == file for file, exists in zip(files, is_live.tolist(), strict=True)]
        return np.where(np.array(is_same, np.bool_), numbers, -1)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Sample:
    """Rows drawn from a table: their clustering columns, in the forms of their types."""

    fields: tuple[Field, ...]
    columns: tuple[Values, ...]
    """One array of (rows,) per field; entries where `nulls` is set mean nothing."""
    nulls: tuple[Bools, ...]
    partition: npt.NDArray[np.int32]
    """Index of each row's Hive partition, (rows,)."""
    weights: Floats
    """Number of rows of the table that each row stands for, (rows,)."""

    def __len__(self) -> int:
        return len(self.partition)
