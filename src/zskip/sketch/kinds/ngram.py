"""`ngram(n)`: all runs of n bytes in the values of a file, for searches inside strings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from zskip.errors import InputError
from zskip.predicate import Contains, EndsWith, Like, StartsWith
from zskip.predicate.patterns import runs
from zskip.records import Bools
from zskip.sketch.arrays import ArraySketch, Stack, State, equal_values
from zskip.sketch.base import Part, at_most
from zskip.sketch.distinct import Distinct
from zskip.sketch.hashing import Hashes
from zskip.sketch.registry import register
from zskip.types import DataType

_MOST_GRAMS = 1 << 22
"""Files with more grams get no sketch."""
_CHUNK = 1 << 22
"""Bytes of text that are split at once."""


@register
@dataclass(frozen=True)
class Ngram(ArraySketch):
    """The distinct runs of `n` bytes of UTF-8, for `contains`, LIKE, `startswith`, `endswith`, `=` and IN.

    One array: each run as a big-endian number, ascending; written as differences.
    """

    kind: ClassVar[str] = "ngram"
    n: int = 3

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int) or not 2 <= self.n <= 8:
            raise InputError(f"ngram({self.n}): give the bytes of a run, from 2 to 8: ngram(3)")

    @property
    def _size(self) -> np.dtype[Any]:
        """The integer type of a run."""
        return np.dtype(np.uint32 if self.n <= 4 else np.uint64)

    def refusal(self, data_type: DataType) -> str | None:
        return None if data_type.name in ("string", "binary") else f"ngram knows nothing of values of type {data_type}"

    def collect(self, distinct: Distinct) -> tuple[Any, ...]:
        data, offsets = distinct.text
        parts, first = [np.zeros(0, np.uint64)], 0
        while first < len(offsets) - 1:
            last = int(np.searchsorted(offsets, offsets[first] + _CHUNK, side="right")) - 1
            last = max(last, first + 1)
            cut = data[offsets[first] : offsets[last]]
            parts.append(_grams(cut, offsets[first : last + 1] - offsets[first], self.n))
            if sum(map(len, parts)) > _MOST_GRAMS:
                parts = [_distinct(parts)]
            first = last
        return (_distinct(parts).astype(self._size),)

    def union(self, parts: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        return (_distinct([part[0] for part in parts]),)

    def to_bytes(self, state: State) -> bytes:
        grams = state.arrays[0]
        steps = np.diff(grams, prepend=grams.dtype.type(0))
        # Bytes of equal significance compress better together.
        planes = steps.view(np.uint8).reshape(len(steps), steps.itemsize).T.reshape(-1)
        return super().to_bytes(State((np.ascontiguousarray(planes),), state.nulls, state.nan))

    def from_bytes(self, data: bytes) -> State:
        state = super().from_bytes(data)
        planes = state.arrays[0].reshape(self._size.itemsize, -1)
        steps = np.ascontiguousarray(planes.T).view(self._size)[:, 0]
        return State((np.cumsum(steps, dtype=self._size),), state.nulls, state.nan)

    def is_sound(self, arrays: tuple[Any, ...]) -> bool:
        return len(arrays) == 1 and arrays[0].dtype == np.uint8 and len(arrays[0]) % self._size.itemsize == 0

    def matches(self, parts: Sequence[Part], stack: Stack) -> Bools | None:
        known = [mask for part in parts if (mask := self._may_contain(part, stack)) is not None]
        return np.logical_and.reduce(known) if known else None

    def _may_contain(self, leaf: Part, stack: Stack) -> Bools | None:
        """(files,) whether the file has the grams that a matching value must have."""
        choices = _choices(leaf)
        needed = [_all_grams(choice, self.n) for choice in choices]
        if not all(map(len, needed)):
            return None  # Any file may contain a short text.
        may_match = np.zeros(len(stack.known), np.bool_)
        for grams in needed:
            may_match |= _have_all(stack, grams)
        return may_match


def _choices(leaf: Part) -> list[list[bytes]]:
    """List alternatives: a matching value contains all texts of at least one."""
    values = equal_values(leaf)
    if values is not None:
        return [[value] for value in values if isinstance(value, bytes)]
    if isinstance(leaf, StartsWith):
        return [[leaf.prefix]]
    if isinstance(leaf, EndsWith):
        return [[leaf.suffix]]
    if isinstance(leaf, Contains):
        return [[leaf.part]]
    return [runs(leaf.pattern, leaf.escape)] if isinstance(leaf, Like) else [[]]


def _all_grams(texts: Sequence[bytes], n: int) -> Hashes:
    parts = [_grams(np.frombuffer(text, np.uint8), np.array([0, len(text)]), n) for text in texts]
    return np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.uint64)


def _have_all(stack: Stack, grams: Hashes) -> Bools:
    """(files,) whether the file has all of these grams."""
    matches = np.ones(len(stack.known), np.bool_)
    for gram in grams:
        matches[matches] = _have_gram(stack, gram, np.flatnonzero(matches))
    return matches


def _have_gram(stack: Stack, gram: np.uint64, files: npt.NDArray[np.int64]) -> Bools:
    """Tell which of some files have a gram, by a binary search in all at once."""
    grams = stack.arrays[0]
    low, end = stack.offsets[files], stack.offsets[files + 1]
    high = end.copy()
    while (low < high).any():
        middle = (low + high) // 2
        below = grams[np.minimum(middle, len(grams) - 1)] < gram
        open_files = low < high
        low = np.where(open_files & below, middle + 1, low)
        high = np.where(open_files & ~below, middle, high)
    return (low < end) & (grams[np.minimum(low, max(len(grams) - 1, 0))] == gram if len(grams) else False)


def _grams(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], n: int) -> Hashes:
    """Return the runs of n bytes within the texts between the offsets, maybe with repeats."""
    count = len(data) - n + 1
    if count <= 0:
        return np.zeros(0, np.uint64)
    grams = np.zeros(count, np.uint64)
    for i in range(n):
        grams = (grams << np.uint64(8)) | data[i : i + count].astype(np.uint64)
    inside = np.ones(count, np.bool_)
    for i in range(1, n):  # A run must not start so close to the end of a text.
        ends = offsets[1:-1] - i
        inside[ends[(ends >= 0) & (ends < count)]] = False
    if n > 3:
        return np.unique(grams[inside])
    occurs = np.zeros(1 << (8 * n), np.bool_)
    occurs[grams[inside]] = True
    return np.flatnonzero(occurs).astype(np.uint64)


def _distinct(parts: Sequence[Hashes]) -> Hashes:
    return at_most(_MOST_GRAMS, "runs of bytes", np.unique(np.concatenate(parts)))
