"""Choose sketches for a workload, by the bytes that queries do not read for each byte that is kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from zskip.predicate import (
    And,
    Compare,
    Contains,
    EndsWith,
    Exists,
    In,
    IsNull,
    Leaf,
    Like,
    Not,
    Predicate,
    StartsWith,
    conjuncts,
    nodes,
    term_sql,
    to_sql,
)
from zskip.records import Bools, Floats, SketchChoice
from zskip.units import show_size

_MOST_SPECS, _MOST_CONDITIONS = 40, 24
"""Sketches to try: of values, and of whole conditions."""
_LEAST_SHARE = 0.002
"""Of what a query reads; a new sketch that saves less is not worth it."""
_STAY = 2.0
"""What a sketch saves counts so many times where it is built already, so that equals do not take turns."""
_KINDS: tuple[tuple[type | tuple[type, ...], tuple[str, ...]], ...] = (
    ((Compare, In), ("bloom(0.01)", "values(100)", "ranges(8)")),
    (StartsWith, ("prefix(4)", "values(100)", "ngram(3)")),
    ((Contains, EndsWith, Like), ("values(100)", "ngram(3)")),
)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SketchTrial:
    """A sketch of some files, as the queries of a workload would use it."""

    spec: str
    kept: Bools
    """(queries, files of the sample) whether a query reads the file."""
    bytes: int
    """Of the states of all files."""
    seconds: float = 0.0
    """Of a processor, to build them."""
    saved: int | None = None
    """As in `SketchChoice`; None where it is not built yet."""


def specs_for(predicates: Sequence[Predicate], reads: Floats, scans: Floats) -> dict[str, list[int]]:
    """The sketches that may serve some predicates, each with the positions of those.

    reads: (predicates,) the share of the workload's bytes that each reads today; scans: how often each was seen. Of too
    many, those of the predicates that read most are taken. One condition alone is worth a sketch if it repeats.
    """
    served: dict[str, list[int]] = defaultdict(list)
    conditions: dict[str, list[int]] = defaultdict(list)
    for i, predicate in enumerate(predicates):
        for spec in dict.fromkeys(_value_specs(predicate)):
            served[spec].append(i)
        for spec in dict.fromkeys(_condition_specs(predicate)):
            conditions[spec].append(i)
    repeated = {spec: at for spec, at in conditions.items() if scans[at].sum() > 1}
    return _most_read(served, reads, _MOST_SPECS) | _most_read(repeated, reads, _MOST_CONDITIONS)


def _most_read(served: dict[str, list[int]], reads: Floats, most: int) -> dict[str, list[int]]:
    return dict(sorted(served.items(), key=lambda item: -float(reads[item[1]].sum()))[:most])


def _value_specs(predicate: Predicate) -> Iterator[str]:
    for node in nodes(predicate):
        leaf = node.test if isinstance(node, Exists) else node
        for part in nodes(leaf):
            kinds = next((kinds for types, kinds in _KINDS if isinstance(part, types)), ())
            for kind in kinds if isinstance(part, Leaf) and not isinstance(part, Exists) else ():
                yield f"{kind}:{term_sql(part.term)}"  # type: ignore[union-attr]


def _condition_specs(predicate: Predicate) -> Iterator[str]:
    """The parts of a predicate that no sketch of values serves for certain; the whole, which serves fewer filters."""
    yield from (f"matches:{to_sql(part)}" for part in conditions_in(predicate))
    parts = tuple(conjuncts(predicate))
    if len(parts) > 1:
        yield f"matches:{to_sql(And(parts))}"


def conditions_in(predicate: Predicate) -> Iterator[Predicate]:
    """Yield the conjuncts of which no bounds or sketches of values tell for certain."""
    for part in conjuncts(predicate):
        inner = part.child if isinstance(part, Not) else part
        if not isinstance(inner, Compare | In | IsNull | StartsWith):
            yield part


def choose_sketches(
    trials: Sequence[SketchTrial], reads: Floats, budget: int, seconds: float
) -> tuple[SketchChoice, ...]:
    """Choose sketches, each for what it saves beside those before it; what is built and not chosen is to be dropped.

    reads: (queries, files of the sample) the bytes that a file stands for in the mean of the workload's queries, 0
    where it is not read; budget: bytes of all chosen sketches; seconds: of a processor, to build the new ones.
    """
    choices: list[SketchChoice] = []
    left, remaining, total = reads.copy(), list(trials), max(float(reads.sum()), 1e-9)
    while True:
        saves = [float(left[~trial.kept].sum()) for trial in remaining]
        ratios = [
            (_STAY if trial.saved is not None else 1.0) * saved / max(trial.bytes, 1)
            if trial.bytes <= budget and trial.seconds <= seconds and saved > _least(trial, total)
            else 0.0
            for trial, saved in zip(remaining, saves, strict=True)
        ]
        if not any(ratios):
            break
        best = int(np.argmax(ratios))
        trial = remaining.pop(best)
        choices.append(_choice(trial, "build" if trial.saved is None else "keep", saves[best], total))
        left = np.where(trial.kept, left, 0.0)
        budget, seconds = budget - trial.bytes, seconds - trial.seconds
    return (*choices, *(_choice(trial, "drop", 0.0, total) for trial in remaining if trial.saved is not None))


def _least(trial: SketchTrial, total: float) -> float:
    """The bytes that a sketch has to save in the mean query, which reads `total`."""
    return 0.0 if trial.saved is not None else max(_LEAST_SHARE * total, float(trial.bytes))


def _choice(trial: SketchTrial, action: str, saves: float, total: float) -> SketchChoice:
    return SketchChoice(
        spec=trial.spec, action=action, bytes=trial.bytes, saves=int(saves), share=saves / total, saved=trial.saved
    )


def describe_choice(choice: SketchChoice) -> str:
    """Suggest what a choice would do, in a sentence."""
    size = show_size(choice.bytes)
    if choice.action == "drop":
        return f'No query needs {choice.spec} any more: Table.index(drop=["{choice.spec}"]) frees {size}.'
    saves = f"saves a query {show_size(choice.saves)} on average, {100 * choice.share:.1f} % of what it reads"
    if choice.action == "keep":
        return f"{choice.spec} takes {size} and {saves}: keep it."
    return f'Table.index(sketches=["{choice.spec}"]) takes about {size} and {saves}.'
