"""How many rows a Parquet page holds: few enough that queries decode little, so many that pages cost little."""

from __future__ import annotations

import math

LEAST_ROWS, MOST_ROWS = 2_000, 20_000
"""The most is what Parquet's writers take by themselves."""
_PAGE_BYTES = 90
"""What a page of a column takes beyond its values: its header, and its entries in the column and offset indexes."""
_BUDGET = 0.025
"""Share of a file that pages may take."""


def page_rows(size: int, rows: int, columns: int) -> int:
    """Rows a page of a sorted file, from the bytes, rows and columns of the table as it is.

    A query decodes whole pages, so that fewer rows are better until the pages themselves make files grow: the fewest
    rows at which they take at most 2.5 % of a file, in hundreds, within 2,000 to 20,000.

    >>> page_rows(360_000_000, 12_000_000, 16), page_rows(30_000_000, 12_000_000, 16), page_rows(0, 0, 3)
    (2000, 20000, 20000)
    """
    if not size or not rows or not columns:
        return MOST_ROWS
    wanted = _PAGE_BYTES / (_BUDGET * size / rows / columns)
    return min(max(100 * math.ceil(wanted / 100), LEAST_ROWS), MOST_ROWS)
