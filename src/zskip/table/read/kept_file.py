"""A file that a query has to read, with the row groups to read, and what deletes rows of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zskip.records import Deletes


class KeptFile(str):
    """The absolute path or URI of a file that might hold matching rows: a `str` that knows the row groups to read.

    >>> file = KeptFile("/data/events/part-0.parquet", (0, 3))
    >>> file.endswith(".parquet"), file.row_groups
    (True, (0, 3))
    """

    __slots__ = ("deletes", "row_groups")

    row_groups: tuple[int, ...] | None
    """Numbers of the row groups that might hold matching rows, in Parquet's order; None for all."""
    deletes: tuple[Deletes, ...]
    """What deletes rows of the file, where `Table.files` was called with `deletes=True`."""

    def __new__(
        cls, path: str, row_groups: tuple[int, ...] | None = None, deletes: tuple[Deletes, ...] = ()
    ) -> KeptFile:
        """Join a path, its row groups and its deletes."""
        file = super().__new__(cls, path)
        file.row_groups = row_groups
        file.deletes = deletes
        return file
