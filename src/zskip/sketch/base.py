"""The protocol of sketches: what is known of the values of one file beyond their least and greatest.

A kind of sketch is a frozen dataclass whose fields are its parameters, so that `Bloom(0.01)` is written `bloom(0.01)`.
It makes a *state* from the values of one file, and says for a leaf of a predicate which files might hold a row for
which that leaf is true. It never says that all rows of a file match.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from zskip.predicate import Not, Term, TermLeaf
from zskip.records import Bools
from zskip.types import DataType

Part = TermLeaf | Not
"""A leaf, or the negation of one: what an AND consists of."""


def leaf_of(part: Part) -> TermLeaf:
    """The leaf of a part."""
    leaf = part.child if isinstance(part, Not) else part
    assert isinstance(leaf, TermLeaf)
    return leaf


class LeftOut(Exception):
    """There is no sketch of a file, for this reason; the file is always read."""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Which files might hold a row for which a leaf is true, and why."""

    may_match: Bools
    """(files,)"""
    reason: str

    def __and__(self, other: Answer) -> Answer:
        return Answer(self.may_match & other.may_match, f"{self.reason}; {other.reason}")


class Sketch(ABC):
    """One kind of sketch with its parameters.

    A subclass is a frozen dataclass with a `kind`. It has to build and merge states, to write and read them, and to
    answer; `add`, `finish` and `stack` are for those that can do these better than by build and merge.
    """

    kind: ClassVar[str]
    """The name in specs, such as `bloom`."""
    arity: ClassVar[int] = 1
    """Over how many columns or expressions it is; the values of more than one come as a struct."""

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(map(str, self.parameters))})"

    @property
    def parameters(self) -> tuple[Any, ...]:
        """The values of its fields; `dataclasses.fields` finds none where a class came over by value."""
        return tuple(getattr(self, name) for name in type(self).__match_args__)  # type: ignore[attr-defined]

    def refusal(self, data_type: DataType) -> str | None:
        """Why there can be no sketch of values of a type; None where there can."""
        orderable = data_type.form is not None and not data_type.is_char
        return None if orderable else f"{self.kind} knows nothing of values of type {data_type}"

    @abstractmethod
    def build(self, values: pa.Array, data_type: DataType) -> Any:
        """The state of a file with these values; raises LeftOut with the reason where there is to be none."""

    @abstractmethod
    def merge(self, states: Sequence[Any]) -> Any:
        """The state of all values of one or more states; raises LeftOut as `build` does."""

    @abstractmethod
    def to_bytes(self, state: Any) -> bytes:
        """A state as bytes; `zskip.sketch.blob` has the means."""

    @abstractmethod
    def from_bytes(self, data: bytes) -> Any:
        """The state of such bytes; raises IndexFormatError for any others. Must never execute anything in them."""

    @abstractmethod
    def might_match(self, leaf: TermLeaf, stack: Any) -> Answer | None:
        """Which files might hold a row for which a leaf on this sketch's term is true; None where it cannot tell.

        stack: what `stack` made of the states of the files.
        """

    def size(self, state: Any) -> int:
        """Bytes that a state takes in the index."""
        return len(self.to_bytes(state))

    def add(self, state: Any, values: pa.Array, data_type: DataType) -> Any:
        """The state of a file after one more batch of its values; `state` is None before the first."""
        new = self.build(values, data_type)
        return new if state is None else self.merge([state, new])

    def finish(self, state: Any) -> Any:
        """What is kept of the state that the last `add` gave."""
        return state

    def stack(self, states: Sequence[Any]) -> Any:
        """The states of all files in a form to ask, made once for many questions; None is a file without a state."""
        return list(states)

    def might_match_all(self, parts: Sequence[Part], terms: Sequence[Term], stack: Any) -> Answer | None:
        """Which files might hold one row for which all parts of an AND are true; None where it cannot tell.

        parts: leaves and negations of leaves, on whatever terms. terms: what the sketch is on, `arity` of them.
        """
        leaves = [part for part in parts if not isinstance(part, Not)]
        answers = [self.might_match(leaf, stack) for leaf in leaves if leaf.term == terms[0]]
        found = [answer for answer in answers if answer is not None]
        if not found:
            return None
        result = found[0]
        for answer in found[1:]:
            result = result & answer
        return result


def counted(sketch: Sketch, may_match: Bools, known: Bools) -> Answer:
    """An answer with its reason: in how many of the files with a sketch there might be a match."""
    hits = int(np.count_nonzero(may_match & known))
    missing = len(known) - int(np.count_nonzero(known))
    rest = f", and {missing} files have none" if missing else ""
    return Answer(may_match | ~known, f"{sketch}: {hits} of {len(known) - missing} files may hold a match{rest}")
