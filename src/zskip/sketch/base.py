"""The protocol of sketches, which know more about the values of a file than the least and the greatest.

A kind of sketch is a frozen dataclass whose fields are its parameters: `Bloom(0.01)` is written `bloom(0.01)`. It
builds a *state* from the values of one file. It tells which files might hold a row that makes a leaf of a predicate
true, but never that all rows of a file match.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence, Sized
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa

from zskip.predicate import Not, Term, TermLeaf
from zskip.records import Bools
from zskip.types import DataType

_Sized = TypeVar("_Sized", bound=Sized)
Part = TermLeaf | Not
"""A part of an AND: a leaf, or the negation of one."""


def leaf_of(part: Part) -> TermLeaf:
    """Return the leaf of a part."""
    leaf = part.child if isinstance(part, Not) else part
    assert isinstance(leaf, TermLeaf)
    return leaf


class LeftOut(Exception):
    """A file gets no sketch, for this reason, and is always read."""


def at_most(most: int, things: str, values: _Sized) -> _Sized:
    """Return some values; raises LeftOut if they are more than `most`."""
    if len(values) > most:
        raise LeftOut(f"more than {most} {things}")
    return values


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Which files might hold a row that makes a leaf true, and why."""

    may_match: Bools
    """(files,)"""
    reason: str

    def __and__(self, other: Answer) -> Answer:
        return Answer(self.may_match & other.may_match, f"{self.reason}; {other.reason}")


class Sketch(ABC):
    """One kind of sketch with its parameters.

    A subclass is a frozen dataclass with a `kind`. It must build, merge, write and read states, and answer leaves. It
    may override `add`, `finish` and `stack` to do better than the defaults.
    """

    kind: ClassVar[str]
    """The name in specs, such as `bloom`."""
    arity: ClassVar[int] = 1
    """The number of columns or expressions; values of more than one come as a struct."""

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(map(str, self.parameters))})"

    @property
    def parameters(self) -> tuple[Any, ...]:
        """The values of the fields; `dataclasses.fields` finds none in a class that was pickled by value."""
        return tuple(getattr(self, name) for name in type(self).__match_args__)  # type: ignore[attr-defined]

    def refusal(self, data_type: DataType) -> str | None:
        """Explain why values of a type cannot be sketched; None if they can."""
        orderable = data_type.form is not None and not data_type.is_char
        return None if orderable else f"{self.kind} knows nothing of values of type {data_type}"

    @abstractmethod
    def build(self, values: pa.Array, data_type: DataType) -> Any:
        """Build the state of a file with these values; raises LeftOut with a reason if it should have none."""

    @abstractmethod
    def merge(self, states: Sequence[Any]) -> Any:
        """Merge one or more states; raises LeftOut as `build` does."""

    @abstractmethod
    def to_bytes(self, state: Any) -> bytes:
        """Write a state as bytes, with the help of `zskip.sketch.blob`."""

    @abstractmethod
    def from_bytes(self, data: bytes) -> Any:
        """Read a state from bytes; raises IndexFormatError for any others. Must never execute anything in them."""

    @abstractmethod
    def might_match(self, leaf: TermLeaf, stack: Any) -> Answer | None:
        """Tell which files might hold a row that makes a leaf on this sketch's term true; None if it cannot tell.

        stack: the result of `stack` for the states of the files.
        """

    def size(self, state: Any) -> int:
        """Return the bytes that a state takes in the index."""
        return len(self.to_bytes(state))

    def add(self, state: Any, values: pa.Array, data_type: DataType) -> Any:
        """Add a batch of values to the state of a file; `state` is None before the first batch."""
        new = self.build(values, data_type)
        return new if state is None else self.merge([state, new])

    def finish(self, state: Any) -> Any:
        """Reduce the state after the last `add` to what is kept."""
        return state

    def stack(self, states: Sequence[Any]) -> Any:
        """Prepare the states of all files for many queries; None is a file without a state."""
        return list(states)

    def might_match_all(self, parts: Sequence[Part], terms: Sequence[Term], stack: Any) -> Answer | None:
        """Tell which files might hold one row that makes all parts of an AND true; None if it cannot tell.

        parts: leaves and negations of leaves, on any terms. terms: the `arity` terms of the sketch.
        """
        leaves = [part for part in parts if not isinstance(part, Not)]
        answers = [self.might_match(leaf, stack) for leaf in leaves if leaf.term == terms[0]]
        known = [answer for answer in answers if answer is not None]
        return reduce(and_, known) if known else None


def counted(sketch: Sketch, may_match: Bools, known: Bools) -> Answer:
    """Make an answer whose reason counts the files with a sketch that may hold a match."""
    hits = int(np.count_nonzero(may_match & known))
    missing = len(known) - int(np.count_nonzero(known))
    rest = f", and {missing} files have none" if missing else ""
    return Answer(may_match | ~known, f"{sketch}: {hits} of {len(known) - missing} files may hold a match{rest}")
