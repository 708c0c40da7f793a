"""`matches` and `matches(k)`: whether any row of a file makes a condition true, and about which rows those are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from zskip.errors import IndexFormatError, InputError
from zskip.predicate import TermLeaf
from zskip.records import Bools, Ints
from zskip.sketch.base import Answer, Sketch
from zskip.sketch.blob import pack_arrays, seal, unpack_arrays, unseal
from zskip.sketch.intervals import meets, merge_nearest
from zskip.sketch.registry import register
from zskip.types import DataType

_WHILE_READING = 16
"""Ranges kept while a file is read, for each final one."""


class MatchState(NamedTuple):
    """Ranges of a file's rows, numbered from 0, outside of which no row makes the condition true."""

    rows: int
    """Of the file; unknown (0) unless ranges are kept."""
    firsts: Ints
    """Ascending."""
    lasts: Ints


@register
@dataclass(frozen=True)
class Matches(Sketch):
    """Whether some value is true, which a query uses whose filter implies the condition (`implication.py`).

    k: the most ranges of rows to keep, by which a query skips row groups; 0 keeps none. A predicate cache of ranges of
    rows is from Schmidt et al., "Predicate Caching", SIGMOD 2024.
    """

    kind: ClassVar[str] = "matches"
    k: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int) or not 0 <= self.k <= 1024:
            raise InputError(f"matches({self.k}): give the number of ranges of rows, up to 1024: matches(16)")

    def __str__(self) -> str:
        return super().__str__() if self.k else self.kind

    def refusal(self, data_type: DataType) -> str | None:
        return None if data_type.name == "boolean" else "matches is of conditions"

    def build(self, values: pa.Array, data_type: DataType) -> MatchState:
        at = np.flatnonzero(values.fill_null(False).to_numpy(zero_copy_only=False))
        is_first = np.diff(at, prepend=-2) > 1
        return self._at_most(len(values), at[is_first], at[np.append(is_first[1:], True)[: len(at)]])

    def merge(self, states: Sequence[MatchState]) -> MatchState:
        """Merge the states of batches of rows, in their order."""
        rows = np.cumsum([0, *(state.rows for state in states)])
        firsts, lasts = (
            np.concatenate([state[i] + start for state, start in zip(states, rows, strict=False)]) for i in (1, 2)
        )
        return self._at_most(int(rows[-1]), firsts, lasts)

    def _at_most(self, rows: int, firsts: Ints, lasts: Ints) -> MatchState:
        return MatchState(rows, *merge_nearest(firsts, lasts, max(self.k * _WHILE_READING, 1)))

    def finish(self, state: MatchState) -> MatchState:
        return MatchState(state.rows, *merge_nearest(state.firsts, state.lasts, max(self.k, 1)))

    def to_bytes(self, state: MatchState) -> bytes:
        rows = pack_arrays([np.array([state.rows], np.int64), state.firsts, state.lasts])
        return seal(str(self), rows if self.k else bytes([len(state.firsts) > 0]))

    def from_bytes(self, data: bytes) -> MatchState:
        payload = unseal(str(self), data)
        if not self.k and payload in (b"\0", b"\1"):
            return a_match(payload == b"\1")
        if self.k:
            arrays = unpack_arrays(payload)
            if len(arrays) == 3 and len(arrays[0]) == 1 and len(arrays[1]) == len(arrays[2]) <= self.k:
                (rows,), firsts, lasts = arrays
                if (firsts <= lasts).all() and (firsts[1:] > lasts[:-1]).all():
                    return MatchState(int(rows), firsts, lasts)
        raise IndexFormatError("a damaged matches sketch; build the index again")

    def stack(self, states: Sequence[MatchState | None]) -> Any:
        """(files,) whether a row may make the condition true."""
        return np.array([state is None or len(state.firsts) > 0 for state in states], np.bool_)

    def might_match(self, leaf: TermLeaf, stack: Any) -> Answer | None:
        return None

    def might_match_in(self, data: bytes | None, ends: Ints) -> Bools:
        """(parts,) whether a row of each part of a file may make the condition true.

        data: the state; ends: the row after the last of each part, in their order and in that of the file.
        """
        unknown = np.ones(len(ends), np.bool_)
        try:
            state = None if data is None else self.from_bytes(data)
        except IndexFormatError:
            return unknown
        if state is None or state.rows != ends[-1]:
            return unknown
        return meets(state.firsts, state.lasts, np.concatenate([[0], ends[:-1]]), ends - 1)


def a_match(is_any: bool) -> MatchState:
    """The state of a file of which it is only known whether any row makes the condition true."""
    at = np.zeros(int(is_any), np.int64)
    return MatchState(0, at, at)
