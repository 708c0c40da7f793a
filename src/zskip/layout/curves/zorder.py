"""The Z-order: the bits of the columns in turn."""

from __future__ import annotations

from zskip.layout.curves.base import Curve
from zskip.layout.patterns import zorder_pattern


class ZOrder(Curve):
    """The Z-order (Morton 1966)."""

    name = "zorder"
    pattern = staticmethod(zorder_pattern)
