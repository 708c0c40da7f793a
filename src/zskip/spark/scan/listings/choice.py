"""The files that a scan reads, and why: what each kind of pruning takes and gives."""

from __future__ import annotations

import base64
from dataclasses import dataclass

import numpy as np

from zskip.records import Bools, LeafReport
from zskip.spark.scan.filters.catalyst import Filters


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Choice:
    """The files that a scan reads, and why."""

    kept: Bools
    """(files,)"""
    full: Bools
    """(files,) files all of whose rows pass the filters that Spark handed over; it keeps some to itself."""
    leaves: tuple[LeafReport, ...]
    seconds: float
    filters: tuple[Filters, ...] = ()
    """By which it was chosen."""


def packed(mask: Bools) -> str:
    """A mask as the bits of a `java.util.BitSet`, in base 64."""
    return base64.b64encode(np.packbits(mask, bitorder="little").tobytes()).decode()


def unpacked(text: str, count: int) -> Bools:
    """The mask of a `BitSet`, which leaves off the bytes of zeros at its end."""
    held = np.zeros((count + 7) // 8, np.uint8)  # NumPy's own padding of nothing at all is whatever lay in memory.
    given = np.frombuffer(base64.b64decode(text), np.uint8)
    held[: len(given)] = given
    return np.unpackbits(held, bitorder="little", count=count).astype(np.bool_)
