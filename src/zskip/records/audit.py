"""The mismatches of an audit, and what crashed operations left."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Leftover:
    """A file or directory that an interrupted operation left behind."""

    path: str
    """Absolute, or a URI."""
    reason: str
    files: int
    """Number of files in it."""
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Cleaning:
    """Files that crashed operations left in a table and no reader needs."""

    path: str
    leftovers: tuple[Leftover, ...]
    unfinished: int
    """Committed rewrites with files that have yet to be moved into place; deletion finishes them first."""
    deleted: bool
    """Whether all leftovers were deleted; else nothing was changed."""

    @property
    def bytes(self) -> int:
        """Total size of the leftovers."""
        return sum(leftover.bytes for leftover in self.leftovers)


@dataclass(frozen=True, kw_only=True, slots=True)
class Mismatch:
    """A query whose answer differs with and without pruning, or a statistic that does not bound its file."""

    what: str
    """The smallest failing predicate as SQL, or the column whose statistic is wrong."""
    file: str | None
    """The offending file, relative to the table; None where it is not a single one."""
    expected: str
    found: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Verification:
    """The result of an audit."""

    path: str
    files: int
    """Files whose statistics were audited."""
    columns: int
    queries: int
    """Queries that ran with and without pruning."""
    mismatches: tuple[Mismatch, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.mismatches
