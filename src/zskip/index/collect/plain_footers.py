"""Footer statistics as plain tuples and numbers, for transfer between processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO

from zskip.index.collect.footers import FooterReader, FooterStats, LeafLists
from zskip.index.store.leaves import Column
from zskip.storage import FileParser


def make_footer_parser(row_groups: bool, *, with_ids: bool = False) -> Callable[[], FileParser]:
    """The factory of a parser of footers that is not tied to this process.

    row_groups: whether it includes them; with_ids: as for `FooterReader`.
    """

    def make_parser() -> FileParser:
        reader = FooterReader(with_ids=with_ids)
        cached: dict[int, tuple[object, Any]] = {}

        def to_plain(footer: FooterStats) -> Any:
            # Footers with the same plan share their columns, even when pickled for another process.
            shared = cached.get(id(footer.columns))
            if shared is None:
                shared = cached[id(footer.columns)] = (footer.columns, tuple((*column,) for column in footer.columns))
            parts = [to_plain(part) for part in footer.row_groups]
            return footer.rows, shared[1], sorted(footer.defaults), (*footer.leaves,), parts

        def parse(stream: BinaryIO, size: int) -> Any:
            return to_plain(reader.read(stream, size, row_groups=row_groups))

        return parse

    return make_parser


class PlainFooterReader:
    """Restores `FooterStats` from plain values; equal parts become one shared object again."""

    def __init__(self) -> None:
        self._columns: dict[Any, tuple[Column, ...]] = {}
        self._leaves: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._last: tuple[object, tuple[Column, ...]] = (None, ())

    def read(self, plain: Any) -> FooterStats:
        """Restore one footer's statistics."""
        rows, columns, defaults, (leaves, *lists), parts = plain
        if columns is not self._last[0]:
            known = self._columns.get(columns)
            if known is None:
                known = self._columns[columns] = tuple(Column(*column) for column in columns)
            self._last = (columns, known)
        return FooterStats(
            rows=rows,
            columns=self._last[1],
            defaults=frozenset(defaults),
            leaves=LeafLists(self._leaves.setdefault(leaves, leaves), *lists),
            row_groups=tuple(map(self.read, parts)),
        )
