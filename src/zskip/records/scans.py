"""What pruning kept, and why."""

from __future__ import annotations

from dataclasses import dataclass

from zskip.records.arrays import Bools


@dataclass(frozen=True, kw_only=True, slots=True)
class LeafReport:
    """How many files a leaf of a predicate, or another kind of pruning, could skip alone, or why it skipped none."""

    sql: str
    skipped: int
    """Files."""
    reason: str = ""
    """Why it skipped none; empty where it skipped some."""
    kind: str = "filter"
    """filter, matches, partition, join, top-k, limit or count."""
    seconds: float | None = None
    """Duration of the step; None where it counts as part of the scan's."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PruneResult:
    """The files that a query has to read, and why."""

    kept: Bools
    """(files,) Whether a file might hold a matching row."""
    full: Bools
    """(files,) Whether every row of a file matches."""
    leaves: tuple[LeafReport, ...] = ()

    @property
    def files(self) -> int:
        """Number of kept files."""
        return int(self.kept.sum())


@dataclass(frozen=True, kw_only=True, slots=True)
class ScanReport:
    """What one scan read and what it could skip."""

    files: int
    files_total: int
    bytes: int
    bytes_total: int
    rows: int | None
    """Rows in the kept files; None where a kept file's count is unknown."""
    rows_total: int | None
    seconds: float
    """Spent on pruning; where an equal query was planned before, what was spent on that one."""
    leaves: tuple[LeafReport, ...] = ()
    row_groups: int | None = None
    """Row groups to read in the kept files; None where the index does not know the row groups of every file."""
    row_groups_total: int | None = None
    table: str = ""
    """Root of the table."""
    for_keys: bool = False
    """Whether zskip itself read these files, for the keys of one of the query's joins."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScanStep:
    """The files that remain after one step of pruning."""

    step: str
    """`table`, `partitions`, or the SQL of a conjunct."""
    files: int
    bytes: int
    rows: int | None
    """None where a file's count is unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Regret:
    """What a query read in vain."""

    files: int
    """Kept files without a matching row."""
    bytes: int
    rows: int
    """In those files."""
    matching_rows: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """The files that a predicate keeps, step by step, and what each of its leaves did."""

    path: str
    where: str | None
    steps: tuple[ScanStep, ...]
    """The table, its partitions, then each conjunct in order; the last is what a query reads."""
    leaves: tuple[LeafReport, ...]
    regret: Regret | None = None
    """None unless the query was run."""
    reader: str | None = None
    """Why the format's own code reads the table and chooses files by its own statistics; None where zskip does."""
    tree: str = ""
    """The tree of cuts that the table lies by, in words; empty for curves."""

    def __str__(self) -> str:
        lines = [f"{self.path} WHERE {self.where or 'true'}"]
        for step in self.steps:
            rows = "" if step.rows is None else f", {step.rows:,} rows"
            lines.append(f"  {step.files:,} files, {step.bytes:,} bytes{rows}  after {step.step}")
        lines += [
            f"  {leaf.sql} skips {leaf.skipped:,} files{': ' * bool(leaf.reason)}{leaf.reason}" for leaf in self.leaves
        ]
        if self.tree:
            lines.append(f"  {self.tree}")
        if self.reader is not None:
            lines.append(f"  read, and pruned further, by the format itself, since the table uses {self.reader}")
        if self.regret is not None:
            lines.append(
                f"  {self.regret.files:,} of the files read contain none of {self.regret.matching_rows:,} matching rows"
            )
        return "\n".join(lines)
