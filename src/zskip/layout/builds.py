"""Builds of keys: the ranks of values among bounds from a sample, or 8 bytes that sort as values do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from zskip.layout.cells import Keys
from zskip.layout.curves.base import Curve
from zskip.layout.patterns import KEY_BITS, KEY_BYTES, Pattern, Words
from zskip.layout.ranks import clean, needed_bits, rank
from zskip.records import Bools, Field, Ints, Values
from zskip.types import DataType

_SIGN = np.uint64(1 << 63)
_LAST = np.uint64(2**64 - 1)


class Sampled:
    """Columns have bounds, and the ranks of their values share the bits of an int64 key."""

    name, has_bounds, key_bits = "sample", True, KEY_BITS
    width = staticmethod(needed_bits)

    @staticmethod
    def codes(values: Values, nulls: Bools, field: Field, bounds: Values) -> Ints:
        return rank(values, nulls, bounds)

    @staticmethod
    def keys(curve: Curve, ranks: Sequence[Any], tables: Sequence[Ints], pattern: Pattern) -> Keys:
        return curve.keys((table[r] for table, r in zip(tables, ranks, strict=True)), pattern)


class Direct:
    """Values give their 8 leading bytes, and keys are byte strings."""

    name, has_bounds, key_bits = "direct", False, 8 * KEY_BYTES

    @staticmethod
    def width(bounds: int, null_rank: bool) -> int:
        return 64

    @staticmethod
    def codes(values: Values, nulls: Bools, field: Field, bounds: Values) -> Words:
        return direct_words(values, nulls, field.type)

    @staticmethod
    def keys(curve: Curve, words: Sequence[Any], tables: Sequence[Ints], pattern: Pattern) -> Keys:
        return curve.byte_keys(words, pattern)


Build = type[Sampled] | type[Direct]
BUILDS: dict[str, Build] = {one.name: one for one in (Sampled, Direct)}


def direct_words(values: Values, nulls: Bools, data_type: DataType) -> Words:
    """Map values to unsigned words that sort as the values do, nulls last among numbers and as "" among strings.

    values: (rows,) in the form of the type, or as float64. Integers have their sign bit flipped; floats follow IEEE's
    bits, all flipped where negative, -0.0 equal to 0.0 and NaN above infinity; strings and binary give their first 8
    bytes, zero-padded on the right; a boolean sits in the highest bit. After Iceberg's `ZOrderByteUtils` and Hudi's
    `BinaryUtil`; docs/curves.md says where it differs and why.

    >>> [hex(w) for w in direct_words(np.array([-1, 0]), np.array([False, False]), DataType("long")).tolist()]
    ['0x7fffffffffffffff', '0x8000000000000000']
    """
    cleaned = clean(values, nulls)
    if cleaned.dtype == object:
        return np.ascontiguousarray(cleaned.astype("S8")).view(">u8").astype(np.uint64)
    if cleaned.dtype == np.float64:
        words = _float_words(cleaned.astype(np.float64))
    elif data_type.name == "boolean":
        words = cleaned.astype(np.uint64) << np.uint64(63)
    else:
        words = cleaned.astype(np.int64).view(np.uint64) ^ _SIGN
    return np.where(nulls, _LAST, words)


def _float_words(values: npt.NDArray[np.float64]) -> Words:
    bits = np.where(np.isnan(values), np.nan, values).view(np.uint64)
    positive_nan = np.where(np.isnan(values), np.uint64(0x7FF8 << 48), bits)
    return np.where(positive_nan >= _SIGN, ~positive_nan, positive_nan ^ _SIGN)
