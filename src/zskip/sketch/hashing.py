"""xxHash64 of many values at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from zskip.records import Ints, Values

Hashes = npt.NDArray[np.uint64]
_Matrix = npt.NDArray[np.uint8]

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_CHUNK = 1 << 22
"""Bytes gathered at once."""


def hash_fixed(values: Values) -> Hashes:
    """Hash the 8 bytes of each int64 or float64 value.

    >>> hex(hash_fixed(np.array([0]))[0])
    '0x34c96acdcadb1bbb'
    """
    words = np.ascontiguousarray(values).view(np.uint64)
    with np.errstate(over="ignore"):
        hashes = np.full(len(words), _P5 + np.uint64(8), np.uint64)
        return _avalanche(_mix_word(hashes, words))


def hash_bytes(data: _Matrix, offsets: Ints) -> Hashes:
    """Hash byte strings; the i-th is `data[offsets[i]:offsets[i + 1]]`.

    >>> hex(hash_bytes(np.frombuffer(b"abc", np.uint8), np.array([0, 3]))[0])
    '0x44bc2cf5ad770999'
    """
    starts, lengths = offsets[:-1], np.diff(offsets)
    hashes = np.empty(len(starts), np.uint64)
    order = np.argsort(lengths, kind="stable")
    sizes, firsts = np.unique(lengths[order], return_index=True)
    for size, rows in zip(sizes.tolist(), np.split(order, firsts[1:]), strict=False):  # Without values, one empty part.
        step = max(_CHUNK // max(size, 1), 1)
        for i in range(0, len(rows), step):
            some = rows[i : i + step]
            hashes[some] = _hash_matrix(data[starts[some, None] + np.arange(size)])
    return hashes


def _hash_matrix(matrix: _Matrix) -> Hashes:
    """Hash strings of one length; matrix: (strings, length)."""
    count, length = matrix.shape
    offset = 0
    with np.errstate(over="ignore"):
        if length >= 32:
            lanes = [np.full(count, start, np.uint64) for start in (_P1 + _P2, _P2, np.uint64(0), np.uint64(0) - _P1)]
            while offset + 32 <= length:
                lanes = [_round(lane, _words(matrix, offset + 8 * i, 8)) for i, lane in enumerate(lanes)]
                offset += 32
            rotated = [_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)]
            hashes = rotated[0] + rotated[1] + rotated[2] + rotated[3]
            for lane in lanes:
                hashes = (hashes ^ _round(_zeros(count), lane)) * _P1 + _P4
        else:
            hashes = np.full(count, _P5, np.uint64)
        hashes = hashes + np.uint64(length)
        for position in range(offset, length - 7, 8):
            hashes = _mix_word(hashes, _words(matrix, position, 8))
        offset = length & ~7
        if length & 4:
            hashes = _rotate(hashes ^ (_words(matrix, offset, 4) * _P1), 23) * _P2 + _P3
            offset += 4
        for position in range(offset, length):
            hashes = _rotate(hashes ^ (matrix[:, position].astype(np.uint64) * _P5), 11) * _P1
        return _avalanche(hashes)


def _zeros(count: int) -> Hashes:
    return np.zeros(count, np.uint64)


def _words(matrix: _Matrix, offset: int, size: int) -> Hashes:
    """Read the little-endian number of `size` bytes at a position of each row."""
    part = np.ascontiguousarray(matrix[:, offset : offset + size])
    return part.view(f"<u{size}")[:, 0].astype(np.uint64)


def _mix_word(hashes: Hashes, words: Hashes) -> Hashes:
    return _rotate(hashes ^ _round(_zeros(len(words)), words), 27) * _P1 + _P4


def _round(lane: Hashes, words: Hashes) -> Hashes:
    return _rotate(lane + words * _P2, 31) * _P1


def _rotate(hashes: Hashes, bits: int) -> Hashes:
    return (hashes << np.uint64(bits)) | (hashes >> np.uint64(64 - bits))


def _avalanche(hashes: Hashes) -> Hashes:
    hashes = (hashes ^ (hashes >> np.uint64(33))) * _P2
    hashes = (hashes ^ (hashes >> np.uint64(29))) * _P3
    return hashes ^ (hashes >> np.uint64(32))
