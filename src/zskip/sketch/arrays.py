"""Sketches whose state is a few parallel arrays: one way to write, stack and ask them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from zskip.errors import IndexFormatError
from zskip.predicate import Compare, In, IsNull, Not, Term, TermLeaf
from zskip.records import Bools, Ints
from zskip.sketch.base import Answer, Part, Sketch, counted, leaf_of
from zskip.sketch.blob import pack_arrays, seal, unpack_arrays, unseal
from zskip.sketch.column import Distinct, distinct
from zskip.types import DataType, Encoded

_NULLS, _NAN = 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """What is known of the values of one file."""

    arrays: tuple[Any, ...]
    """Parallel arrays of one dimension, or only their number and types in common."""
    nulls: bool
    """Whether there may be a null."""
    nan: bool
    """Whether there may be a NaN."""


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """The states of many files, their arrays one after the other."""

    known: Bools
    """(files,) whether there is a state."""
    nulls: Bools
    nan: Bools
    offsets: Ints
    """(files + 1,) where the first array of each file starts."""
    arrays: tuple[Any, ...]

    def anywhere(self, flags: Any) -> Bools:
        """For each file whether some of its entries is flagged."""
        before = np.concatenate([[0], np.cumsum(np.asarray(flags, np.bool_))])
        return np.asarray(before[self.offsets[1:]] > before[self.offsets[:-1]])

    @property
    def lengths(self) -> Ints:
        """(files,) entries of each."""
        return np.diff(self.offsets)


class ArraySketch(Sketch):
    """A sketch with states of arrays: what is left to say is how to make them and what they tell of values."""

    negations: ClassVar[bool] = False
    """Whether `flags` takes negations of leaves."""

    def build(self, values: pa.Array, data_type: DataType) -> State:
        """See `Sketch`."""
        return self.finish(self.add(None, values, data_type))

    def add(self, state: State | None, values: pa.Array, data_type: DataType) -> State:
        """See `Sketch`."""
        found = distinct(values, data_type)
        new = State(self.collect(found), found.nulls, found.nan)
        return new if state is None else self.joined([state, new])

    @abstractmethod
    def collect(self, found: Distinct) -> tuple[Any, ...]:
        """The arrays of a file with these values, before `finish`."""

    @abstractmethod
    def union(self, parts: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        """The arrays of all values that any of these arrays are of."""

    def joined(self, states: Sequence[State]) -> State:
        """One state for all, before `finish`."""
        arrays = self.union([state.arrays for state in states])
        return State(arrays, any(state.nulls for state in states), any(state.nan for state in states))

    def merge(self, states: Sequence[State]) -> State:
        """See `Sketch`."""
        return self.finish(self.joined(states))

    def finish(self, state: State) -> State:
        """See `Sketch`."""
        return state

    def to_bytes(self, state: State) -> bytes:
        """See `Sketch`."""
        flags = state.nulls * _NULLS | state.nan * _NAN
        return seal(str(self), bytes([flags]) + pack_arrays(state.arrays))

    def from_bytes(self, data: bytes) -> State:
        """See `Sketch`."""
        payload = unseal(str(self), data)
        arrays = tuple(unpack_arrays(payload[1:]))
        if not payload or not self.is_sound(arrays):
            raise IndexFormatError(f"a damaged {self} sketch; build the index again")
        return State(arrays, bool(payload[0] & _NULLS), bool(payload[0] & _NAN))

    @abstractmethod
    def is_sound(self, arrays: tuple[Any, ...]) -> bool:
        """Whether arrays that were read can be those of a state."""

    def stack(self, states: Sequence[State | None]) -> Stack:
        """See `Sketch`."""
        present = [state for state in states if state is not None]
        known = np.array([state is not None for state in states], np.bool_)
        lengths = np.zeros(len(states), np.int64)
        lengths[known] = [len(state.arrays[0]) for state in present]
        width = len(present[0].arrays) if present else 0
        return Stack(
            known=known,
            nulls=np.array([state is None or state.nulls for state in states], np.bool_),
            nan=np.array([state is None or state.nan for state in states], np.bool_),
            offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            arrays=tuple(np.concatenate([state.arrays[i] for state in present]) for i in range(width)),
        )

    def might_match(self, leaf: TermLeaf, stack: Stack) -> Answer | None:
        """See `Sketch`."""
        return self._answer([leaf], stack)

    def might_match_all(self, parts: Sequence[Part], terms: Sequence[Term], stack: Stack) -> Answer | None:
        """See `Sketch`: one value has to make all parts true, so that a gap between two values is told."""
        return self._answer([part for part in parts if leaf_of(part).term == terms[0]], stack)

    def _answer(self, parts: Sequence[Part], stack: Stack) -> Answer | None:
        if not parts or not stack.known.any() or self.refusal(leaf_of(parts[0]).term.type) is not None:
            return None
        if any(isinstance(part, IsNull) for part in parts):
            # Of null nothing else is true.
            alone = all(isinstance(part, IsNull) for part in parts)
            return counted(self, stack.nulls if alone else np.zeros_like(stack.nulls), stack.known)
        settled = [_for_numbers(part) for part in parts]
        open_parts = [part for part, truth in zip(parts, settled, strict=True) if truth is None]
        found = self.matches(open_parts, stack) if False not in settled else np.zeros_like(stack.nulls)
        if found is None:
            return None
        return counted(self, found | stack.nan if all(map(_for_nan, parts)) else found, stack.known)

    def matches(self, parts: Sequence[Part], stack: Stack) -> Bools | None:
        """(files,) whether one value, neither null nor NaN, may make all parts true; None where it cannot tell."""
        usable = [part for part in parts if self.negations or not isinstance(part, Not)]
        flags = [np.asarray(found, np.bool_) for part in usable if (found := self.flags(part, stack)) is not None]
        return stack.anywhere(np.logical_and.reduce(flags)) if flags else None

    def flags(self, part: Part, stack: Stack) -> Any:
        """(entries,) whether some value may make a part true; None where it cannot tell.

        Entries are those of the first array; each value belongs to one. The part is no IsNull and compares with no NaN.
        """
        return None


def wanted(leaf: Part) -> tuple[Encoded, ...] | None:
    """The values to one of which the term must be equal; None where the leaf asks for something else."""
    if isinstance(leaf, Compare) and leaf.op == "=":
        return (leaf.value,)
    return leaf.values if isinstance(leaf, In) else None


def boxed(values: Sequence[Encoded], like: Any) -> Any:
    """Values as an array that compares with one of theirs; `bytes` must be objects, -0.0 is 0.0."""
    found = np.empty(len(values), like.dtype)
    found[:] = values
    return found + 0.0 if found.dtype == np.float64 else found


def _for_numbers(part: Part) -> bool | None:
    """What a part is for all values but null and NaN; None where it depends on the value."""
    if isinstance(part, Not):
        inner = _for_numbers(leaf_of(part))
        return None if inner is None else not inner
    if isinstance(part, Compare) and isinstance(part.value, float) and math.isnan(part.value):
        return part.op in ("<", "<=")
    return False if isinstance(part, IsNull) else None


def _for_nan(part: Part) -> bool:
    """Whether NaN makes a part true: it is above all numbers, and equal to itself."""
    if isinstance(part, Not):
        return not _for_nan(leaf_of(part))
    if not isinstance(part, Compare):
        return False
    if isinstance(part.value, float) and math.isnan(part.value):
        return "=" in part.op
    return part.op in (">", ">=")
