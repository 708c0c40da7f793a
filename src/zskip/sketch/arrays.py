"""The base class of sketches whose state is a few parallel arrays: how to write, stack and query them."""

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
from zskip.sketch.distinct import Distinct, distinct_values
from zskip.types import DataType, Encoded

_NULLS, _NAN = 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """The state of one file."""

    arrays: tuple[Any, ...]
    """One-dimensional arrays: parallel, or with only their number and types in common."""
    nulls: bool
    """Whether there may be a null."""
    nan: bool
    """Whether there may be a NaN."""


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """The states of many files, with their arrays concatenated."""

    known: Bools
    """(files,) whether the file has a state."""
    nulls: Bools
    nan: Bools
    offsets: Ints
    """(files + 1,) where the first array of each file starts."""
    arrays: tuple[Any, ...]

    def anywhere(self, flags: Any) -> Bools:
        """(files,) whether some entry of the file is flagged."""
        before = np.concatenate([[0], np.cumsum(np.asarray(flags, np.bool_))])
        return np.asarray(before[self.offsets[1:]] > before[self.offsets[:-1]])


class ArraySketch(Sketch):
    """A sketch with a state of arrays; a subclass builds the arrays and tells what they say about values."""

    negations: ClassVar[bool] = False
    """Whether `flags` takes negations of leaves."""

    def build(self, values: pa.Array, data_type: DataType) -> State:
        return self.finish(self.add(None, values, data_type))

    def add(self, state: State | None, values: pa.Array, data_type: DataType) -> State:
        distinct = distinct_values(values, data_type)
        new = State(self.collect(distinct), distinct.nulls, distinct.nan)
        return new if state is None else self.combine([state, new])

    @abstractmethod
    def collect(self, distinct: Distinct) -> tuple[Any, ...]:
        """Build the arrays of a file with these values, before `finish`."""

    @abstractmethod
    def union(self, parts: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        """Merge the arrays of several states."""

    def combine(self, states: Sequence[State]) -> State:
        """Merge states, before `finish`."""
        arrays = self.union([state.arrays for state in states])
        return State(arrays, any(state.nulls for state in states), any(state.nan for state in states))

    def merge(self, states: Sequence[State]) -> State:
        return self.finish(self.combine(states))

    def finish(self, state: State) -> State:
        return state

    def to_bytes(self, state: State) -> bytes:
        flags = state.nulls * _NULLS | state.nan * _NAN
        return seal(str(self), bytes([flags]) + pack_arrays(state.arrays))

    def from_bytes(self, data: bytes) -> State:
        payload = unseal(str(self), data)
        arrays = tuple(unpack_arrays(payload[1:]))
        if not payload or not self.is_sound(arrays):
            raise IndexFormatError(f"a damaged {self} sketch; build the index again")
        return State(arrays, bool(payload[0] & _NULLS), bool(payload[0] & _NAN))

    @abstractmethod
    def is_sound(self, arrays: tuple[Any, ...]) -> bool:
        """Whether arrays read from bytes can be those of a state."""

    def stack(self, states: Sequence[State | None]) -> Stack:
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
        return self._answer([leaf], stack)

    def might_match_all(self, parts: Sequence[Part], terms: Sequence[Term], stack: Stack) -> Answer | None:
        """See `Sketch`; one value has to make all parts true, so a gap between two values is noticed."""
        return self._answer([part for part in parts if leaf_of(part).term == terms[0]], stack)

    def _answer(self, parts: Sequence[Part], stack: Stack) -> Answer | None:
        if not parts or not stack.known.any() or self.refusal(leaf_of(parts[0]).term.type) is not None:
            return None
        if any(isinstance(part, IsNull) for part in parts):
            # For null, nothing but IsNull is true.
            only_null = all(isinstance(part, IsNull) for part in parts)
            return counted(self, stack.nulls if only_null else np.zeros_like(stack.nulls), stack.known)
        truths = [_truth_for_numbers(part) for part in parts]
        open_parts = [part for part, truth in zip(parts, truths, strict=True) if truth is None]
        may_match = self.matches(open_parts, stack) if False not in truths else np.zeros_like(stack.nulls)
        if may_match is None:
            return None
        return counted(self, may_match | stack.nan if all(map(_is_true_for_nan, parts)) else may_match, stack.known)

    def matches(self, parts: Sequence[Part], stack: Stack) -> Bools | None:
        """(files,) whether one value, neither null nor NaN, may make all parts true; None if the sketch cannot tell."""
        usable = [part for part in parts if self.negations or not isinstance(part, Not)]
        flags = [np.asarray(mask, np.bool_) for part in usable if (mask := self.flags(part, stack)) is not None]
        return stack.anywhere(np.logical_and.reduce(flags)) if flags else None

    def flags(self, part: Part, stack: Stack) -> Any:
        """(entries,) whether some value of the entry may make a part true; None if the sketch cannot tell.

        Entries are those of the first array; each value belongs to one. The part is no IsNull and compares with no NaN.
        """
        return None


def equal_values(leaf: Part) -> tuple[Encoded, ...] | None:
    """Return the values of which the term must equal one; None for any other leaf."""
    if isinstance(leaf, Compare) and leaf.op == "=":
        return (leaf.value,)
    return leaf.values if isinstance(leaf, In) else None


def _truth_for_numbers(part: Part) -> bool | None:
    """Return the truth of a part for all values but null and NaN; None if it depends on the value."""
    if isinstance(part, Not):
        inner = _truth_for_numbers(leaf_of(part))
        return None if inner is None else not inner
    if isinstance(part, Compare) and isinstance(part.value, float) and math.isnan(part.value):
        return part.op in ("<", "<=")
    return False if isinstance(part, IsNull) else None


def _is_true_for_nan(part: Part) -> bool:
    """Whether NaN, which is above all numbers and equals itself, makes a part true."""
    if isinstance(part, Not):
        return not _is_true_for_nan(leaf_of(part))
    if not isinstance(part, Compare):
        return False
    if isinstance(part.value, float) and math.isnan(part.value):
        return "=" in part.op
    return part.op in (">", ">=")
