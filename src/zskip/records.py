"""The frozen records that pass between the rooms; each says its units."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from zskip.types import DataType, Encoded

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Values = npt.NDArray[np.int64] | npt.NDArray[np.float64] | npt.NDArray[np.object_]
"""Values in the form of their type: int64, float64, or objects that are `bytes`."""

ALL_NULL = int(np.iinfo(np.int64).max)
"""Number of nulls that says: however many rows there are, all are null."""


class Shown:
    """A result that a notebook shows as small tables, with the rows that the command line prints."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        # Imported when asked, from above: a record knows of no other room.
        from zskip.rows import to_html

        return to_html(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """A column: its name and type."""

    name: str
    type: DataType
    nullable: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Partition:
    """One Hive partition: its directory relative to the table, `""` for an unpartitioned table."""

    directory: str
    values: tuple[Encoded | None, ...] = ()
    """One value for each partition column, in the form of its type; None is SQL's NULL."""


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
class Known:
    """What a table format's own metadata says of the files of a snapshot; true, but not always exact."""

    rows: Ints
    """(files,) -1 where unknown."""
    column: Callable[[str], ColumnStats | None]
    """Bounds and nulls of a top-level column by its name, arrays of (files,); None where nothing is known."""

    def take(self, places: Ints) -> Known:
        """What is said of the files of some places."""

        def column(name: str) -> ColumnStats | None:
            found = self.column(name)
            return None if found is None else found.take(places)

        return Known(rows=self.rows[places], column=column)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Snapshot:
    """One version of a table: its live files, in path order, with columns and partitions.

    The files are held as parallel arrays, since a table may have millions.
    """

    root: str
    """Absolute path or URI of the table."""
    version: int
    """zskip's count of commits to a plain Parquet table, or the version of the table format."""
    fields: tuple[Field, ...]
    """The columns that the files hold, partition columns left out."""
    partition_fields: tuple[Field, ...]
    partitions: tuple[Partition, ...]
    paths: tuple[str, ...]
    """Relative to the root."""
    sizes: Ints
    """Bytes, one for each path."""
    mtimes_ms: Ints
    partition_of: npt.NDArray[np.int32]
    """Index into `partitions`, one for each path."""
    declared: tuple[str, str] | None = None
    """Schemas of the files and of the partition columns in Spark's JSON; None where the files themselves say it."""
    known: Known | None = None
    grouped_by: tuple[str, ...] = ()
    """Columns of `fields` of which all rows of a partition hold one value: partition columns that the files hold."""
    altered: Bools | None = None
    """(files,) to whose rows other files beside them add, or which they change: no statistics tell what they hold."""
    reader: str | None = None
    """Why only the format's own code may read the files; None where their content is the rows of the table."""

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
        """Whether files are partitioned by what is no partition column: those of Iceberg are columns like others."""
        return not self.partition_fields and any(partition.directory for partition in self.partitions)

    def select(self, keep: Bools) -> Snapshot:
        """The same table with only some of its files.

        keep: (files,) mask.
        """
        return self.take(np.flatnonzero(keep))

    def take(self, places: Ints) -> Snapshot:
        """The same table with the files of some places, each as often as it is named."""
        return dataclasses.replace(
            self,
            paths=tuple(self.paths[i] for i in places.tolist()),
            sizes=self.sizes[places],
            mtimes_ms=self.mtimes_ms[places],
            partition_of=self.partition_of[places],
            known=None if self.known is None else self.known.take(places),
            altered=None if self.altered is None else self.altered[places],
        )

    @property
    def bytes(self) -> int:
        """The size of all files together."""
        return int(self.sizes.sum())


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Sample:
    """Rows drawn from a table, clustering columns only, in the forms of their types."""

    fields: tuple[Field, ...]
    columns: tuple[Values, ...]
    """One array of (rows,) for each field; the content where `nulls` is set means nothing."""
    nulls: tuple[Bools, ...]
    partition: npt.NDArray[np.int32]
    """Ordinal of the row's Hive partition, (rows,)."""
    weights: Floats
    """How many rows of the table each row stands for, (rows,)."""

    def __len__(self) -> int:
        return len(self.partition)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ColumnStats:
    """What is known of one column in each file; arrays of (files,)."""

    type: DataType
    lower: Values
    """No value that is neither null nor NaN is below; meaningful where `bounded`. Where there are no such values it may
    be above `upper`."""
    upper: Values
    bounded: Bools
    """Whether `lower` and `upper` are known."""
    nulls: Ints
    """Number of nulls, -1 where unknown; `ALL_NULL` where all are, even if the number of rows is unknown."""
    may_nan: Bools
    """Whether the file may hold NaN (always false for types other than float and double)."""

    def take(self, places: Ints) -> ColumnStats:
        """The same of the files of some places."""
        return ColumnStats(
            type=self.type,
            lower=self.lower[places],
            upper=self.upper[places],
            bounded=self.bounded[places],
            nulls=self.nulls[places],
            may_nan=self.may_nan[places],
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class LeafReport:
    """What a leaf of a predicate, or pruning of another kind, did: how many files it alone could skip, or why none."""

    sql: str
    skipped: int
    """Files."""
    reason: str = ""
    """Why it skipped nothing; empty where it skipped some."""
    kind: str = "filter"
    """filter, partition, join, top-k, limit, count or constant."""
    seconds: float | None = None
    """What the step took; None where it is part of the scan's."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PruneResult:
    """Which files a query has to read, and why."""

    kept: Bools
    """(files,) files that might hold a matching row."""
    full: Bools
    """(files,) files of which every row matches."""
    leaves: tuple[LeafReport, ...] = ()

    @property
    def files(self) -> int:
        """Number of files that are kept."""
        return int(self.kept.sum())


@dataclass(frozen=True, kw_only=True, slots=True)
class FileSizes:
    """How many files there are of a kind, and how large they are; sizes in bytes."""

    files: int = 0
    bytes: int = 0
    smallest: int | None = None
    """None where there is no file."""
    largest: int | None = None

    @classmethod
    def of(cls, sizes: Sequence[int]) -> FileSizes:
        """Sum up the sizes of some files.

        >>> FileSizes.of([3, 1])
        FileSizes(files=2, bytes=4, smallest=1, largest=3)
        """
        return cls(
            files=len(sizes), bytes=sum(sizes), smallest=min(sizes, default=None), largest=max(sizes, default=None)
        )

    @classmethod
    def sum(cls, parts: Iterable[FileSizes]) -> FileSizes:
        """Of several kinds together.

        >>> FileSizes.sum([FileSizes.of([3, 1]), FileSizes(), FileSizes.of([2])])
        FileSizes(files=3, bytes=6, smallest=1, largest=3)
        """
        held = [part for part in parts if part.files]
        return cls(
            files=sum(part.files for part in held),
            bytes=sum(part.bytes for part in held),
            smallest=min((part.smallest for part in held if part.smallest is not None), default=None),
            largest=max((part.largest for part in held if part.largest is not None), default=None),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizeResult(Shown):
    """What an optimize did."""

    path: str
    version: int
    curve: str
    build: str
    by: tuple[str, ...]
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    rows: int
    seconds: dict[str, float]
    """By step, in the order the steps ran."""
    predicted_share_before: float | None
    """Share of rows (0 to 1) that a query of the workload, or of a made-up one, reads, mean; None where unknown."""
    predicted_share_after: float | None
    added: FileSizes = FileSizes()
    """New files."""
    removed: FileSizes = FileSizes()
    """Files they took the place of; none where the result went into a new table."""
    partitions: int = 0
    """Hive partitions of which files were rewritten, 1 for an unpartitioned table."""
    compression: str = ""
    """Codec of the new files, such as `snappy`, and its level where one was asked for: `zstd:3`."""
    batches: int = 0
    """Commits."""
    batches_before: int = 0
    """Of an earlier call with the same arguments that was cut short, which this one has gone on with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactResult(Shown):
    """What a compact did."""

    path: str
    version: int
    """After it; the same as before where nothing was to do."""
    files_before: int
    """In the partitions that were looked at."""
    files_after: int
    bytes_before: int
    bytes_after: int
    rows: int
    """That were written anew."""
    added: FileSizes
    """New files."""
    removed: FileSizes
    """Files they took the place of."""
    partitions: int
    """Of which files were merged; an unpartitioned table is one."""
    batches: int
    """Commits."""
    seconds: dict[str, float]
    """By step, in the order the steps ran."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Maintenance(Shown):
    """What a maintain did, or would do."""

    path: str
    version: int
    """Of the table, after it."""
    by: tuple[str, ...]
    batches: int
    """Commits."""
    bytes_written: int
    files_removed: int
    files_added: int
    kept_before: float
    """Share (0 to 1) of the rows that lie in files which a query reads, mean, as the bounds of files predict it."""
    kept_after: float
    stopped: str
    """Why there was not more: `budget`, `seconds`, or nothing left that is worth its bytes."""
    seconds: float
    dry_run: bool
    """Whether nothing was done, and all this is predicted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation(Shown):
    """One thing that zskip did to a table."""

    version: int
    """Of the table, that it made."""
    time_ms: int
    """When it was committed, in milliseconds since 1970."""
    operation: str
    """`optimize`, `maintain` or `compact`."""
    by: tuple[str, ...] = ()
    """Columns that rows were clustered by; none where small files were merged."""
    curve: str | None = None
    build: str | None = None
    where: str | None = None
    """The predicate that chose partitions."""
    rows: int
    """That were written anew."""
    files_removed: int
    files_added: int
    bytes_removed: int
    bytes_added: int
    share_before: float | None = None
    """Predicted share (0 to 1) of those rows that a query reads, mean; None where unknown."""
    share_after: float | None = None
    share_measured: float | None = None
    """Share of the table's rows that recorded scans read after it and before the next operation, mean; None where none
    was recorded. It is not kept, but told when it is asked for."""
    scans: int = 0
    """Of which that is the mean."""
    seconds: float
    fitted_to: str | None = None
    """The queries that the layout was fitted to, in words; None where it was fitted to made-up ones."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SketchInfo:
    """One sketch of an index."""

    spec: str
    """As it was asked for, such as `bloom(0.01):l_comment`."""
    files: int
    """Live files of which there is a state."""
    bytes: int
    """Of those states."""
    left_out: int
    """Live files that were looked at and have none."""
    reason: str
    """Why the first of them has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexInfo(Shown):
    """What an index covers."""

    version: int
    files: int
    """Live files with a valid entry."""
    files_total: int
    columns: int
    bytes: int
    """Size of the index on disk."""
    sketches: tuple[SketchInfo, ...] = ()
    granularity: str = "file"
    """`row_group` where it knows the row groups of files, too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexedPart:
    """What an index keeps of one column or expression."""

    on: str
    """As SQL writes it."""
    kind: str
    """`minmax`, `partition`, or a sketch such as `bloom(0.01)`."""
    files: int
    """Live files of which it is known."""
    bytes: int = 0
    """Of that; of `minmax` the column's share in the entries."""
    left_out: int = 0
    """Live files without it; of sketches those that were looked at."""
    reason: str = ""
    """Why the first of them is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutInfo:
    """How the table was last clustered."""

    version: int
    by: tuple[str, ...]
    curve: str
    build: str
    since_ms: int | None = None
    """When the oldest of the files that are in the layout was written, in milliseconds since 1970; None where that is
    not known, or there is none."""
    files: int | None = None
    """Live files that are in the layout; None where the table keeps no record of it."""
    bytes: int | None = None
    files_since: int | None = None
    """Live files that are not: they came since, or others have rewritten them."""
    bytes_since: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusteringInfo:
    """How far the ranges of one column's values overlap among the files, as Snowflake tells it of its partitions."""

    column: str
    files: int
    """Files with known bounds, which alone are counted below."""
    files_unknown: int
    constant_files: int
    """Files that hold one value only, which no clustering can improve."""
    average_overlap: float
    """Other files whose range meets a file's, mean."""
    average_depth: float
    """Files that hold a value, at the deepest place of each file's range, mean; 1 where no ranges meet."""
    depth_histogram: dict[int, int]
    """Files by depth: exact up to 16, then up to the next power of two, each bucket named by its upper end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableInfo(Shown):
    """What lies at a path: files, rows, columns, index and layout."""

    path: str
    format: str
    version: int
    files: int
    bytes: int
    rows: int | None
    """None where no valid index knows it."""
    columns: dict[str, str]
    """Name to type, in order, partition columns last."""
    partition_columns: tuple[str, ...]
    partitions: int
    index: IndexInfo | None
    layout: LayoutInfo | None
    clustering: tuple[ClusteringInfo, ...] = ()
    """Of the columns asked for, or those the table was last clustered by."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScanReport(Shown):
    """What one scan read and what it could leave out."""

    files: int
    files_total: int
    bytes: int
    bytes_total: int
    rows: int | None
    """Rows in the kept files; None where a kept file's count is unknown."""
    rows_total: int | None
    seconds: float
    """Time it took to prune."""
    leaves: tuple[LeafReport, ...] = ()
    row_groups: int | None = None
    """Row groups to read in the kept files; None where the index does not know those of each file."""
    row_groups_total: int | None = None
    table: str = ""
    """Root of the table."""
    for_keys: bool = False
    """Whether it was not the query that read these files, but zskip, for the keys of one of its joins."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScanStep:
    """What is left of a table after one step of pruning."""

    step: str
    """`table`, `partitions`, or the SQL of a conjunct."""
    files: int
    bytes: int
    rows: int | None
    """None where a file's count is unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Regret:
    """What a query read for nothing."""

    files: int
    """Kept files that held no matching row."""
    bytes: int
    rows: int
    """In those files."""
    matching_rows: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation(Shown):
    """Which files a predicate keeps, step by step, and what each leaf of it did."""

    path: str
    where: str | None
    steps: tuple[ScanStep, ...]
    """The table, its partitions, then each conjunct in order; the last is what a query reads."""
    leaves: tuple[LeafReport, ...]
    regret: Regret | None = None
    """None unless the query was run."""
    reader: str | None = None
    """Why the format's own code reads the table, and chooses files by its statistics; None where zskip does."""

    def __str__(self) -> str:
        lines = [f"{self.path} WHERE {self.where or 'true'}"]
        for step in self.steps:
            rows = "" if step.rows is None else f", {step.rows:,} rows"
            lines.append(f"  {step.files:,} files, {step.bytes:,} bytes{rows}  after {step.step}")
        lines += [
            f"  {leaf.sql} skips {leaf.skipped:,} files{': ' * bool(leaf.reason)}{leaf.reason}" for leaf in self.leaves
        ]
        if self.reader is not None:
            lines.append(f"  read, and pruned further, by the format itself, since the table uses {self.reader}")
        if self.regret is not None:
            lines.append(
                f"  {self.regret.files:,} of the files read held none of {self.regret.matching_rows:,} matching rows"
            )
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True, slots=True)
class Leftover:
    """A file or directory that an operation left which was cut short."""

    path: str
    """Absolute, or a URI."""
    reason: str
    files: int
    """That there are, in it."""
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Cleaning(Shown):
    """What crashed operations left in a table, which no reader needs."""

    path: str
    leftovers: tuple[Leftover, ...]
    unfinished: int
    """Rewrites that are committed, but not all of whose files are in their places; deletion finishes them first."""
    deleted: bool
    """Whether all this is gone; else nothing was changed."""

    @property
    def bytes(self) -> int:
        """Of all leftovers together."""
        return sum(leftover.bytes for leftover in self.leftovers)


@dataclass(frozen=True, kw_only=True, slots=True)
class Mismatch:
    """A query whose answer differs with and without pruning, or a statistic that does not bound its file."""

    what: str
    """The smallest failing predicate as SQL, or the column whose statistic is wrong."""
    file: str | None
    """The file, relative to the table, where one is to blame."""
    expected: str
    found: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Verification(Shown):
    """What an audit of a table found."""

    path: str
    files: int
    """Files of which the statistics were audited."""
    columns: int
    queries: int
    """Queries that ran both ways."""
    mismatches: tuple[Mismatch, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.mismatches
