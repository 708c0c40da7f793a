"""The Hilbert curve in any number of dimensions, also where the columns have unequal numbers of bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from zskip.layout.curves import KEY_BITS, interleave_words
from zskip.layout.direct import Words
from zskip.records import Ints

_ONE = np.uint64(1)
_ZERO = np.uint64(0)


def hilbert_keys(codes: Sequence[Ints], widths: Sequence[int]) -> Ints:
    """Positions on the compact Hilbert curve, as int64 keys of sum(widths) <= 63 bits.

    codes: one (rows,) array for each column, column d in [0, 2**widths[d]). The full curve over the widest column,
    restricted to the box of the codes and numbered without gaps: at each level a column that has no bit there
    contributes none to the key (Skilling 2004, "Programming the Hilbert curve"; Hamilton and Rau-Chaplin 2008,
    "Compact Hilbert indices"). Raises ValueError where the key would need more than 63 bits.

    >>> hilbert_keys([np.array([0, 0, 1, 1]), np.array([0, 1, 1, 0])], [1, 1]).tolist()
    [0, 1, 2, 3]
    """
    if sum(widths) > KEY_BITS:
        raise ValueError(f"a Hilbert key of {sum(widths)} bits does not fit into {KEY_BITS}")
    bits = max(widths, default=0)
    rows = len(codes[0])
    free: list[Words] | None = None
    if min(widths, default=0) < bits:
        free = [np.full(rows, (1 << width) - 1, np.uint64) for width in widths]
    words = _transform([column.astype(np.uint64) for column in codes], bits, free)
    keys = np.zeros(rows, np.uint64)
    for level in range(bits - 1, -1, -1):
        shift = np.uint64(level)
        for d, word in enumerate(words):
            bit: Words = (word >> shift) & _ONE
            if free is None:
                keys = (keys << _ONE) | bit
            else:
                taken: Words = (free[d] >> shift) & _ONE
                keys = (keys << taken) | (bit & taken)
    return keys.astype(np.int64)


def hilbert_bytes(words: Sequence[Words]) -> npt.NDArray[np.bytes_]:
    """Positions of 64-bit words on the Hilbert curve, as byte-string keys of 8 bytes a column."""
    return interleave_words(_transform([word.copy() for word in words], 64, None))


def _transform(x: list[Words], bits: int, free: list[Words] | None) -> list[Words]:
    """Skilling's AxestoTranspose on all rows at once, in place; `free` goes through the same exchanges of axes."""
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
                if free is not None:
                    moved = (free[0] ^ free[i]) & exchange
                    free[0] ^= moved
                    free[i] ^= moved
    for i in range(1, len(x)):
        x[i] ^= x[i - 1]
    flip = np.zeros_like(x[0])
    for level in range(bits - 1, 0, -1):
        flip ^= (_ZERO - ((x[last] >> np.uint64(level)) & _ONE)) & np.uint64((1 << level) - 1)
    for word in x:
        word ^= flip
    return x
