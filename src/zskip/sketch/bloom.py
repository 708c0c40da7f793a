"""`bloom(fpp)`: a Bloom filter for `=` and IN, of the size that each file's own distinct values need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zskip.errors import InputError
from zskip.predicate import TermLeaf
from zskip.records import Bools
from zskip.sketch.arrays import ArraySketch, Stack, State, wanted
from zskip.sketch.base import LeftOut
from zskip.sketch.column import Distinct, buffers
from zskip.sketch.hashing import Hashes, hash_bytes, hash_fixed
from zskip.sketch.registry import register
from zskip.types import DataType, Encoded, Form

_SALTS = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint32
)
"""Of Parquet's Bloom filters."""
_WORDS = len(_SALTS)
_MOST = 1 << 22
"""Distinct values of a file that has a filter."""


@register
@dataclass(frozen=True)
class Bloom(ArraySketch):
    """A split-block Bloom filter as Parquet's: xxHash64, blocks of 8 words of 32 bits, one bit in each for a value.

    One array: the words of all blocks. While a file is read it is the distinct hashes instead (uint64).
    """

    kind: ClassVar[str] = "bloom"
    fpp: float = 0.01

    def __post_init__(self) -> None:
        if isinstance(self.fpp, bool) or not isinstance(self.fpp, int | float) or not 1e-6 <= self.fpp <= 0.5:
            raise InputError(
                f"bloom({self.fpp}): give the share of values that may be found by mistake, "
                "from 0.000001 to 0.5: bloom(0.01)"
            )

    def collect(self, found: Distinct) -> tuple[Any, ...]:
        """See `ArraySketch`."""
        return (_checked(np.unique(found.hashes)),)

    def union(self, parts: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        """See `ArraySketch`."""
        arrays = [part[0] for part in parts]
        if all(array.dtype == np.uint64 for array in arrays):
            return (_checked(np.unique(np.concatenate(arrays))),)
        return (_merged([self._filter(array) for array in arrays]),)

    def finish(self, state: State) -> State:
        """See `Sketch`."""
        return State((self._filter(state.arrays[0]),), state.nulls, state.nan)

    def _filter(self, array: Any) -> Any:
        if array.dtype != np.uint64:
            return array
        return _filled(array, blocks_for(len(array), self.fpp)) if len(array) else np.zeros(0, np.uint32)

    def is_sound(self, arrays: tuple[Any, ...]) -> bool:
        """See `ArraySketch`."""
        return len(arrays) == 1 and arrays[0].dtype == np.uint32 and len(arrays[0]) % _WORDS == 0

    def matches(self, leaf: TermLeaf, stack: Stack) -> Bools | None:
        """See `ArraySketch`."""
        values = wanted(leaf)
        if values is None:
            return None
        found = np.zeros(len(stack.known), np.bool_)
        filled = stack.lengths > 0
        blocks = (stack.lengths[filled] // _WORDS).astype(np.uint64)
        starts = stack.offsets[:-1][filled] // _WORDS
        words = stack.arrays[0].reshape(-1, _WORDS)
        hit = np.zeros(len(starts), np.bool_)
        for one in _hashes(values, leaf.term.type):
            bits = _bits(one[None])
            hit |= np.all(words[starts + _block(one, blocks)] & bits == bits, axis=1)
        found[filled] = hit
        return found


def blocks_for(distinct: int, fpp: float) -> int:
    """The blocks of the smallest filter that finds no more than `fpp` of other values by mistake.

    Sizes are 1, 2, 3, 4, 6, 8, 12 ... blocks: of any two, the larger is a multiple of the smaller or of its half.

    >>> blocks_for(1000, 0.01) * 32
    1536
    """
    size = 1
    while expected_fpp(size, distinct) > fpp:
        size = {1: 2, 2: 3}.get(size) or (size * 3 // 2 if size & (size - 1) == 0 else size // 3 * 4)
    return size


@lru_cache(maxsize=4096)
def expected_fpp(blocks: int, distinct: int) -> float:
    """The share of values found by mistake: the values that share a block are distributed as Poisson says."""
    load = distinct / blocks
    if load > 500:
        return 1.0
    total, chance = 0.0, math.exp(-load)
    for held in range(int(load + 12 * math.sqrt(load) + 20)):
        total += chance * (1 - (31 / 32) ** held) ** _WORDS
        chance *= load / (held + 1)
    return total


def _checked(hashes: Hashes) -> Hashes:
    if len(hashes) > _MOST:
        raise LeftOut(f"more than {_MOST} distinct values")
    return hashes


def _hashes(values: Sequence[Encoded], data_type: DataType) -> Hashes:
    if data_type.form is Form.BYTES:
        return hash_bytes(*buffers(pa.array(values, pa.large_binary())))
    if data_type.form is Form.FLOAT:
        return hash_fixed(np.array(values, np.float64) + 0.0)
    return hash_fixed(np.array(values, np.int64))


def _block(hashes: Any, blocks: Any) -> npt.NDArray[np.int64]:
    """Which block a hash falls into, of so many: its upper half as a share."""
    place = ((hashes >> np.uint64(32)) * np.uint64(blocks)) >> np.uint64(32)
    return np.asarray(place, np.int64)


def _bits(hashes: Hashes) -> npt.NDArray[np.uint32]:
    """(hashes, 8) the bit in each word."""
    low = (hashes & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    return np.uint32(1) << ((low[:, None] * _SALTS) >> np.uint32(27))


def _filled(hashes: Hashes, blocks: int) -> Any:
    words = np.zeros((blocks, _WORDS), np.uint32)
    where = _block(hashes, np.uint64(blocks))
    np.bitwise_or.at(words, where, _bits(hashes))
    return words.reshape(-1)


def _merged(filters: Sequence[Any]) -> Any:
    """One filter that finds what any does: each block of a smaller one stands for several of a larger one."""
    sizes = [len(words) // _WORDS for words in filters if len(words)]
    if not sizes:
        return np.zeros(0, np.uint32)
    blocks = math.lcm(*sizes)
    merged = np.zeros((blocks, _WORDS), np.uint32)
    for words in filters:
        if len(words):
            own = words.reshape(-1, _WORDS)
            merged |= np.repeat(own, blocks // len(own), axis=0)
    return merged.reshape(-1)
