"""One version of a table, and rows drawn from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from zskip.records.arrays import Bools, Floats, Ints, Values
from zskip.records.statistics import Known
from zskip.types import DataType, Encoded


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """A column: its name and type."""

    name: str
    type: DataType
    nullable: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnIds:
    """The ids by which files name the columns of a table, whatever the columns are called now."""

    ids: Mapping[tuple[str, ...], int]
    """By path, of columns and of fields in structs."""
    filled: frozenset[int] = frozenset()
    """Ids of columns that need not be null in files without them: they have a default, or one value in a partition."""
    names: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    """The ids of columns, by their paths in files whose fields have no ids."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Partition:
    """One Hive partition: its directory relative to the table, `""` for an unpartitioned table."""

    directory: str
    values: tuple[Encoded | None, ...] = ()
    """One value per partition column, in the form of its type; None is SQL's NULL."""


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


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Deletes:
    """What deletes rows of a data file: a deletion vector, a delete file, or a log file, which may also change rows."""

    kind: str
    """"deletion vector", "position deletes", "equality deletes" or "log file"."""
    path: str | None = None
    """The absolute path or URI of the file that holds it; None where `rows` says everything."""
    offset: int | None = None
    """Where it begins in that file, in bytes; None for the whole file."""
    size: int | None = None
    """In bytes."""
    columns: tuple[str, ...] = ()
    """The columns of equality deletes, by their names in the table."""
    rows: Ints | None = None
    """The numbers of the deleted rows, ascending, from 0 for the data file's first row; None: only `path` tells."""


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
    declared: tuple[str, str] | None = None
    """Schemas of the files and of the partition columns in Spark's JSON; None where only the files declare them."""
    known: Known | None = None
    grouped_by: tuple[str, ...] = ()
    """Columns of `fields` with one value in each partition: partition columns that the files hold, too."""
    altered: Bools | None = None
    """(files,) whose rows other files add to or change, so that no statistics describe them."""
    reader: str | None = None
    """Why only the format's own code may read the files; None where the files hold the table's rows as they are."""
    opaque: bool = False
    """Whether `reader` is a feature that zskip does not know, so that only partition values tell of the files."""
    stored: Mapping[tuple[str, ...], tuple[str, ...] | None] | None = None
    """Paths of columns and fields in the files, by those in the table, None for one that the files may call otherwise.
    None where the files have the table's names."""
    deleted: Bools | None = None
    """(files,) of which deletion vectors or delete files delete rows; None for none."""
    read_deletes: Callable[[], Mapping[str, tuple[Deletes, ...]]] | None = None
    """Reads what deletes rows of the files, by their paths; None where nothing does."""
    column_ids: ColumnIds | None = None
    """None where files name the columns as the table does."""

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
            known=None if self.known is None else self.known.take(indices),
            altered=None if self.altered is None else self.altered[indices],
            deleted=None if self.deleted is None else self.deleted[indices],
        )

    @property
    def bytes(self) -> int:
        """The total size of the files."""
        return int(self.sizes.sum())


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
