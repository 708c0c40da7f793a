"""The text that a workload records for a predicate."""

from __future__ import annotations

from collections.abc import Iterable

from zskip.predicate import And, In, Not, Or, Predicate, conjunction, conjuncts, to_sql

_VALUES = 64
"""Values to keep of a long IN. Its ends stay, so it meets about as many files."""


def text_of(predicates: Iterable[Predicate]) -> str:
    """All of these as SQL in UTC, the parts in order, so that one predicate has one text."""
    parts = [part for predicate in predicates for part in conjuncts(predicate)]
    texts = {to_sql(part): part for part in map(_thin_out, parts)}
    return to_sql(conjunction(tuple(texts[text] for text in sorted(texts))))


def _thin_out(predicate: Predicate) -> Predicate:
    if isinstance(predicate, And | Or):
        return type(predicate)(tuple(map(_thin_out, predicate.children)))
    if isinstance(predicate, Not):
        return Not(_thin_out(predicate.child))
    if isinstance(predicate, In) and len(predicate.values) > _VALUES:
        last = len(predicate.values) - 1
        positions = sorted({i * last // (_VALUES - 1) for i in range(_VALUES)})
        return In(predicate.term, tuple(predicate.values[i] for i in positions))
    return predicate
