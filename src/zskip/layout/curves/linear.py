"""The order of a plain sort: by the first column, then by the next."""

from __future__ import annotations

from zskip.layout.curves.base import Curve
from zskip.layout.patterns import linear_pattern


class Linear(Curve):
    """A sort, the only order of a single column."""

    name = "linear"
    least_columns = 1
    is_lexicographic = True
    has_boxes = False
    pattern = staticmethod(linear_pattern)
