"""`values(cap)`: all distinct values of a file, if they are few."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from zskip.errors import InputError
from zskip.predicate import Compare, Contains, EndsWith, In, Like, Not, StartsWith, TermLeaf, patterns
from zskip.sketch.arrays import ArraySketch, Stack
from zskip.sketch.base import Part, at_most, leaf_of
from zskip.sketch.distinct import Distinct
from zskip.sketch.intervals import meets, to_array
from zskip.sketch.registry import register


@register
@dataclass(frozen=True)
class ValueSet(ArraySketch):
    """All distinct values of files with at most `cap`; answers every leaf on its term exactly.

    One array: the values in ascending order.
    """

    kind: ClassVar[str] = "values"
    negations: ClassVar[bool] = True
    cap: int = 100

    def __post_init__(self) -> None:
        if isinstance(self.cap, bool) or not isinstance(self.cap, int) or not 1 <= self.cap <= 1_000_000:
            raise InputError(f"values({self.cap}): give the most values of a file, from 1 to 1000000: values(100)")

    def collect(self, distinct: Distinct) -> tuple[Any, ...]:
        return (at_most(self.cap, "distinct values", distinct).values,)

    def union(self, parts: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        return (at_most(self.cap, "distinct values", np.unique(np.concatenate([part[0] for part in parts]))),)

    def is_sound(self, arrays: tuple[Any, ...]) -> bool:
        return len(arrays) == 1 and len(arrays[0]) <= self.cap

    def flags(self, part: Part, stack: Stack) -> Any:
        return _flags(leaf_of(part), stack.arrays[0], isinstance(part, Not))


def _flags(leaf: TermLeaf, values: Any, negated: bool) -> Any:
    """Tell for which values a leaf, or its negation, may be true."""
    if isinstance(leaf, EndsWith | Contains | Like):
        test = patterns.test(leaf)
        return np.array([test(value) is not negated for value in values], np.bool_)
    matches = np.asarray(_matches(leaf, values), np.bool_)
    return ~matches if negated else matches


def _matches(leaf: TermLeaf, values: Any) -> Any:
    if isinstance(leaf, Compare):
        value = to_array((leaf.value,), values)
        return {
            "=": np.equal,
            "<": np.less,
            "<=": np.less_equal,
            ">": np.greater,
            ">=": np.greater_equal,
        }[leaf.op](values, value)
    if isinstance(leaf, In):
        listed = to_array(leaf.values, values)
        return meets(listed, listed, values, values)
    assert isinstance(leaf, StartsWith)
    return [value.startswith(leaf.prefix) for value in values]
