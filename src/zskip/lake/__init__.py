"""`lake`: many tables at once, surveyed, ranked and maintained under one budget."""

from zskip.lake.lake import Lake
from zskip.lake.opening import lake

__all__ = ["Lake", "lake"]
