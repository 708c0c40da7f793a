"""Microcells: the sorted keys of a sample, split at their shortest differing prefixes into small pieces."""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt

from zskip.records import Bools, Floats, Ints

Keys = npt.NDArray[np.int64] | npt.NDArray[np.bytes_]
"""Positions on a curve: int64, never negative, or byte strings of one length."""

_EQUAL = np.int32(1 << 30)
_CHUNK_ROWS = 1 << 15


def common_prefix(keys: Keys) -> npt.NDArray[np.int32]:
    """Number of leading bits that each key shares with the next, huge where the two are equal.

    keys: (rows,). Returns (rows - 1,).

    >>> common_prefix(np.array([0, 1, 1])).tolist() == [63, 1 << 30]
    True
    """
    prefix = np.empty(max(len(keys) - 1, 0), np.int32)
    for start in range(0, len(prefix), _CHUNK_ROWS):
        chunk = keys[start : start + _CHUNK_ROWS + 1]
        prefix[start : start + _CHUNK_ROWS] = _prefix_of_ints(chunk) if keys.dtype == np.int64 else _prefix_of(chunk)
    return prefix


def _prefix_of_ints(keys: Keys) -> npt.NDArray[np.int32]:
    differing = keys[:-1].astype(np.int64) ^ keys[1:].astype(np.int64)
    bits = _bit_length(differing)
    return np.where(differing == 0, _EQUAL, 64 - bits).astype(np.int32)


def _bit_length(values: Ints) -> npt.NDArray[np.int32]:
    """Bits of values in [0, 2**63); halves are exact in float64, where frexp reads the exponent off."""
    high = np.frexp((values >> 31).astype(np.float64))[1]
    low = np.frexp((values & 0x7FFFFFFF).astype(np.float64))[1]
    return np.where(high > 0, high + 31, low).astype(np.int32)


def _prefix_of(keys: Keys) -> npt.NDArray[np.int32]:
    as_bytes = byte_matrix(keys)
    differing = as_bytes[:-1] ^ as_bytes[1:]
    first = np.argmax(differing != 0, axis=1)
    byte = differing[np.arange(len(first)), first].astype(np.int64)
    return np.where(byte == 0, _EQUAL, 8 * first + 8 - _bit_length(byte)).astype(np.int32)


def byte_matrix(keys: Keys) -> npt.NDArray[np.uint8]:
    """Byte-string keys as (rows, bytes)."""
    return np.ascontiguousarray(keys).view(np.uint8).reshape(len(keys), keys.dtype.itemsize)


def shortest_between(below: Keys, above: Keys) -> Keys:
    """The key of fewest significant bits that is above `below` and not above `above`, for each of (n,) pairs.

    >>> shortest_between(np.array([0b0101]), np.array([0b0111])).tolist() == [0b0110]
    True
    """
    if above.dtype == np.int64:
        differing = below.astype(np.int64) ^ above.astype(np.int64)
        dropped_bits = _bit_length(differing) - 1
        return (above.astype(np.int64) >> dropped_bits) << dropped_bits
    low, high = byte_matrix(below), byte_matrix(above)
    at = np.argmax(low != high, axis=1)
    rows = np.arange(len(at))
    drop = _bit_length((low[rows, at] ^ high[rows, at]).astype(np.int64)) - 1
    prefix = np.where(np.arange(high.shape[1]) < at[:, None], high, 0).astype(np.uint8)
    prefix[rows, at] = (high[rows, at] >> drop) << drop
    return cast(Keys, np.ascontiguousarray(prefix).view(above.dtype).reshape(-1))


def microcells(prefix: npt.NDArray[np.int32], weight: Floats, breaks: Ints, limit: float) -> Ints:
    """Split the sorted rows at the shortest differing prefixes until a cell weighs at most `limit` or is one key.

    prefix: (rows - 1,) as `common_prefix` gives it; weight: (rows,); breaks: ascending positions at which to split in
    any case (starts of partitions), 0 and rows among them.
    Returns the ascending positions that bound the cells. In the trie of the keys a node splits at one place only, the
    position of its shortest common prefix; so going through the prefix lengths upwards, a position splits exactly when
    the piece around it is still too heavy.
    """
    if not len(prefix):
        return breaks  # One row.
    before = np.concatenate([[0.0], np.cumsum(weight)])
    edges = breaks
    by_length = np.argsort(prefix, kind="stable")
    lengths, starts = np.unique(prefix[by_length], return_index=True)
    for length, positions in zip(lengths, np.split(by_length + 1, starts[1:]), strict=True):
        if length == _EQUAL:
            break
        right = np.searchsorted(edges, positions, side="right")
        low, high = edges[right - 1], edges[np.minimum(right, len(edges) - 1)]
        splits = (low != positions) & (before[high] - before[low] > limit)
        edges = np.union1d(edges, positions[splits])
    return edges


def thin(edges: Ints, prefix: npt.NDArray[np.int32], weight: Floats, step: float, keep: Bools) -> Ints:
    """Drop edges where cells are much smaller than need be: of those within one step, the shortest prefix stays.

    edges: as `microcells` returns them; step: in the unit of the weights; keep: (edges,) which stay in any case.
    """
    before = np.concatenate([[0.0], np.cumsum(weight)])
    at = np.clip(edges - 1, 0, len(prefix))
    length = np.append(prefix, 0)[at]
    bucket = np.floor(before[edges] / step)
    order = np.lexsort((length, bucket))
    first = np.ones(len(order), np.bool_)
    first[1:] = bucket[order][1:] != bucket[order][:-1]
    chosen = keep.copy()
    chosen[order[first]] = True
    return edges[chosen]
