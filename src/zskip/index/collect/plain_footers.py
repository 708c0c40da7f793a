"""What footers say in tuples and numbers alone, in which one process tells it to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO

from zskip.index.collect.footers import FooterReader, FooterStats, LeafLists
from zskip.index.store.leaves import Column
from zskip.storage import FileParser


def make_footer_parser(row_groups: bool) -> Callable[[], FileParser]:
    """Makes what looks at footers; row_groups: whether it tells of them, too. Nothing of it is tied to this process."""

    def make() -> FileParser:
        reader = FooterReader()
        known: dict[int, tuple[object, Any]] = {}

        def plain(found: FooterStats) -> Any:
            # Footers that are read alike share their columns, also on the way to another process.
            held = known.get(id(found.columns))
            if held is None:
                held = known[id(found.columns)] = (found.columns, tuple((*column,) for column in found.columns))
            parts = [plain(part) for part in found.row_groups]
            return found.rows, held[1], sorted(found.defaults), (*found.leaves,), parts

        def look(stream: BinaryIO, size: int) -> Any:
            return plain(reader.read(stream, size, row_groups=row_groups))

        return look

    return make


class PlainFooterReader:
    """Undoes `looker`; what files have in common is one object again."""

    def __init__(self) -> None:
        self._columns: dict[Any, tuple[Column, ...]] = {}
        self._leaves: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._last: tuple[object, tuple[Column, ...]] = (None, ())

    def read(self, plain: Any) -> FooterStats:
        """What a footer says."""
        rows, columns, defaults, (leaves, *lists), parts = plain
        if columns is not self._last[0]:
            known = self._columns.get(columns)
            if known is None:
                known = self._columns[columns] = tuple(Column(path, name) for path, name in columns)
            self._last = (columns, known)
        return FooterStats(
            rows=rows,
            columns=self._last[1],
            defaults=frozenset(defaults),
            leaves=LeafLists(self._leaves.setdefault(leaves, leaves), *lists),
            row_groups=tuple(map(self.read, parts)),
        )
