"""Builds a segment from footer statistics, file after file."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from zskip.index.collect.footers import FooterStats, LeafLists
from zskip.index.store.leaves import Column
from zskip.index.store.listing import FILES_SCHEMA, ROW_GROUPS_SCHEMA
from zskip.index.store.segment import ENTRIES_SCHEMA, Segment, entries_table, new_name, write_segment
from zskip.records import DataFile
from zskip.storage import Storage
from zskip.types import DataType

_BUFFERED_ENTRIES = 200_000


class SegmentBuilder:
    """A segment under construction: Arrow arrays, and short lists of the latest entries."""

    def __init__(self, *, of_row_groups: bool = False) -> None:
        self.entries = 0
        self._schema = ROW_GROUPS_SCHEMA if of_row_groups else FILES_SCHEMA
        self._files: dict[str, list[Any]] = {name: [] for name in self._schema.names}
        self._columns: dict[Column, int] = {}
        self._schemas: dict[tuple[int, ...], int] = {}
        self._numbers: dict[int, tuple[tuple[Column, ...], tuple[int, ...]]] = {}
        self._defaults: set[str] = set()
        self._pending: dict[tuple[int, int], list[tuple[int, tuple[int, ...], LeafLists]]] = {}
        """The latest entries, by the identities of two tuples that they hold and that define their columns."""
        self._done: list[list[pa.Table]] = []
        self._buffered = 0

    def __len__(self) -> int:
        return len(self._files["path"])

    def add(self, file: DataFile, footer: FooterStats, table_version: int, row_group: int = 0) -> None:
        """Add a footer's statistics of a file in a version of the table, or of one of its row groups."""
        numbers = self._numbers_of(footer.columns)
        number = len(self)
        schema = self._schemas.setdefault(numbers, len(self._schemas))
        row = (file.path, file.size, file.mtime_ms, file.identity, footer.rows, schema, table_version, row_group)
        for values, value in zip(self._files.values(), row, strict=False):
            values.append(value)
        self._pending.setdefault((id(numbers), id(footer.leaves.columns)), []).append((number, numbers, footer.leaves))
        self._defaults |= footer.defaults
        self.entries += len(footer.leaves.columns)
        self._buffered += len(footer.leaves.columns)
        if self._buffered >= _BUFFERED_ENTRIES:
            self._pack()

    def _numbers_of(self, columns: tuple[Column, ...]) -> tuple[int, ...]:
        """The numbers of a file's columns; files of one schema share the tuple, so it is compared by identity."""
        known = self._numbers.get(id(columns))
        if known is not None:
            return known[1]
        numbers = tuple(self._columns.setdefault(column, len(self._columns)) for column in columns)
        missing = len(self._columns) - len(self._done)
        self._done.extend([] for _ in range(missing))
        if len(self._numbers) < 1024:
            self._numbers[id(columns)] = (columns, numbers)
        return numbers

    def _pack(self) -> None:
        rows: dict[int, list[list[Any]]] = {}
        for files in self._pending.values():
            ids = [file_number for file_number, _, _ in files]
            _, numbers, leaves = files[0]
            by_column = (zip(*lists, strict=True) for lists in zip(*(part[1:] for _, _, part in files), strict=True))
            for column, *values in zip(leaves.columns, *by_column, strict=True):
                target_lists = rows.setdefault(numbers[column], [[], [], [], [], []])
                for target, new in zip(target_lists, (ids, *values), strict=True):
                    target.extend(new)
        columns = list(self._columns)
        for number, lists in rows.items():
            table = _pack_rows(number, columns[number], *lists)
            self._done[number].append(table.sort_by("file") if len(self._pending) > 1 else table)
        self._pending = {}
        self._buffered = 0

    def finish(self, storage: Storage) -> Segment:
        """Write the segment."""
        self._pack()
        listing = pa.table(self._files, schema=self._schema)
        return write_segment(
            storage, new_name(), listing, tuple(self._columns), tuple(self._schemas), self._defaults, self._tables()
        )

    def _tables(self) -> Iterator[pa.Table]:
        for tables in self._done:
            yield pa.concat_tables(tables) if tables else ENTRIES_SCHEMA.empty_table()


def _pack_rows(
    number: int, column: Column, files: list[int], nulls: list[int], lower: list[Any], upper: list[Any], nans: list[int]
) -> pa.Table:
    """The entries of a column; files without statistics have none."""
    form = DataType(column.type or "").form
    assert form is not None, "only columns with an order have statistics"
    if -1 in nulls:
        known = [count >= 0 or bound is not None for count, bound in zip(nulls, lower, strict=True)]
        files, nulls, lower, upper, nans = (
            list(itertools.compress(values, known)) for values in (files, nulls, lower, upper, nans)
        )
    return entries_table(number, form, files=files, nulls=nulls, nans=nans, lower=lower, upper=upper)
