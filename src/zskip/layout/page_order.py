"""The order of the rows in a file: each page is a small box of the clustering columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from zskip.layout.cells import Keys
from zskip.layout.curves import Pattern, gather, pattern_widths
from zskip.records import Bools, Ints


class PageOrder:
    """Orders the rows of a file by halving them, page by page, along the column whose values lie widest apart."""

    def __init__(self, pattern: Pattern, weights: Sequence[float]) -> None:
        """pattern: of the rows' keys; weights: for each column how much queries ask of it, alike if empty."""
        widths = np.array(pattern_widths(pattern, max((*pattern, len(weights) - 1), default=-1) + 1))
        self._pattern = pattern
        self._scales = (np.array(weights) if weights else np.ones(len(widths))) / 2.0**widths

    def sort(self, keys: Keys, page_rows: int) -> Ints:
        """Sort the rows of one file, given their keys (int64); inside a page rows lie by key."""
        order = np.argsort(keys)
        ordered = cast(Ints, keys[order])
        columns = [gather(ordered, self._pattern, column).astype(np.int32) for column in range(len(self._scales))]
        pending, pages = [(order, columns)], []
        while pending:
            rows, columns = pending.pop()
            count = -(-len(rows) // page_rows)
            spreads = np.array([np.ptp(codes) for codes in columns]) if count > 1 else np.zeros(1)
            if not spreads.any():
                pages.append(rows)
                continue
            merits = spreads * self._scales
            is_left = _first_rows(columns[int(np.argmax(merits if merits.any() else spreads))], count // 2 * page_rows)
            for side in (~is_left, is_left):
                pending.append((rows[side], [codes[side] for codes in columns]))
        return np.concatenate(pages)


def _first_rows(codes: npt.NDArray[np.int32], count: int) -> Bools:
    """Whether each row is among the `count` of the least codes; of equal ones the first are."""
    last = np.partition(codes, count)[count]
    is_first: Bools = codes < last
    is_first[np.flatnonzero(codes == last)[: count - np.count_nonzero(is_first)]] = True
    return is_first
