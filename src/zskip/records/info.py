"""What lies at a path: the table, its index, its layout."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class SketchInfo:
    """One sketch of an index."""

    spec: str
    """As the user wrote it, such as `bloom(0.01):l_comment`."""
    files: int
    """Live files with a sketch."""
    bytes: int
    """Size of those sketches."""
    left_out: int
    """Live files that were examined and have none."""
    reason: str
    """Why the first of them has none."""
    automatic: bool = False
    """Whether `sketches="auto"` chose it, and may drop it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SketchChoice:
    """What `sketches="auto"` decides of one sketch, and why. Bytes are those of files that queries do not read."""

    spec: str
    action: str
    """`build`, `keep` or `drop`."""
    bytes: int
    """Its size for all files, estimated on some of them where it is new."""
    saves: int
    """Bytes a query, the mean over the workload, estimated on some files."""
    share: float
    """`saves` over what a query reads without any of the chosen sketches (0 to 1)."""
    saved: int | None = None
    """Bytes that the scans recorded since it was chosen would have read without it; None where it is new."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexInfo:
    """The files and columns that an index covers."""

    version: int
    files: int
    """Live files with a valid entry."""
    files_total: int
    columns: int
    bytes: int
    """Size of the index on disk."""
    sketches: tuple[SketchInfo, ...] = ()
    granularity: str = "file"
    """`row_group` where it also knows the row groups of files."""
    choices: tuple[SketchChoice, ...] | None = None
    """What `sketches="auto"` has decided; None without it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexedPart:
    """What an index keeps about one column or expression."""

    on: str
    """As SQL writes it."""
    kind: str
    """`minmax`, `partition`, or a sketch such as `bloom(0.01)`."""
    files: int
    """Live files that it covers."""
    bytes: int = 0
    """Its size; for `minmax` the column's share of the entries."""
    left_out: int = 0
    """Live files without it; for sketches only those that were examined."""
    reason: str = ""
    """Why the first of them has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnCuts:
    """How often a tree of cuts cuts one column, and where."""

    column: str
    cuts: int
    lowest: str
    """The lowest value at which it is cut, as SQL; empty where it is not."""
    highest: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeCut:
    """One of the first cuts of a tree."""

    way: str
    """How it is reached: `L` and `R` for each cut above, empty for the first."""
    left: str
    """What is true of the rows on its left, as SQL."""
    reason: str
    """The kind of query that gained most by it when the tree was fitted; empty where nobody knows."""

    def __str__(self) -> str:
        return f"{self.left} (for {self.reason})" if self.reason else self.left


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeInfo:
    """A tree of cuts that a table lies by."""

    leaves: int
    levels: int
    """The most cuts between all rows and those of a leaf."""
    columns: tuple[ColumnCuts, ...]
    first: tuple[TreeCut, ...]
    """The first three levels, each cut before those below it; of the largest Hive partition."""

    def __str__(self) -> str:
        counts = ", ".join(f"{of.column} {of.cuts:,} times" for of in self.columns if of.cuts)
        never = ", ".join(of.column for of in self.columns if not of.cuts)
        return f"a tree of {self.leaves:,} leaves cuts {counts or 'nothing'}{f'; {never} never' if never else ''}"


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutInfo:
    """How the table was last clustered."""

    version: int
    by: tuple[str, ...]
    curve: str
    build: str
    since_ms: int | None = None
    """When the oldest file in the layout was written, in milliseconds since 1970; None where that is unknown, or where
    there is no such file."""
    files: int | None = None
    """Live files in the layout; None where the table keeps no record of it."""
    bytes: int | None = None
    files_since: int | None = None
    """Live files outside the layout: added since, or rewritten by others."""
    bytes_since: int | None = None
    tree: TreeInfo | None = None
    """The tree of cuts by which most of them lie; None of curves."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusteringInfo:
    """How much the files' ranges of one column overlap, in the terms that Snowflake uses for its partitions."""

    column: str
    files: int
    """Files with known bounds; the figures below count only these."""
    files_unknown: int
    constant_files: int
    """Files with a single value, which no clustering can improve."""
    average_overlap: float
    """Mean number of other files whose range overlaps a file's."""
    average_depth: float
    """Mean over the files of the most ranges that share a value of the file's range; 1 where no ranges overlap."""
    depth_histogram: dict[int, int]
    """Files by depth: exact up to 16, then in buckets named by their upper end, a power of two."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableInfo:
    """The table at a path: files, rows, columns, index and layout."""

    path: str
    format: str
    version: int
    files: int
    bytes: int
    rows: int | None
    """None where no valid index knows."""
    columns: dict[str, str]
    """From name to type, in order, partition columns last."""
    partition_columns: tuple[str, ...]
    partitions: int
    index: IndexInfo | None
    layout: LayoutInfo | None
    clustering: tuple[ClusteringInfo, ...] = ()
    """For the columns that the caller names, or those the table was last clustered by."""
