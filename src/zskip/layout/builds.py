"""Builds of keys: the ranks of values among bounds from a sample, or the leading bytes of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zskip.layout.cells import Keys
from zskip.layout.curves.base import Curve
from zskip.layout.direct import Words, direct_words
from zskip.layout.patterns import KEY_BITS, KEY_BYTES, Pattern
from zskip.layout.ranks import needed_bits, rank
from zskip.records import Bools, Field, Ints, Values


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
