"""The facts that a report shows."""

from __future__ import annotations

from dataclasses import dataclass

from zskip.advisor.advice.advice import Advice
from zskip.records import Floats, IndexedPart, Maintenance, Operation, Snapshot, TableInfo
from zskip.report.spread import Spread


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryReads:
    """One query of a workload, and what it reads."""

    where: str
    shape: str
    """The text with a question mark for each literal."""
    weight: float
    columns: tuple[str, ...]
    """The columns that it filters by."""
    files: int
    """The files that it reads."""
    bytes: int
    by_partitions: int
    """Files ruled out by partition values; `by_bounds` counts those of the rest ruled out by bounds, and so on."""
    by_bounds: int
    by_sketches: int
    row_groups: float | None
    """Share (0 to 1) of the table's row groups that it reads; None if unknown."""
    reason: str
    """The reason why it does not read less."""
    idle_files: int | None = None
    """Files that it reads although no row group holds a match; None if unknown."""
    idle_bytes: int | None = None
    """Bytes in row groups without a match, as if the row groups of a file were equally large; None if unknown."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Queries:
    """A workload, and what it reads from a table."""

    source: str
    """The origin of the queries, in words."""
    entries: tuple[QueryReads, ...]
    problems: tuple[str, ...]
    """Queries that cannot be used, and why."""
    reads: Floats
    """(files,) share (0 to 1) of the queries, by weight, that read each file."""

    @property
    def weight(self) -> float:
        """The weight of all queries."""
        return sum(query.weight for query in self.entries)

    @property
    def idle(self) -> float | None:
        """Share (0 to 1) of the bytes read that are in row groups without a match; None if unknown."""
        known = [query for query in self.entries if query.idle_bytes is not None]
        read = sum(query.weight * query.bytes for query in known)
        return sum(query.weight * (query.idle_bytes or 0) for query in known) / read if read else None

    def share(self, total_bytes: int) -> float:
        """Return the weighted mean of the share (0 to 1) of the table's bytes that a query reads."""
        read = sum(query.weight * query.bytes for query in self.entries)
        return read / (self.weight * total_bytes) if self.weight and total_bytes else 0.0


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Facts:
    """Everything that a report shows about a table."""

    info: TableInfo
    snapshot: Snapshot
    created: str
    """The time of the report and the version of zskip."""
    spreads: tuple[Spread, ...]
    """The columns along which files are drawn."""
    parts: tuple[IndexedPart, ...]
    history: tuple[Operation, ...]
    """The latest first."""
    queries: Queries | None = None
    upkeep: Maintenance | None = None
    """The work that `maintain` would do; None if unknown."""
    advice: Advice | None = None
    """Layouts compared on the workload; None without Spark or a workload."""
    notes: tuple[str, ...] = ()
    """What the report cannot show, and why."""

    @property
    def clustered(self) -> Operation | None:
        """The last operation that clustered rows."""
        return next((operation for operation in self.history if operation.by), None)
