"""How many rows a Parquet page holds: few enough that queries decode little, so many that pages cost little."""

from __future__ import annotations

import math
from collections.abc import Sequence

LEAST_ROWS, MOST_ROWS = 2_000, 20_000
"""The most is what Parquet's writers take by themselves."""
_PAGE_BYTES = 90
"""What a page of a column takes beyond its values: its header, and its entries in the column and offset indexes."""
_BUDGET = 0.025
"""Share of a file that pages may take."""
_MARGIN = 1.02
"""Of a first page that is no typical one."""

Dictionary = tuple[float, int]
"""How many values a column has that is kept as a dictionary of them, and the bytes of each."""


def page_rows(size: int, rows: int, columns: int, dictionaries: Sequence[Dictionary] = ()) -> int:
    """Rows a page of a sorted file, from the bytes, rows and columns of the table as it is.

    A query decodes whole pages, so that fewer rows are better until the pages themselves make files grow: the fewest
    rows at which they take at most 2.5 % of a file, in hundreds, within 2,000 to 20,000.

    dictionaries: of columns that the rows are not sorted by. Parquet's writer in Java gives a dictionary up for good
    where it does not pay in the first page, and fewer rows repeat fewer values (parquet-java's `FallbackValuesWriter`).

    >>> page_rows(360_000_000, 12_000_000, 16), page_rows(30_000_000, 12_000_000, 16), page_rows(0, 0, 3)
    (2000, 20000, 20000)
    >>> page_rows(360_000_000, 12_000_000, 16, [(10_000, 8)])
    4800
    """
    if not size or not rows or not columns:
        return MOST_ROWS
    kept = [one for one in dictionaries if _pays(one, MOST_ROWS)]
    for wanted in range(LEAST_ROWS, MOST_ROWS, 100):
        lost = sum(_lost(one) for one in kept if not _pays(one, wanted))
        if rows * (columns * _PAGE_BYTES / wanted + lost) <= _BUDGET * size:
            return wanted
    return MOST_ROWS


def _pays(dictionary: Dictionary, rows: int) -> bool:
    """Whether a first page of so many rows is smaller with its dictionary than without."""
    values, width = dictionary
    seen = values * -math.expm1(-rows / values)
    return _MARGIN * seen * width + rows * _bits(seen) / 8 < rows * width


def _lost(dictionary: Dictionary) -> float:
    """Bytes a row that a column grows by without its dictionary, once both are compressed: measured with Snappy."""
    values, width = dictionary
    return max(width - _bits(values) / 8, 0) / 3


def _bits(values: float) -> int:
    return math.ceil(math.log2(max(values, 2)))
