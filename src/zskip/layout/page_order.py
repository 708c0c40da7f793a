"""The order of the rows in a file: each page is a small box of the clustering columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from zskip.layout.cells import Keys
from zskip.layout.curves import Pattern, gather, pattern_widths
from zskip.records import Ints


class PageOrder:
    """Orders the rows of a file by halving them, page by page, along the column whose values lie widest apart."""

    def __init__(self, pattern: Pattern, weights: Sequence[float]) -> None:
        """pattern: of the rows' keys; weights: for each column how much queries ask of it, alike if empty."""
        widths = np.array(pattern_widths(pattern, max((*pattern, len(weights) - 1), default=-1) + 1))
        self._pattern = pattern
        self._scales = (np.array(weights) if weights else np.ones(len(widths))) / 2.0**widths

    def sort(self, keys: Keys, page_rows: int) -> Ints:
        """Sort the rows of one file, given their keys (int64); inside a page rows lie by key."""
        positions = cast(Ints, keys)
        columns = [gather(positions, self._pattern, column) for column in range(len(self._scales))]
        codes = np.array(columns, np.int32).reshape(len(columns), len(keys))
        pending, pages = [np.arange(len(keys))], []
        while pending:
            rows = pending.pop()
            part = codes[:, rows]
            spreads = part.max(axis=1, initial=0) - part.min(axis=1, initial=np.iinfo(np.int32).max)
            count = -(-len(rows) // page_rows)
            if count < 2 or not spreads.any():
                pages.append(rows[np.argsort(keys[rows])])
                continue
            merits = spreads * self._scales
            column = int(np.argmax(merits if merits.any() else spreads))
            middle = count // 2 * page_rows
            rows = rows[np.argpartition(part[column], middle)]
            pending += [rows[middle:], rows[:middle]]
        return np.concatenate(pages)
