"""Sketches as the index uses them: whatever goes wrong with one, it is left out with a reason, and its files stay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from zskip.predicate import And, Compare, Not, Predicate, Term, TermLeaf
from zskip.sketch.base import Answer, LeftOut, Part, Sketch
from zskip.types import DataType


@dataclass(frozen=True, slots=True)
class Made:
    """The state of one file as bytes, or why there is none."""

    data: bytes | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Read:
    """The states of many files."""

    stack: Any
    """To ask; None where no file has a state."""
    bad: int = 0
    """Files whose bytes are damaged."""
    reason: str = ""
    """What is wrong with the first of them."""


class Maker:
    """Builds the state of one file batch by batch; after anything goes wrong the rest is not looked at.

    budget: the most bytes that it may take.
    """

    def __init__(self, sketch: Sketch, data_type: DataType, *, budget: int | None = None) -> None:
        self._sketch = sketch
        self._type = data_type
        self._budget = budget
        self._state: Any = None
        self._failure = sketch.refusal(data_type)

    def feed(self, values: Callable[[], pa.Array]) -> None:
        """Take in the values of some rows, which may fail to be computed."""
        if self._failure is not None:
            return
        try:
            self._state = self._sketch.add(self._state, values(), self._type)
        except LeftOut as error:
            self._failure = str(error)
        except Exception as error:  # Of a user's own code anything may come.
            self._failure = f"{self._sketch} failed: {type(error).__name__}: {error}"
        if self._failure is not None:
            self._state = None

    def done(self) -> Made:
        """The state of all values that came."""
        if self._failure is not None:
            return Made(None, self._failure)
        if self._state is None:
            return Made(None, "the file holds no rows")
        try:
            data = self._sketch.to_bytes(self._sketch.finish(self._state))
        except LeftOut as error:
            return Made(None, str(error))
        except Exception as error:
            return Made(None, f"{self._sketch} failed: {type(error).__name__}: {error}")
        if self._budget is not None and len(data) > self._budget:
            size = f"{self._sketch} takes {len(data)} bytes of this file"
            return Made(None, f"{size}, where the budget is {self._budget}")
        return Made(data)


def make(sketch: Sketch, batches: Iterable[pa.Array], data_type: DataType, *, budget: int | None = None) -> Made:
    """Build the state of one file from batches of its values, of which one at a time is held.

    budget: the most bytes that it may take.
    """
    maker = Maker(sketch, data_type, budget=budget)
    rest = iter(batches)
    while True:
        try:
            values = next(rest)
        except StopIteration:
            return maker.done()
        except LeftOut as error:
            return Made(None, str(error))
        except Exception as error:
            return Made(None, f"{sketch} failed: {type(error).__name__}: {error}")
        maker.feed(lambda values=values: values)  # type: ignore[misc]


def within(made: Sequence[Mapping[int, Made]], budget: int, taken: int) -> list[dict[int, Made]]:
    """The states of files that sketches were made of, without the largest, so that all fit into a budget.

    taken: the bytes of it that other states take. What does not fit has the reason instead.
    """
    found = [dict(states) for states in made]
    sizes = [
        (len(state.data), number, file)
        for number, states in enumerate(made)
        for file, state in states.items()
        if state.data is not None
    ]
    for size, number, file in sorted(sizes):
        taken += size
        if taken > budget:
            text = f"its {size} bytes do not fit, where the budget of all states is {budget}"
            found[number][file] = Made(None, text)
    return found


def read(sketch: Sketch, blobs: Sequence[bytes | None]) -> Read:
    """Read the states of many files, once for many questions; None is a file without one, and so are damaged bytes."""
    states: list[Any] = []
    bad, reason = 0, ""
    for data in blobs:
        try:
            states.append(None if data is None else sketch.from_bytes(data))
        except Exception as error:
            states.append(None)
            bad, reason = bad + 1, reason or str(error)
    try:
        return Read(sketch.stack(states) if any(state is not None for state in states) else None, bad, reason)
    except Exception as error:
        return Read(None, len(states), f"{sketch} failed: {type(error).__name__}: {error}")


def ask(sketch: Sketch, parts: Sequence[Predicate], terms: Sequence[Term], found: Read, files: int) -> Answer | None:
    """Which of the files might hold a row for which all these parts of one AND are true; None where it cannot tell.

    parts: those that are no leaves are passed over, and ANDs among them are opened. terms: what the sketch is on.
    The answer holds for where the AND, or a leaf alone, may be *true*: never for where it may be false.
    """
    known = parts_of(parts)
    if found.stack is None or not known:
        return None
    try:
        answer = sketch.might_match_all(known, terms, found.stack)
    except Exception:
        return None
    if answer is None or answer.may_match.shape != (files,) or answer.may_match.dtype != np.bool_:
        return None
    return answer


_OPPOSITES = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def parts_of(parts: Sequence[Predicate]) -> list[Part]:
    """The leaves, and the negations of leaves, that must all be true, comparisons without NOT.

    >>> from zskip.predicate import Column, Constant
    >>> least = Compare("<", Column(("a",), DataType("long")), 3)
    >>> [part.op for part in parts_of([And((Not(least), Constant(True))), least])]
    ['>=', '<']
    """
    found: list[Part] = []
    todo = list(reversed(parts))
    while todo:
        part = todo.pop()
        inner = part.child if isinstance(part, Not) else part
        if isinstance(part, And):
            todo += reversed(part.children)
        elif isinstance(part, Not) and isinstance(inner, Not):
            todo.append(inner.child)
        elif isinstance(part, Not) and isinstance(inner, Compare) and inner.op in _OPPOSITES:
            found.append(Compare(_OPPOSITES[inner.op], inner.term, inner.value))
        elif isinstance(inner, TermLeaf) and isinstance(part, TermLeaf | Not):
            found.append(part)
    return found
