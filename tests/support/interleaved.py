"""Keys of whole rows, from the bits that `spread` lays down for one column at a time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

from zskip.layout.patterns import spread
from zskip.records import Ints


def interleave(codes: Sequence[Ints], pattern: Sequence[int]) -> Ints:
    """The keys of rows; codes: of each column, (rows,)."""
    return reduce(or_, (spread(of_column, pattern, column) for column, of_column in enumerate(codes)))
