"""Separable curves: a key is the bits of several columns laid in one fixed order, the bit pattern.

A pattern is the sequence of columns from the most significant bit of the key down; each time a column is named its
next lower bit follows. Z-order takes the columns in turn, a linear order takes all bits of one before the next.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from zskip.records import Ints

KEY_BITS = 63
"""A key of at most this many bits is an int64 that is never negative."""
KEY_BYTES = 1024
"""A longer key is a byte string of at most this length, compared as unsigned bytes."""
_CHUNK_BITS = 1 << 24

Pattern = tuple[int, ...]
Words = npt.NDArray[np.uint64]


def zorder_pattern(widths: Sequence[int], bits: int = KEY_BITS) -> Pattern:
    """Take the columns in turn, each until its `widths` bits are used up (Morton 1966).

    >>> zorder_pattern([2, 3])
    (0, 1, 0, 1, 1)
    """
    turns = (column for turn in range(max(widths, default=0)) for column, width in enumerate(widths) if turn < width)
    return tuple(turns)[:bits]


def linear_pattern(widths: Sequence[int], bits: int = KEY_BITS) -> Pattern:
    """Take all bits of the first column, then all of the second: the order of a plain sort.

    >>> linear_pattern([2, 3])
    (0, 0, 1, 1, 1)
    """
    return tuple(column for column, width in enumerate(widths) for _ in range(width))[:bits]


def pattern_widths(pattern: Sequence[int], columns: int) -> tuple[int, ...]:
    """Number of bits that each column has in a pattern."""
    return tuple(int(n) for n in np.bincount(np.asarray(pattern, np.int64), minlength=columns))


def spread(codes: Ints, pattern: Sequence[int], column: int) -> Ints:
    """Put the bits of one column's codes into their positions in the key.

    codes: (n,), each with one bit per mention of the column in the pattern. A key is the OR over all columns.

    >>> [bin(key) for key in spread(np.array([0b11, 0b10]), (0, 1, 0, 1), 0).tolist()]
    ['0b1010', '0b1000']
    """
    shifts = [len(pattern) - 1 - i for i, named in enumerate(pattern) if named == column]
    keys = np.zeros(len(codes), np.int64)
    for bit, shift in enumerate(reversed(shifts)):
        keys |= ((codes >> bit) & 1) << shift
    return keys


def gather(keys: Ints, pattern: Sequence[int], column: int) -> Ints:
    """Read the codes of one column out of keys; the inverse of `spread`.

    >>> gather(np.array([0b1010, 0b1000]), (0, 1, 0, 1), 0).tolist() == [0b11, 0b10]
    True
    """
    shifts = [len(pattern) - 1 - i for i, named in enumerate(pattern) if named == column]
    codes = np.zeros(len(keys), np.int64)
    for bit, shift in enumerate(reversed(shifts)):
        codes |= ((keys >> shift) & 1) << bit
    return codes


def interleave_bytes(
    columns: Sequence[npt.NDArray[np.uint8]], size: int = KEY_BYTES, pattern: Sequence[int] | None = None
) -> npt.NDArray[np.uint8]:
    """Interleave byte strings bit by bit, most significant first, a column dropping out when its bits are used up.

    columns: one (rows, bytes) array for each; pattern: the order of the columns, Z-order by default. Returns
    (rows, min(size, all bytes)). After Iceberg's `ZOrderByteUtils.interleaveBits`.
    """
    widths = [8 * column.shape[1] for column in columns]
    pattern = zorder_pattern(widths, 8 * size) if pattern is None else pattern[: 8 * size]
    starts = np.concatenate([[0], np.cumsum(widths)])
    used = [0] * len(columns)
    order = []
    for column in pattern:
        order.append(starts[column] + used[column])
        used[column] += 1
    rows = len(columns[0]) if columns else 0
    keys = np.empty((rows, -(-len(pattern) // 8)), np.uint8)
    step = max(1, _CHUNK_BITS // max(1, sum(widths)))
    for start in range(0, rows, step):
        chunk = np.concatenate([column[start : start + step] for column in columns], axis=1)
        keys[start : start + step] = np.packbits(np.unpackbits(chunk, axis=1)[:, order], axis=1)
    return keys


def interleave_words(words: Sequence[Words], pattern: Sequence[int] | None = None) -> npt.NDArray[np.bytes_]:
    """Interleave 64-bit words into byte-string keys, (rows,) of dtype `S`, which NumPy compares as unsigned bytes."""
    columns = [np.ascontiguousarray(column.astype(">u8")).view(np.uint8).reshape(-1, 8) for column in words]
    keys = np.ascontiguousarray(interleave_bytes(columns, pattern=pattern))
    return keys.view(f"S{keys.shape[1]}").reshape(-1)
