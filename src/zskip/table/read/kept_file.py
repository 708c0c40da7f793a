"""A file that a query has to read, with the row groups to read."""

from __future__ import annotations


class KeptFile(str):
    """The absolute path or URI of a file that might hold matching rows: a `str` that knows the row groups to read.

    >>> file = KeptFile("/data/events/part-0.parquet", (0, 3))
    >>> file.endswith(".parquet"), file.row_groups
    (True, (0, 3))
    """

    __slots__ = ("row_groups",)

    row_groups: tuple[int, ...] | None
    """Numbers of the row groups that might hold matching rows, in Parquet's order; None for all."""

    def __new__(cls, path: str, row_groups: tuple[int, ...] | None = None) -> KeptFile:
        """Join a path and its row groups."""
        file = super().__new__(cls, path)
        file.row_groups = row_groups
        return file
