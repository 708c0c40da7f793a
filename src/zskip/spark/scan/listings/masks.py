"""Masks over files as Java writes and reads them."""

from __future__ import annotations

import base64

import numpy as np

from zskip.records import Bools


def pack_mask(mask: Bools) -> str:
    """A mask as the bits of a `java.util.BitSet`, in base 64."""
    return base64.b64encode(np.packbits(mask, bitorder="little").tobytes()).decode()


def unpack_mask(text: str, count: int) -> Bools:
    """The mask of a `BitSet`, which leaves off the bytes of zeros at its end."""
    padded = np.zeros((count + 7) // 8, np.uint8)  # NumPy's own padding of an empty array is uninitialized.
    data = np.frombuffer(base64.b64decode(text), np.uint8)
    padded[: len(data)] = data
    return np.unpackbits(padded, bitorder="little", count=count).astype(np.bool_)
