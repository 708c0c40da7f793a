"""`bloom(fpp)`: a Bloom filter for `=` and IN, sized for the distinct values of each file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zskip.errors import InputError
from zskip.sketch.arrays import ArraySketch, Stack, State, equal_values
from zskip.sketch.base import Part, at_most, leaf_of
from zskip.sketch.distinct import Distinct, binary_buffers
from zskip.sketch.hashing import Hashes, hash_bytes, hash_fixed
from zskip.sketch.registry import register
from zskip.types import DataType, Encoded, Form

_SALTS = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint32
)
"""The salts of Parquet's Bloom filters."""
_WORDS = len(_SALTS)
_MOST_VALUES = 1 << 22
"""Files with more distinct values get no filter."""


@register
@dataclass(frozen=True)
class Bloom(ArraySketch):
    """A split-block Bloom filter as in Parquet: xxHash64, blocks of 8 words of 32 bits, one bit in each for a value.

    Two arrays: the number of blocks of each filter (a merged state has several), and the words of all. While a file is
    read, the state is one array of distinct hashes instead.
    """

    kind: ClassVar[str] = "bloom"
    fpp: float = 0.01

    def __post_init__(self) -> None:
        if isinstance(self.fpp, bool) or not isinstance(self.fpp, int | float) or not 1e-6 <= self.fpp <= 0.5:
            raise InputError(
                f"bloom({self.fpp}): give the share of values that may be found by mistake, "
                "from 0.000001 to 0.5: bloom(0.01)"
            )

    def collect(self, distinct: Distinct) -> tuple[Any, ...]:
        return (at_most(_MOST_VALUES, "distinct values", np.unique(distinct.hashes)),)

    def union(self, parts: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        """See `ArraySketch`; filters of different sizes cannot be merged, so all are kept and queried."""
        if all(len(part) == 1 for part in parts):
            return (at_most(_MOST_VALUES, "distinct values", np.unique(np.concatenate([part[0] for part in parts]))),)
        filters = [self._filter(part) for part in parts]
        return tuple(np.concatenate([arrays[i] for arrays in filters]) for i in (0, 1))

    def finish(self, state: State) -> State:
        return State(self._filter(state.arrays), state.nulls, state.nan)

    def _filter(self, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(arrays) == 2:
            return arrays
        blocks = blocks_for(len(arrays[0]), self.fpp)
        return np.array([blocks][: len(arrays[0])], np.uint32), _set_bits(arrays[0], blocks)

    def is_sound(self, arrays: tuple[Any, ...]) -> bool:
        if len(arrays) != 2 or any(array.dtype != np.uint32 for array in arrays):
            return False
        return int(arrays[0].sum()) * _WORDS == len(arrays[1]) and bool(np.all(arrays[0] > 0))

    def flags(self, part: Part, stack: Stack) -> Any:
        values = equal_values(part)
        if values is None:
            return None
        blocks = stack.arrays[0].astype(np.int64)
        starts, words = np.cumsum(blocks) - blocks, stack.arrays[1].reshape(-1, _WORDS)
        hit = np.zeros(len(blocks), np.bool_)
        for hashed in _hashes(values, leaf_of(part).term.type):
            bits = _bits(hashed[None])
            hit |= np.all(words[starts + _block(hashed, blocks)] & bits == bits, axis=1)
        return hit


def blocks_for(distinct: int, fpp: float) -> int:
    """Return the blocks of the smallest filter with at most `fpp` false positives.

    >>> blocks_for(1000, 0.01) * 32
    1344
    """
    low, high = 0, 1
    while expected_fpp(high, distinct) > fpp:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if expected_fpp(middle, distinct) > fpp else (low, middle)
    return high


def expected_fpp(blocks: int, distinct: int) -> float:
    """Return the share of false positives: the number of values in a block has a Poisson distribution."""
    load = distinct / blocks
    if load > 500:
        return 1.0
    total, chance = 0.0, math.exp(-load)
    for values in range(int(load + 12 * math.sqrt(load) + 20)):
        total += chance * (1 - (31 / 32) ** values) ** _WORDS
        chance *= load / (values + 1)
    return total


def _hashes(values: Sequence[Encoded], data_type: DataType) -> Hashes:
    if data_type.form is Form.BYTES:
        return hash_bytes(*binary_buffers(pa.array(values, pa.large_binary())))
    if data_type.form is Form.FLOAT:
        return hash_fixed(np.array(values, np.float64) + 0.0)
    return hash_fixed(np.array(values, np.int64))


def _block(hashes: Any, blocks: Any) -> npt.NDArray[np.int64]:
    """Choose the block of a hash by its upper half."""
    block = ((hashes >> np.uint64(32)) * np.asarray(blocks, np.uint64)) >> np.uint64(32)
    return np.asarray(block, np.int64)


def _bits(hashes: Hashes) -> npt.NDArray[np.uint32]:
    """(hashes, 8) the bit to set in each word."""
    low = (hashes & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    return np.uint32(1) << ((low[:, None] * _SALTS) >> np.uint32(27))


def _set_bits(hashes: Hashes, blocks: int) -> Any:
    if not len(hashes):
        return np.zeros(0, np.uint32)
    words = np.zeros((blocks, _WORDS), np.uint32)
    where = _block(hashes, blocks)
    np.bitwise_or.at(words, where, _bits(hashes))
    return words.reshape(-1)
