"""Sketches as the index uses them: a failing sketch is left out with a reason, and its files are kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from zskip.predicate import And, Compare, Not, Predicate, Term, TermLeaf
from zskip.sketch.base import Answer, LeftOut, Part, Sketch
from zskip.types import DataType


@dataclass(frozen=True, slots=True)
class BuiltState:
    """The state of one file as bytes, or the reason why there is none."""

    data: bytes | None
    reason: str = ""
    seconds: float = 0.0
    """Of a processor, to build it from the values."""


class StateBuilder:
    """Builds the state of one file batch by batch; after an error it ignores further batches.

    budget: the most bytes that the state may take.
    """

    def __init__(self, sketch: Sketch, data_type: DataType, *, budget: int | None = None) -> None:
        self._sketch = sketch
        self._type = data_type
        self._budget = budget
        self._state: Any = None
        self._failure = sketch.refusal(data_type)
        self.seconds = 0.0
        """Spent in `feed`."""

    def feed(self, values: Callable[[], pa.Array]) -> None:
        """Add the values of some rows; computing them may fail."""
        if self._failure is not None:
            return
        started = time.perf_counter()
        try:
            self._state = self._sketch.add(self._state, values(), self._type)
        except LeftOut as error:
            self._failure = str(error)
        except Exception as error:  # A user's code may raise anything.
            self._failure = f"{self._sketch} failed: {type(error).__name__}: {error}"
        if self._failure is not None:
            self._state = None
        self.seconds += time.perf_counter() - started

    def finish(self) -> BuiltState:
        """Return the state of all values."""
        if self._failure is not None:
            return BuiltState(None, self._failure)
        if self._state is None:
            return BuiltState(None, "the file holds no rows")
        try:
            data = self._sketch.to_bytes(self._sketch.finish(self._state))
        except LeftOut as error:
            return BuiltState(None, str(error))
        except Exception as error:
            return BuiltState(None, f"{self._sketch} failed: {type(error).__name__}: {error}")
        if self._budget is not None and len(data) > self._budget:
            size = f"{self._sketch} takes {len(data)} bytes of this file"
            return BuiltState(None, f"{size}, where the budget is {self._budget}")
        return BuiltState(data)


def fit_budget(built: Sequence[Mapping[int, BuiltState]], budget: int, taken: int) -> list[dict[int, BuiltState]]:
    """Drop the largest of the states that were built, so that the rest fit into a budget.

    taken: the bytes of the budget that other states take. A dropped state is replaced by the reason.
    """
    fitting = [dict(states) for states in built]
    sizes = [
        (len(state.data), number, file)
        for number, states in enumerate(built)
        for file, state in states.items()
        if state.data is not None
    ]
    for size, number, file in sorted(sizes):
        taken += size
        if taken > budget:
            text = f"its {size} bytes do not fit, where the budget of all states is {budget}"
            fitting[number][file] = BuiltState(None, text)
    return fitting


def read_states(sketch: Sketch, blobs: Sequence[bytes | None]) -> Any:
    """Stack the states of many files for many queries; None and damaged bytes are files without a state.

    Returns None if no file has a state, or they cannot be stacked.
    """
    states: list[Any] = []
    for data in blobs:
        states.append(None)
        if data is not None:
            with suppress(Exception):
                states[-1] = sketch.from_bytes(data)
    with suppress(Exception):
        return sketch.stack(states) if any(state is not None for state in states) else None


def ask(sketch: Sketch, part: Predicate, terms: Sequence[Term], stack: Any, files: int) -> Answer | None:
    """Tell which files might hold a row that makes a leaf, its negation, or an AND true; None if it cannot tell.

    part: nested ANDs are flattened, other nodes than leaves are ignored. terms: of the sketch; stack: from
    `read_states`. The answer says where the AND may be *true*, never where it may be false.
    """
    parts = parts_of(part)
    if stack is None or not parts:
        return None
    try:
        answer = sketch.might_match_all(parts, terms, stack)
    except Exception:
        return None
    if answer is None or answer.may_match.shape != (files,) or answer.may_match.dtype != np.bool_:
        return None
    return answer


_OPPOSITES = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def parts_of(predicate: Predicate) -> list[Part]:
    """Collect the leaves and negated leaves that must all be true, with NOT removed from comparisons.

    >>> from zskip.predicate import Column, Constant
    >>> least = Compare("<", Column(("a",), DataType("long")), 3)
    >>> [part.op for part in parts_of(And((And((Not(least), Constant(True))), least)))]
    ['>=', '<']
    """
    leaves: list[Part] = []
    todo = [predicate]
    while todo:
        part = todo.pop()
        inner = part.child if isinstance(part, Not) else part
        if isinstance(part, And):
            todo += reversed(part.children)
        elif isinstance(part, Not) and isinstance(inner, Not):
            todo.append(inner.child)
        elif isinstance(part, Not) and isinstance(inner, Compare) and inner.op in _OPPOSITES:
            leaves.append(Compare(_OPPOSITES[inner.op], inner.term, inner.value))
        elif isinstance(inner, TermLeaf) and isinstance(part, TermLeaf | Not):
            leaves.append(part)
    return leaves
