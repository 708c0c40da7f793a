"""What the verbs that rewrite files did."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from zskip.records.info import SketchChoice


@dataclass(frozen=True, kw_only=True, slots=True)
class FileSizes:
    """Number and sizes of some files; sizes in bytes."""

    files: int = 0
    bytes: int = 0
    smallest: int | None = None
    """None where there are no files."""
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
        """Sum up several groups of files.

        >>> FileSizes.sum([FileSizes.of([3, 1]), FileSizes(), FileSizes.of([2])])
        FileSizes(files=3, bytes=6, smallest=1, largest=3)
        """
        parts = [part for part in parts if part.files]
        return cls(
            files=sum(part.files for part in parts),
            bytes=sum(part.bytes for part in parts),
            smallest=min((part.smallest for part in parts if part.smallest is not None), default=None),
            largest=max((part.largest for part in parts if part.largest is not None), default=None),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class RewriteResult:
    """What an optimize or a compact did: the record of one commit, or of all commits of a call."""

    path: str
    version: int
    """Of the table, after the call; unchanged where there was nothing to do."""
    by: tuple[str, ...] = ()
    """Clustering columns; none where small files were merged."""
    curve: str = ""
    build: str = ""
    files_before: int = 0
    """In the partitions that the call examined."""
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    rows: int = 0
    """Rows that were rewritten."""
    seconds: dict[str, float] = field(default_factory=dict)
    """By step, in the order the steps ran."""
    predicted_share_before: float | None = None
    """Mean share of the rows (0 to 1) that a query reads, of the workload or of a random one; None where unknown."""
    predicted_share_after: float | None = None
    added: FileSizes = FileSizes()
    """New files."""
    removed: FileSizes = FileSizes()
    """Files that the new ones replaced; none where the result is a new table."""
    partitions: int = 0
    """Hive partitions with rewritten files; 1 for an unpartitioned table."""
    compression: str = ""
    """Codec of the new files, such as `snappy`, with its level where the caller gave one: `zstd:3`."""
    batches: int = 0
    """Commits."""
    batches_before: int = 0
    """Commits of an earlier, interrupted call with the same arguments, which this call resumed."""
    writer: str = ""
    """What wrote the new files: `arrow` or `spark`; empty where nothing was written."""
    writer_reason: str = ""
    """Why it was not `arrow`."""
    notes: tuple[str, ...] = ()
    """What the files had that the new ones lack, such as keys of other programs, a sentence for each."""

    def add(self, commits: Sequence[RewriteResult]) -> RewriteResult:
        """Add what the commits of a call did to what is known of the whole call."""
        if not commits:
            return self
        return replace(
            self,
            version=max(commit.version for commit in commits),
            files_before=self.files_before + sum(commit.files_before for commit in commits),
            files_after=self.files_after + sum(commit.files_after for commit in commits),
            bytes_before=self.bytes_before + sum(commit.bytes_before for commit in commits),
            bytes_after=self.bytes_after + sum(commit.bytes_after for commit in commits),
            rows=self.rows + sum(commit.rows for commit in commits),
            added=FileSizes.sum([self.added, *(commit.added for commit in commits)]),
            removed=FileSizes.sum([self.removed, *(commit.removed for commit in commits)]),
            compression=commits[-1].compression,
            batches=self.batches + sum(commit.batches for commit in commits),
            writer=" and ".join(sorted({commit.writer for commit in commits})),
            writer_reason="; ".join(sorted({commit.writer_reason for commit in commits} - {""})),
            notes=tuple(dict.fromkeys(note for commit in commits for note in commit.notes)),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteResult:
    """What a write of new rows did."""

    path: str
    version: int
    """Of the table, after the write."""
    rows: int
    """New rows; none where the table held the batch already."""
    files: int
    bytes: int
    """Of the new files."""
    by: tuple[str, ...]
    """The columns that the rows were placed by; none where the table was never clustered."""
    curve: str
    """`input order` where the table was never clustered."""
    predicted_share: float | None
    """Predicted mean share of the new rows (0 to 1) that a query reads; None for rows in input order."""
    seconds: dict[str, float]
    """By step, in the order the steps ran."""
    jobs: int
    """Spark jobs that the call ran; 0 where Spark Connect does not tell."""

    @classmethod
    def of(cls, result: RewriteResult, jobs: int) -> WriteResult:
        """The record of a commit of new rows as the verbs that write them return it."""
        return cls(
            path=result.path,
            version=result.version,
            rows=result.rows,
            files=result.added.files,
            bytes=result.added.bytes,
            by=result.by,
            curve=result.curve,
            predicted_share=result.predicted_share_after,
            seconds=result.seconds,
            jobs=jobs,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Maintenance:
    """What a maintain did or would do."""

    path: str
    version: int
    """Of the table, after the maintain."""
    by: tuple[str, ...]
    batches: int
    """Commits."""
    bytes_written: int
    files_removed: int
    files_added: int
    kept_before: float
    """Mean share of the rows (0 to 1) in the files that a query reads, predicted from the files' bounds."""
    kept_after: float
    stopped: str
    """Why it stopped: `budget`, `seconds`, or nothing left that is worth its bytes."""
    seconds: float
    dry_run: bool
    """Whether nothing was done and all figures are predictions."""
    refit: str = ""
    """What a tree of cuts fitted anew would read, or that one was fitted; empty where the workload has not moved."""
    deleted_rows: int = 0
    """Rows that deletion vectors and delete files took from the rewritten files, estimated."""
    sketches: tuple[SketchChoice, ...] | None = None
    """What `sketches="auto"` has decided, or would; None without it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """One thing that zskip did to a table."""

    version: int
    """The version of the table that it created."""
    time_ms: int
    """When it was committed, in milliseconds since 1970."""
    operation: str
    """`optimize`, `maintain`, `compact`, `write` or `append`."""
    by: tuple[str, ...] = ()
    """Clustering columns; none where small files were merged."""
    curve: str | None = None
    build: str | None = None
    where: str | None = None
    """The predicate that chose partitions."""
    rows: int
    """Rows that were rewritten."""
    files_removed: int
    files_added: int
    bytes_removed: int
    bytes_added: int
    share_before: float | None = None
    """Predicted mean share (0 to 1) of those rows that a query reads; None where unknown."""
    share_after: float | None = None
    share_measured: float | None = None
    """Mean share of the table's rows that recorded scans read between this operation and the next; None where none was
    recorded. It is computed on request, not stored."""
    scans: int = 0
    """Number of those scans."""
    seconds: float
    fitted_to: str | None = None
    """The queries that the layout was fitted to, in words; None for random queries."""
