"""`prefix(n)`: the first n bytes of all values of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from zskip.errors import InputError
from zskip.predicate import Compare, Like, StartsWith
from zskip.predicate.patterns import literal_prefix, next_prefix
from zskip.sketch.arrays import ArraySketch, Stack, boxed, wanted
from zskip.sketch.base import LeftOut, Part
from zskip.sketch.column import Distinct
from zskip.sketch.registry import register
from zskip.types import DataType

_MOST = 1 << 16
"""Prefixes of a file."""


@register
@dataclass(frozen=True)
class Prefix(ArraySketch):
    """The distinct prefixes of `n` bytes, shorter values as they are: for `startswith`, `LIKE 'x%'`, `=` and IN.

    One array: the prefixes in rising order.
    """

    kind: ClassVar[str] = "prefix"
    n: int = 4

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int) or not 1 <= self.n <= 64:
            raise InputError(f"prefix({self.n}): give the bytes of a prefix, from 1 to 64: prefix(4)")

    def refusal(self, data_type: DataType) -> str | None:
        """See `Sketch`."""
        return None if data_type.name in ("string", "binary") else f"prefix knows nothing of values of type {data_type}"

    def collect(self, found: Distinct) -> tuple[Any, ...]:
        """See `ArraySketch`."""
        return _checked(sorted({value[: self.n] for value in found.held.to_pylist()}))

    def union(self, parts: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        """See `ArraySketch`."""
        return _checked(sorted(set().union(*(part[0] for part in parts))))

    def is_sound(self, arrays: tuple[Any, ...]) -> bool:
        """See `ArraySketch`."""
        return len(arrays) == 1 and arrays[0].dtype == np.object_ and all(len(p) <= self.n for p in arrays[0])

    def flags(self, part: Part, stack: Stack) -> Any:
        """See `ArraySketch`."""
        held = stack.arrays[0]
        values = wanted(part)
        if values is not None:
            cut = sorted({value[: self.n] for value in values if isinstance(value, bytes)})
            listed = boxed(cut, held)
            if not len(listed):
                return np.zeros(len(held), np.bool_)
            place = np.minimum(np.searchsorted(listed, held), len(listed) - 1)
            return listed[place] == held
        if isinstance(part, Compare):
            return self._beyond(part, stack)
        if isinstance(part, StartsWith | Like):
            prefix = part.prefix if isinstance(part, StartsWith) else literal_prefix(part.pattern, part.escape)
            return _start_with(held, prefix[: self.n]) if prefix else None
        return None

    def _beyond(self, leaf: Compare, stack: Stack) -> Any:
        """A value is below another only if its prefix is not above that of the other."""
        cut = boxed((leaf.value[: self.n],), stack.arrays[0]) if isinstance(leaf.value, bytes) else None
        if cut is None:
            return None
        held = stack.arrays[0]
        return held <= cut if leaf.op in ("<", "<=") else held >= cut


def _start_with(held: Any, prefix: bytes) -> Any:
    after = next_prefix(prefix)
    below = held < boxed((after,), held) if after is not None else np.ones(len(held), np.bool_)
    return (held >= boxed((prefix,), held)) & below


def _checked(prefixes: list[bytes]) -> tuple[Any, ...]:
    if len(prefixes) > _MOST:
        raise LeftOut(f"more than {_MOST} prefixes")
    found = np.empty(len(prefixes), np.object_)
    found[:] = prefixes
    return (found,)
