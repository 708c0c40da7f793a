"""The rows of a Parquet page: how many, so that queries decode little and pages cost little, and which of a file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from zskip.layout.cells import Keys
from zskip.layout.patterns import Pattern, gather, pattern_widths
from zskip.records import Bools, Ints

LEAST_ROWS, MOST_ROWS = 2_000, 20_000
"""The most is the default of Parquet's writers."""
_PAGE_BYTES = 90
"""Overhead of a column's page: its header, and its entries in the column and offset indexes."""
_BUDGET = 0.025
"""Share of a file that pages may take."""
_MARGIN = 1.02
"""Allowance for a first page that is not typical."""

Dictionary = tuple[float, int]
"""Number of values in a column's dictionary, and the bytes of each."""


def page_rows(size: int, rows: int, columns: int, dictionaries: Sequence[Dictionary] = ()) -> int:
    """Choose the rows per page of a sorted file from the bytes, rows and columns of the current table.

    A query decodes whole pages, so fewer rows are better until the pages themselves enlarge files: take the fewest
    rows, in hundreds from 2,000 to 20,000, at which pages take at most 2.5 % of a file.

    dictionaries: of columns that the rows are not sorted by. Parquet's writer in Java abandons a dictionary that does
    not pay in the first page, and fewer rows repeat fewer values (parquet-java's `FallbackValuesWriter`).

    >>> page_rows(360_000_000, 12_000_000, 16), page_rows(30_000_000, 12_000_000, 16), page_rows(0, 0, 3)
    (2000, 20000, 20000)
    >>> page_rows(360_000_000, 12_000_000, 16, [(10_000, 8)])
    4800
    """
    if not size or not rows or not columns:
        return MOST_ROWS
    paying = [one for one in dictionaries if _pays(one, MOST_ROWS)]
    for page in range(LEAST_ROWS, MOST_ROWS, 100):
        lost = sum(_lost(one) for one in paying if not _pays(one, page))
        if rows * (columns * _PAGE_BYTES / page + lost) <= _BUDGET * size:
            return page
    return MOST_ROWS


def _pays(dictionary: Dictionary, rows: int) -> bool:
    """Whether a first page of `rows` rows is smaller with its dictionary than without."""
    values, width = dictionary
    distinct = values * -math.expm1(-rows / values)
    return _MARGIN * distinct * width + rows * _bits(distinct) / 8 < rows * width


def _lost(dictionary: Dictionary) -> float:
    """The bytes per row that a column gains without its dictionary, both compressed: measured with Snappy."""
    values, width = dictionary
    return max(width - _bits(values) / 8, 0) / 3


def _bits(values: float) -> int:
    return math.ceil(math.log2(max(values, 2)))


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
        if len(keys) <= page_rows:
            return order
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
