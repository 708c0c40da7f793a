"""`prefix(n)`: the first n bytes of all values of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from zskip.errors import InputError
from zskip.predicate import Compare, Like, StartsWith
from zskip.predicate.patterns import prefix_of
from zskip.records import objects
from zskip.sketch.arrays import ArraySketch, Stack, equal_values
from zskip.sketch.base import Part, at_most
from zskip.sketch.distinct import Distinct
from zskip.sketch.intervals import may_start_with, meets, to_array
from zskip.sketch.registry import register
from zskip.types import DataType

_MOST_PREFIXES = 1 << 16
"""Files with more prefixes get no sketch."""


@register
@dataclass(frozen=True)
class Prefix(ArraySketch):
    """The distinct prefixes of `n` bytes, or whole shorter values: for `startswith`, `LIKE 'x%'`, `=` and IN.

    One array: the prefixes in ascending order.
    """

    kind: ClassVar[str] = "prefix"
    n: int = 4

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int) or not 1 <= self.n <= 64:
            raise InputError(f"prefix({self.n}): give the bytes of a prefix, from 1 to 64: prefix(4)")

    def refusal(self, data_type: DataType) -> str | None:
        return None if data_type.name in ("string", "binary") else f"prefix knows nothing of values of type {data_type}"

    def collect(self, distinct: Distinct) -> tuple[Any, ...]:
        return self._keep({value[: self.n] for value in distinct.unsorted.to_pylist()})

    def union(self, parts: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        return self._keep(set().union(*(part[0] for part in parts)))

    def _keep(self, prefixes: set[bytes]) -> tuple[Any, ...]:
        return (objects(sorted(at_most(_MOST_PREFIXES, "prefixes", prefixes))),)

    def is_sound(self, arrays: tuple[Any, ...]) -> bool:
        return len(arrays) == 1 and arrays[0].dtype == np.object_ and all(len(p) <= self.n for p in arrays[0])

    def flags(self, part: Part, stack: Stack) -> Any:
        prefixes = stack.arrays[0]
        values = equal_values(part)
        if values is not None:
            cut_values = sorted({value[: self.n] for value in values if isinstance(value, bytes)})
            listed = to_array(cut_values, prefixes)
            return meets(listed, listed, prefixes, prefixes)
        if isinstance(part, Compare):
            return self._compare(part, stack)
        if isinstance(part, StartsWith | Like):
            prefix = prefix_of(part)[: self.n]
            return may_start_with(prefixes, prefixes, prefix) if prefix else None
        return None

    def _compare(self, leaf: Compare, stack: Stack) -> Any:
        """Compare prefixes: a value can be below another only if its prefix is not above the other's."""
        bound = to_array((leaf.value[: self.n],), stack.arrays[0]) if isinstance(leaf.value, bytes) else None
        if bound is None:
            return None
        prefixes = stack.arrays[0]
        return prefixes <= bound if leaf.op in ("<", "<=") else prefixes >= bound
