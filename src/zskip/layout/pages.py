"""The rows of a Parquet page: few enough that queries decode little, enough that pages cost little."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
