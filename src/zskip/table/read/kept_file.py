"""A file that a query has to read, and which parts of it."""

from __future__ import annotations


class KeptFile(str):
    """The absolute path or URI of a file that might hold matching rows: text like any other, that knows its row groups.

    >>> file = KeptFile("/data/events/part-0.parquet", (0, 3))
    >>> file.endswith(".parquet"), file.row_groups
    (True, (0, 3))
    """

    __slots__ = ("row_groups",)

    row_groups: tuple[int, ...] | None
    """Numbers of the row groups that might hold matching rows, as Parquet orders them; None for all."""

    def __new__(cls, path: str, row_groups: tuple[int, ...] | None = None) -> KeptFile:
        """Join a path and what to read of it."""
        made = super().__new__(cls, path)
        made.row_groups = row_groups
        return made
