"""What a report is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from zskip.advisor.advice.advice import Advice
from zskip.records import Floats, IndexedPart, Maintenance, Operation, Snapshot, TableInfo
from zskip.report.spread import Spread


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One query of a workload, and what it reads."""

    where: str
    shape: str
    """Its text with a question mark for each literal."""
    weight: float
    columns: tuple[str, ...]
    """That it filters by."""
    files: int
    """That it reads."""
    bytes: int
    by_partitions: int
    """Files that the values of partition columns rule out; of the others, those that bounds rule out, and so on."""
    by_bounds: int
    by_sketches: int
    row_groups: float | None
    """Share (0 to 1) of the table's row groups that it reads; None where they are not known."""
    reason: str
    """Why it does not read less."""
    idle_files: int | None = None
    """Of those that it reads, the ones of which all row groups are known to hold no match; None where nobody knows."""
    idle_bytes: int | None = None
    """In row groups that are known to hold no match, as far as a file's bytes divide evenly among them."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Queries:
    """A workload, and what it reads of a table."""

    source: str
    """Where the queries are from, in words."""
    asked: tuple[Asked, ...]
    problems: tuple[str, ...]
    """What was given and cannot be used, and why."""
    reads: Floats
    """(files,) share (0 to 1) of the queries, by weight, that read each file."""

    @property
    def weight(self) -> float:
        """Of all queries together."""
        return sum(query.weight for query in self.asked)

    @property
    def idle(self) -> float | None:
        """Share (0 to 1) of the bytes read that lie in row groups known to hold no match; None where nobody knows."""
        known = [query for query in self.asked if query.idle_bytes is not None]
        read = sum(query.weight * query.bytes for query in known)
        return sum(query.weight * (query.idle_bytes or 0) for query in known) / read if read else None

    def share(self, total_bytes: int) -> float:
        """Share (0 to 1) of the table's bytes that lie in the files which a query reads, mean by weight."""
        read = sum(query.weight * query.bytes for query in self.asked)
        return read / (self.weight * total_bytes) if self.weight and total_bytes else 0.0


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Facts:
    """All that a report says of a table."""

    info: TableInfo
    snapshot: Snapshot
    made: str
    """When, and by which version of zskip."""
    spreads: tuple[Spread, ...]
    """Columns along which files are drawn."""
    parts: tuple[IndexedPart, ...]
    history: tuple[Operation, ...]
    """The latest first."""
    deep: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """By column how many files there were at each depth before the last rewrite; those of which that is known."""
    queries: Queries | None = None
    upkeep: Maintenance | None = None
    """What a maintain would do; None where that is not known."""
    advice: Advice | None = None
    """Layouts compared on the workload; None without Spark or a workload."""
    notes: tuple[str, ...] = ()
    """What the report cannot tell, and why."""

    @property
    def clustered(self) -> Operation | None:
        """The last operation that brought rows into an order."""
        return next((of for of in self.history if of.by), None)
