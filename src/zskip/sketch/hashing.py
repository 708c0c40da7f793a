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
"""Bytes that are gathered at once."""


def hash_fixed(values: Values) -> Hashes:
    """The hashes of int64 or float64 values, as of their 8 bytes.

    >>> hex(hash_fixed(np.array([0]))[0])
    '0x34c96acdcadb1bbb'
    """
    words = np.ascontiguousarray(values).view(np.uint64)
    with np.errstate(over="ignore"):
        hashes = np.full(len(words), _P5 + np.uint64(8), np.uint64)
        return _avalanche(_eight(hashes, words))


def hash_bytes(data: _Matrix, offsets: Ints) -> Hashes:
    """The hashes of byte strings: the i-th is `data[offsets[i]:offsets[i + 1]]`.

    >>> hex(hash_bytes(np.frombuffer(b"abc", np.uint8), np.array([0, 3]))[0])
    '0x44bc2cf5ad770999'
    """
    starts, lengths = offsets[:-1], np.diff(offsets)
    found = np.empty(len(starts), np.uint64)
    order = np.argsort(lengths, kind="stable")
    sizes, firsts = np.unique(lengths[order], return_index=True)
    for size, rows in zip(sizes.tolist(), np.split(order, firsts[1:]), strict=False):  # Of nothing, one empty part.
        step = max(_CHUNK // max(size, 1), 1)
        for i in range(0, len(rows), step):
            some = rows[i : i + step]
            found[some] = _of_matrix(data[starts[some, None] + np.arange(size)])
    return found


def _of_matrix(matrix: _Matrix) -> Hashes:
    """The hashes of strings of one length: (strings, length)."""
    count, length = matrix.shape
    at = 0
    with np.errstate(over="ignore"):
        if length >= 32:
            lanes = [np.full(count, start, np.uint64) for start in (_P1 + _P2, _P2, np.uint64(0), np.uint64(0) - _P1)]
            while at + 32 <= length:
                lanes = [_round(lane, _words(matrix, at + 8 * i, 8)) for i, lane in enumerate(lanes)]
                at += 32
            turned = [_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)]
            hashes = turned[0] + turned[1] + turned[2] + turned[3]
            for lane in lanes:
                hashes = (hashes ^ _round(_zeros(count), lane)) * _P1 + _P4
        else:
            hashes = np.full(count, _P5, np.uint64)
        hashes = hashes + np.uint64(length)
        for place in range(at, length - 7, 8):
            hashes = _eight(hashes, _words(matrix, place, 8))
        at = length & ~7
        if length & 4:
            hashes = _rotated(hashes ^ (_words(matrix, at, 4) * _P1), 23) * _P2 + _P3
            at += 4
        for place in range(at, length):
            hashes = _rotated(hashes ^ (matrix[:, place].astype(np.uint64) * _P5), 11) * _P1
        return _avalanche(hashes)


def _zeros(count: int) -> Hashes:
    return np.zeros(count, np.uint64)


def _words(matrix: _Matrix, at: int, size: int) -> Hashes:
    """The little-endian number of so many bytes in each row."""
    part = np.ascontiguousarray(matrix[:, at : at + size])
    return part.view(f"<u{size}")[:, 0].astype(np.uint64)


def _eight(hashes: Hashes, words: Hashes) -> Hashes:
    return _rotated(hashes ^ _round(_zeros(len(words)), words), 27) * _P1 + _P4


def _round(lane: Hashes, words: Hashes) -> Hashes:
    return _rotated(lane + words * _P2, 31) * _P1


def _rotated(hashes: Hashes, bits: int) -> Hashes:
    return (hashes << np.uint64(bits)) | (hashes >> np.uint64(64 - bits))


def _avalanche(hashes: Hashes) -> Hashes:
    hashes = (hashes ^ (hashes >> np.uint64(33))) * _P2
    hashes = (hashes ^ (hashes >> np.uint64(29))) * _P3
    return hashes ^ (hashes >> np.uint64(32))
