"""What the statistics of a column say of a monotone function of it."""

from __future__ import annotations

from zskip.predicate import Call
from zskip.records import ColumnStats


def apply(call: Call, stats: ColumnStats) -> ColumnStats | None:
    """Bounds of a function in each file, from those of its term; None where they are not known."""
    return None
