"""The Hilbert curve in any number of dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from zskip.layout.curves.base import Curve
from zskip.layout.patterns import KEY_BITS, Pattern, Words, interleave_words, zorder_pattern
from zskip.records import Ints

_ONE = np.uint64(1)
_ZERO = np.uint64(0)


class Hilbert(Curve):
    """The Hilbert curve, whose columns have the same number of bits."""

    name = "hilbert"
    is_separable = False
    has_boxes = False

    @staticmethod
    def pattern(widths: Sequence[int], bits: int) -> Pattern:
        return zorder_pattern([min(max(widths), bits // len(widths))] * len(widths), bits)

    def table(self, codes: Ints, pattern: Pattern, column: int) -> Ints:
        return codes

    def keys(self, parts: Iterable[Ints], pattern: Pattern) -> Ints:
        codes = list(parts)
        return hilbert_keys(codes, len(pattern) // len(codes))

    def byte_keys(self, words: Sequence[Words], pattern: Pattern) -> npt.NDArray[np.bytes_]:
        return hilbert_bytes(words)


def hilbert_keys(codes: Sequence[Ints], bits: int) -> Ints:
    """Positions on the Hilbert curve, as int64 keys of len(codes) * bits <= 63 bits.

    codes: one (rows,) array for each column, in [0, 2**bits) (Skilling 2004, "Programming the Hilbert curve"). Raises
    ValueError where the key would need more than 63 bits.

    >>> hilbert_keys([np.array([0, 0, 1, 1]), np.array([0, 1, 1, 0])], 1).tolist()
    [0, 1, 2, 3]
    """
    if len(codes) * bits > KEY_BITS:
        raise ValueError(f"a Hilbert key of {len(codes) * bits} bits does not fit into {KEY_BITS}")
    words = _transform([column.astype(np.uint64) for column in codes], bits)
    keys = np.zeros(len(codes[0]), np.uint64)
    for level in range(bits - 1, -1, -1):
        for word in words:
            keys = (keys << _ONE) | ((word >> np.uint64(level)) & _ONE)
    return keys.astype(np.int64)


def hilbert_bytes(words: Sequence[Words]) -> npt.NDArray[np.bytes_]:
    """Positions of 64-bit words on the Hilbert curve, as byte-string keys of 8 bytes a column."""
    return interleave_words(_transform([word.copy() for word in words], 64))


def _transform(x: list[Words], bits: int) -> list[Words]:
    """Skilling's AxestoTranspose on all rows at once, in place."""
    last = len(x) - 1
    for level in range(bits - 1, 0, -1):
        low = np.uint64((1 << level) - 1)
        for i in range(len(x)):
            is_set = _ZERO - ((x[i] >> np.uint64(level)) & _ONE)
            exchange = low & ~is_set
            swapped = (x[0] ^ x[i]) & exchange
            x[0] ^= swapped | (low & is_set)
            if i:
                x[i] ^= swapped
    for i in range(1, len(x)):
        x[i] ^= x[i - 1]
    flip = np.zeros_like(x[0])
    for level in range(bits - 1, 0, -1):
        flip ^= (_ZERO - ((x[last] >> np.uint64(level)) & _ONE)) & np.uint64((1 << level) - 1)
    for word in x:
        word ^= flip
    return x
