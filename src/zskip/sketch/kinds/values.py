"""`values(cap)`: all distinct values of a file, where they are few."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from zskip.errors import InputError
from zskip.predicate import Compare, Contains, EndsWith, In, Like, Not, StartsWith, TermLeaf, patterns
from zskip.sketch.arrays import ArraySketch, Stack, boxed
from zskip.sketch.base import LeftOut, Part, leaf_of
from zskip.sketch.column import Distinct
from zskip.sketch.registry import register


@register
@dataclass(frozen=True)
class ValueSet(ArraySketch):
    """All distinct values, of files that hold at most `cap`: answers every leaf on its term exactly.

    One array: the values in rising order.
    """

    kind: ClassVar[str] = "values"
    negations: ClassVar[bool] = True
    cap: int = 100

    def __post_init__(self) -> None:
        if isinstance(self.cap, bool) or not isinstance(self.cap, int) or not 1 <= self.cap <= 1_000_000:
            raise InputError(f"values({self.cap}): give the most values of a file, from 1 to 1000000: values(100)")

    def collect(self, found: Distinct) -> tuple[Any, ...]:
        """See `ArraySketch`."""
        self._check(len(found))
        return (found.values,)

    def union(self, parts: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        """See `ArraySketch`."""
        together = np.unique(np.concatenate([part[0] for part in parts]))
        self._check(len(together))
        return (together,)

    def _check(self, count: int) -> None:
        if count > self.cap:
            raise LeftOut(f"more than {self.cap} distinct values")

    def is_sound(self, arrays: tuple[Any, ...]) -> bool:
        """See `ArraySketch`."""
        return len(arrays) == 1 and len(arrays[0]) <= self.cap

    def flags(self, part: Part, stack: Stack) -> Any:
        """See `ArraySketch`."""
        return _flags(leaf_of(part), stack.arrays[0], isinstance(part, Not))


def _flags(leaf: TermLeaf, values: Any, negated: bool) -> Any:
    """For which values a leaf, or its negation, may be true."""
    if isinstance(leaf, EndsWith | Contains | Like):
        test = patterns.test(leaf)
        return np.array([test(value) is not negated for value in values], np.bool_)
    found = np.asarray(_true(leaf, values), np.bool_)
    return ~found if negated else found


def _true(leaf: TermLeaf, values: Any) -> Any:
    if isinstance(leaf, Compare):
        value = boxed((leaf.value,), values)
        return {
            "=": np.equal,
            "<": np.less,
            "<=": np.less_equal,
            ">": np.greater,
            ">=": np.greater_equal,
        }[leaf.op](values, value)
    if isinstance(leaf, In):
        listed = boxed(leaf.values, values)
        if not len(listed):
            return np.zeros(len(values), np.bool_)
        place = np.minimum(np.searchsorted(listed, values), len(listed) - 1)
        return listed[place] == values
    assert isinstance(leaf, StartsWith)
    return [value.startswith(leaf.prefix) for value in values]
