"""The known statistics of a footer, column by column."""

from __future__ import annotations

from typing import Any, NamedTuple

from zskip.index.collect.footers import FooterStats


class Leaf(NamedTuple):
    column: int
    nulls: int
    lower: Any
    upper: Any
    nans: int


def leaves_of(footer: FooterStats) -> list[Leaf]:
    leaves = (Leaf(*values) for values in zip(*footer.leaves, strict=True))
    return [leaf for leaf in leaves if leaf.nulls >= 0 or leaf.lower is not None]
