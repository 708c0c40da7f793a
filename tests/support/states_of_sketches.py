"""States of sketches built from Arrow arrays, and what they answer for the parts of an AND."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from zskip.predicate import And, Predicate, Term
from zskip.sketch import Answer, BuiltState, Sketch, SketchOn, StateBuilder, guard
from zskip.types import DataType


def build_state(
    sketch: Sketch, batches: Iterable[pa.Array], data_type: DataType, *, budget: int | None = None
) -> BuiltState:
    """The state of one file with these values."""
    builder = StateBuilder(sketch, data_type, budget=budget)
    for values in batches:
        builder.feed(lambda values=values: values)  # type: ignore[misc]
    return builder.finish()


def ask(sketch: Sketch, parts: Sequence[Predicate], terms: Sequence[Term], states: Any, files: int) -> Answer | None:
    return guard.ask(sketch, And(tuple(parts)), terms, states, files)


def ask_on(on: SketchOn, parts: Sequence[Predicate], states: Any, files: int) -> Answer | None:
    return ask(on.sketch, parts, on.terms, states, files)
